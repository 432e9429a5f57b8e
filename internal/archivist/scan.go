package archivist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/proofgraph"
)

const (
	block    = 1 << 13 // entries from one tree that is kept to the next
	interval = 1 << 10 // entries from one time that is kept to the next
)

// A scan is what is kept of lines that were read once, from the first on.
type scan struct {
	store    proofgraph.Store
	document func(contracts.Digest) []byte
	size     uint64 // lines so far
	latest   contracts.Time
	times    []contracts.Time     // the latest below each multiple of interval
	trees    [][]contracts.Digest // nodes of the tree of the entries below each multiple of block
	tree     *proofgraph.Tree     // of all lines; the log's own while that is opened
	policies map[contracts.Digest]uint64
	stacks   map[uint64]*stack // by the index of the policy entry
	byName   map[string]*stack // by the digests of their documents
	reader   contracts.Reader
}

// A stack is the part of a policy that says what may go. Overlays say nothing of it.
type stack struct {
	documents []contracts.PolicyDocument
	terms     *condense.Terms // nil until they are read
}

func newScan(store proofgraph.Store, document func(contracts.Digest) []byte) scan {
	return scan{store: store, document: document, times: make([]contracts.Time, 1),
		trees: make([][]contracts.Digest, 1), tree: new(proofgraph.Tree), policies: make(map[contracts.Digest]uint64),
		stacks: make(map[uint64]*stack), byName: make(map[string]*stack)}
}

// add adds the next line. tree is that of all lines with it, or nil if it is to be computed.
func (s *scan) add(hash contracts.Digest, at contracts.Time, tree *proofgraph.Tree) {
	if tree != nil {
		s.tree = tree
	} else {
		s.tree.Append(hash)
	}
	s.latest = max(s.latest, at)
	s.size++
	if s.size%interval == 0 {
		s.times = append(s.times, s.latest)
	}
	if s.size%block == 0 {
		s.trees = append(s.trees, s.tree.Nodes())
	}
}

// opened ends the time in which the tree is the log's own.
func (s *scan) opened() {
	tree := *s.tree
	s.tree = &tree
}

// policy adds the policy of the entry at an index.
func (s *scan) policy(index uint64, p *contracts.PolicyRecord) {
	var documents []contracts.PolicyDocument
	var name []byte
	for _, d := range p.Documents {
		if d.Layer != "P2" {
			documents = append(documents, contracts.PolicyDocument{Digest: d.Digest, Layer: d.Layer})
			name = append(append(name, d.Layer...), d.Digest[:]...)
		}
	}
	x := s.byName[string(name)]
	if x == nil {
		x = &stack{documents: documents}
		s.byName[string(name)] = x
	}
	s.policies[p.Policy], s.stacks[index] = index, x
}

func (s *scan) policyOf(hash contracts.Digest) (uint64, bool) {
	index, ok := s.policies[hash]
	return index, ok
}

// terms returns the terms of the policy entry with that index. A stub may name any index.
func (s *scan) terms(ctx context.Context, policy uint64) (*condense.Terms, error) {
	x := s.stacks[policy]
	if x == nil {
		return nil, fmt.Errorf("entry %d is no policy entry", policy)
	}
	if x.terms != nil {
		return x.terms, nil
	}
	var documents []condense.Document
	for _, d := range x.documents {
		b, err := s.read(ctx, d.Digest)
		if err != nil {
			return nil, fmt.Errorf("the document %s of the policy of entry %d: %w", d.Digest, policy, err)
		}
		documents = append(documents, condense.Document{Layer: d.Layer, Canonical: b})
	}
	x.terms = condense.ReadTerms(documents)
	return x.terms, nil
}

// read returns the bytes of a policy document.
func (s *scan) read(ctx context.Context, digest contracts.Digest) ([]byte, error) {
	b, err := s.store.Blob(ctx, digest)
	if err == nil && crypto.Sum(b) != digest {
		err = proofgraph.ErrDamaged
	}
	if err != nil && s.document != nil {
		if own := s.document(digest); own != nil {
			return own, nil
		}
	}
	return b, err
}

// blocks reads the blocks of entries of which a range has some. After the last line of a block it
// returns an error unless the lines so far are the log's. So lines count only when all were read.
func (s *scan) blocks(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		first, end := from/block*block, min((to+block-1)/block*block, s.size)
		tree, err := proofgraph.NewTree(first, s.trees[first/block])
		if err != nil {
			yield(nil, err)
			return
		}
		for line, err := range s.store.Entries(ctx, first, end) {
			var leaf contracts.Digest
			if err == nil {
				leaf, err = s.reader.Leaf(line)
			}
			if err == nil {
				tree.Append(leaf)
				err = s.isAt(&tree)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
		if tree.Size() != end {
			yield(nil, fmt.Errorf("the store has fewer entries than %d", end))
		}
	}
}

// isAt returns an error if a tree, at the end of a block or of what was scanned, is not the log's.
func (s *scan) isAt(tree *proofgraph.Tree) error {
	n := tree.Size()
	if n == s.size && tree.Root() != s.tree.Root() ||
		n%block == 0 && !slices.Equal(tree.Nodes(), s.trees[n/block]) {
		return fmt.Errorf("%w, below %d", errOther, n)
	}
	return nil
}

var errOther = errors.New("the store has other entries than the log")

// A line is what a scan needs of one.
type line struct {
	hash  contracts.Digest
	time  contracts.Time
	entry *contracts.Statement // nil of a stub
}

func readLine(r *contracts.Reader, e contracts.Entry) (line, error) {
	if contracts.IsStub(e) {
		s, err := r.Stub(e)
		if err != nil {
			return line{}, err
		}
		return line{s.Entry, s.Time, nil}, nil
	}
	sealed, err := r.Open(e)
	if err != nil {
		return line{}, err
	}
	st, err := sealed.Statement()
	if err != nil {
		return line{}, err
	}
	return line{e.Hash(), st.Time, st}, nil
}

// advance scans the lines up to those that a log has. If the store has others the scan ends there,
// until New reads the log.
func (s *scan) advance(ctx context.Context, log *proofgraph.Tree) error {
	size := log.Size()
	for e, err := range s.store.Entries(ctx, s.size, size) {
		if err != nil {
			return err
		}
		x, err := readLine(&s.reader, e)
		if err != nil {
			return fmt.Errorf("entry %d: %w", s.size, err)
		}
		if x.entry != nil && x.entry.Policy != nil {
			s.policy(s.size, x.entry.Policy)
		}
		s.add(x.hash, x.time, nil)
	}
	if s.size != size {
		return fmt.Errorf("the store has fewer entries than %d", size)
	}
	if s.tree.Root() != log.Root() {
		return errOther
	}
	return nil
}

// rootAt returns the root of the log at a size that was scanned.
func (s *scan) rootAt(ctx context.Context, size uint64) (contracts.Digest, error) {
	if size == s.size {
		return s.tree.Root(), nil
	}
	tree, err := proofgraph.NewTree(size/block*block, s.trees[size/block])
	if err != nil {
		return contracts.Digest{}, err
	}
	for e, err := range s.store.Entries(ctx, size/block*block, size) {
		if err != nil {
			return contracts.Digest{}, err
		}
		leaf, err := s.reader.Leaf(e)
		if err != nil {
			return contracts.Digest{}, err
		}
		tree.Append(leaf)
	}
	return tree.Root(), nil
}

package evidence

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// While the caller goes over the entries or blobs of one batch, in order, other goroutines parse or
// fetch the next ones.
const (
	packItems   = 64
	packBytes   = 256 << 10 // if lengths are known; one item alone may be longer
	packWorkers = 4         // each may hold a blob of 64 MiB
)

// newPackQueue returns a queue of a packer's batches.
func newPackQueue[B any](work func() func(*B), fold func(*B) error) *inorder.Queue[B] {
	return inorder.New(min(runtime.GOMAXPROCS(0), packWorkers), packWorkers, work(), work, fold)
}

// An entryBatch is some entries of a store that follow one another.
type entryBatch struct {
	first   uint64
	entries []contracts.Entry
	parsed  []parsed // as far as they could be
	err     error    // of the entry after them
	bytes   int
}

// A parsed is an entry, or the stub of one.
type parsed struct {
	statement *contracts.Statement // nil: it is a stub
	stub      *contracts.Stub      // nil: it is an entry
	hash      contracts.Digest     // of the line
}

// parse parses the entries.
func (b *entryBatch) parse(r *contracts.Reader) {
	for i, e := range b.entries {
		x := parsed{hash: e.Hash()}
		var err error
		if contracts.IsStub(e) {
			x.stub, err = r.Stub(e)
		} else {
			x.statement, err = entry.Open(r, e)
		}
		if err != nil {
			b.err = fmt.Errorf("entry %d: %w", b.first+uint64(i), err)
			return
		}
		b.parsed = append(b.parsed, x)
	}
}

// fold adds the entries to the log, with the trust events and the blobs that they name.
func (p *packer) fold(b *entryBatch) error {
	for i, x := range b.parsed {
		if err := p.add(x); err != nil {
			return fmt.Errorf("entry %d: %w", b.first+uint64(i), err)
		}
	}
	err := b.err
	clear(b.entries)
	clear(b.parsed)
	*b = entryBatch{entries: b.entries[:0], parsed: b.parsed[:0]}
	return err
}

// add adds an entry or a stub. A stub names no blobs that a pack has to have.
func (p *packer) add(x parsed) error {
	if s := x.stub; s != nil {
		return p.log.addStub(s, halfOf(x.hash), p.log.chain(s.Session))
	}
	st := x.statement
	entry.Blobs(st, func(d contracts.Digest, as entry.Role) { p.named[d] |= as })
	if err := p.governed(st); err != nil {
		return err
	}
	p.sets.note(st, p.log.size())
	return p.log.add(x.hash, st, p.log.chain(st.Session))
}

// read folds the entries of the store up to its checkpoint.
func (p *packer) read(ctx context.Context) error {
	q := newPackQueue(func() func(*entryBatch) {
		r := new(contracts.Reader)
		return func(b *entryBatch) { b.parse(r) }
	}, p.fold)
	defer q.End()
	sum := crypto.NewSum()
	index := uint64(0)
	for e, err := range p.store.Entries(ctx, 0, p.size) {
		if err != nil {
			if bad := q.Drain(); bad != nil {
				return bad // of an earlier entry
			}
			return fmt.Errorf("entry %d: %w", index, err)
		}
		sum.Write(e)
		sum.Write(lineEnd)
		p.entries.Bytes += uint64(len(e)) + 1
		b := q.Next()
		b.first = index - uint64(len(b.entries))
		b.entries, b.bytes = append(b.entries, e), b.bytes+len(e)
		if len(b.entries) == packItems || b.bytes >= packBytes {
			if err := q.Push(); err != nil {
				return err
			}
		}
		index++
	}
	if err := q.Drain(); err != nil {
		return err
	}
	if p.log.size() != p.size {
		return fmt.Errorf("the store has %d entries, its checkpoint is of %d", p.log.size(), p.size)
	}
	if p.entries.Bytes > ustar.MaxMember {
		return errors.New("the entries are more than 8 GiB - 1: condense the log first")
	}
	sum.Sum(p.entries.SHA256[:0])
	return nil
}

// A blobBatch is some blobs whose sizes are wanted.
type blobBatch struct {
	names []contracts.Digest
	sizes []int64 // -1: it is not there
	err   error   // of the blob after them
}

// look finds out which of the named blobs the store has, and how long they are. Their content is
// compared with their names when they are written.
func (p *packer) look(ctx context.Context) error {
	all := make([]contracts.Digest, 0, len(p.named))
	for d := range p.named {
		all = append(all, d)
	}
	slices.SortFunc(all, entry.Compare)
	measure := func(b *blobBatch) {
		for _, d := range b.names {
			content, err := p.store.Blob(ctx, d)
			size := int64(len(content))
			switch {
			case errors.Is(err, proofgraph.ErrNoBlob) && !p.named[d].Required():
				size = -1
			case err != nil:
				b.err = fmt.Errorf("blob %s: %w", d, err)
				return
			case size > maxBlob:
				b.err = fmt.Errorf("blob %s is longer than any may be", d)
				return
			}
			b.sizes = append(b.sizes, size)
		}
	}
	q := newPackQueue(func() func(*blobBatch) { return measure }, func(b *blobBatch) error {
		for i, size := range b.sizes {
			if size >= 0 {
				p.blobs = append(p.blobs, kept{b.names[i], size})
			}
		}
		err := b.err
		*b = blobBatch{sizes: b.sizes[:0]}
		return err
	})
	defer q.End()
	for names := range slices.Chunk(all, packItems) {
		q.Next().names = names
		if err := q.Push(); err != nil {
			return err
		}
	}
	return q.Drain()
}

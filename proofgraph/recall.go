package proofgraph

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/hashes"
)

// begin makes the log that of a prefix, as far as the store has it.
func (r *restoring) begin(p *Prefix) error {
	tree, err := p.Tree()
	switch {
	case err != nil:
		return err
	case p.Size == 0 || p.Size > r.size:
		return fmt.Errorf("of %d entries, and the log has %d", p.Size, r.size)
	case uint64(len(p.Forgotten)) > (p.Size+7)/8:
		return errors.New("entries are forgotten that it does not have")
	}
	r.tree, r.queue.size, r.index.first, r.genesis, r.last = tree, p.Size, p.Size, p.Genesis, p.Last
	r.older = older{r.store, p.Size, tree.Root(), map[contracts.Digest]EntryAt{}, slices.Clone(p.Forgotten)}
	if err := r.chainsOf(p); err != nil {
		return err
	}
	for _, e := range p.Unanswered {
		if e.Index >= p.Size || e.Lamport > e.Index {
			return errors.New("an ALLOW that it does not have")
		}
		r.older.known[e.Hash] = e
		if r.unanswered != nil {
			r.unanswered[e.Hash] = e
		}
	}
	if err := r.isOf(p); err != nil {
		return err
	}
	return r.hasMark()
}

// chainsOf makes the chains those of a prefix.
func (r *restoring) chainsOf(p *Prefix) error {
	for _, c := range p.Open {
		if c.Index >= p.Size || c.Lamport > c.Index || r.chains[c.Session] != nil {
			return fmt.Errorf("the session %q is twice in it, or has an entry that it does not have", c.Session)
		}
		*r.Chain(c.Session) = Chain{log: r.Log, session: c.Session, next: c.Next, last: c.Last, lamport: c.Lamport,
			time: c.Time, end: c.Index}
	}
	for _, c := range p.Closed {
		if c.Index >= p.Size || r.chains[c.Session] != nil {
			return fmt.Errorf("the session %q is twice in it, or has an entry that it does not have", c.Session)
		}
		chain := r.Chain(c.Session)
		chain.closed, chain.end = true, c.Index
	}
	return nil
}

// isOf returns an error if the first or the last entry of a prefix is not the store's, or its nodes
// do not have them.
func (r *restoring) isOf(p *Prefix) error {
	for _, x := range []struct {
		index uint64
		hash  contracts.Digest
	}{{0, p.Genesis}, {p.Size - 1, p.Last}} {
		e, line, err := r.older.readAt(r.ctx, x.index)
		if err == nil && e.Hash != x.hash {
			err = errElsewhere
		}
		if err == nil && x.index == 0 {
			err = r.isGenesis(line)
		}
		if err == nil {
			err = r.older.proved(e)
		}
		if err == errNoHashes { // then the nodes are the caller's to compare
			err = nil
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", x.index, err)
		}
	}
	return nil
}

func (r *restoring) isGenesis(line contracts.Entry) error {
	st, err := openEntry(&r.reader, line)
	if err != nil {
		return err
	}
	if st.Genesis == nil {
		return errors.New("genesis is the first entry and no other")
	}
	return isFirst(st, r.origin)
}

// hasMark returns an error if the store's checkpoint, where that is of the prefix or a part of it,
// is of other entries. A part can be told if the store has the hashes.
func (r *restoring) hasMark() (err error) {
	size, mark := r.older.size, r.mark
	other := errors.New("the store's checkpoint is of other entries")
	if mark.Size == size && mark.Root != r.older.root {
		return other
	}
	hashes, ok := r.store.(tlog.HashReader)
	if mark.Size == 0 || mark.Size >= size || !ok {
		return nil
	}
	defer contain.Error(&err, "ReadHashes")
	proof, err := tlog.ProveTree(int64(size), int64(mark.Size), hashes)
	if err == nil && tlog.CheckTree(proof, int64(size), tlog.Hash(r.older.root), int64(mark.Size),
		tlog.Hash(mark.Root)) != nil {
		err = other
	}
	return err
}

// parent returns index and Lamport time of an entry that a line names.
func (r *restoring) parent(hash contracts.Digest) (index, lamport uint64, err error) {
	index, lamport, ok := r.lookup(hash)
	if !ok && r.older.size > 0 && !r.recalled {
		if err := r.recall(); err != nil {
			return 0, 0, err
		}
		index, lamport, ok = r.lookup(hash)
	}
	if !ok {
		return 0, 0, ErrUnknownParent
	}
	return index, lamport, nil
}

// lamportAt returns the Lamport time of an entry before, which a stub names by its index.
func (r *restoring) lamportAt(index uint64) (uint64, error) {
	if index >= r.older.size {
		if !r.index.found(index) {
			return 0, ErrUnknownParent
		}
		return uint64(r.index.at(int(index - r.index.first)).lamport), nil
	}
	if r.older.gone(index) {
		return 0, ErrUnknownParent
	}
	e, _, err := r.older.readAt(r.ctx, index)
	if err == nil {
		err = r.older.prove(r.ctx, e)
	}
	return e.Lamport, err
}

// hashAt returns the hash of an ALLOW that has no receipt yet.
func (r *restoring) hashAt(index uint64) contracts.Digest {
	if index >= r.older.size {
		return r.index.Hash(index)
	}
	for hash, e := range r.unanswered {
		if e.Index == index {
			return hash
		}
	}
	return contracts.Digest{}
}

// recall finds the older entries that lines from here on name. Most logs name none but those that
// the prefix says: a call that was running when it was made, a later one that names an old one.
func (r *restoring) recall() error {
	r.recalled = true
	wanted, err := r.named()
	if err != nil || len(wanted) == 0 {
		return err
	}
	known, err := r.search(wanted)
	if err != nil || len(known) < len(wanted) { // by the entries
		if known, err = r.older.pass(r.ctx, wanted); err != nil {
			return err
		}
	}
	for hash, e := range known {
		r.older.known[hash] = e
	}
	return nil
}

// named returns what lines from here on name and is not known, nor a line among them.
func (r *restoring) named() (map[contracts.Digest]bool, error) {
	wanted, seen := map[contracts.Digest]bool{}, map[contracts.Digest]bool{}
	var reader contracts.Reader
	for line, err := range r.store.Entries(r.ctx, r.queue.size, r.size) {
		if err != nil {
			return nil, err
		}
		hash, err := hashes.Leaf(line)
		if err != nil {
			break // the fold will say so
		}
		for _, p := range parentsOf(&reader, line) {
			if _, _, ok := r.lookup(p); !ok && !seen[p] {
				wanted[p] = true
			}
		}
		seen[hash] = true
	}
	return wanted, nil
}

func parentsOf(r *contracts.Reader, line contracts.Entry) []contracts.Digest {
	if contracts.IsStub(line) {
		if s, err := r.Stub(line); err == nil {
			return s.Parents
		}
	} else if sealed, err := r.Open(line); err == nil {
		if st, err := sealed.Statement(); err == nil {
			return st.Parents
		}
	}
	return nil
}

// search finds entries by the store's hashes, from the latest on, since most calls name what was
// not long ago.
func (r *restoring) search(wanted map[contracts.Digest]bool) (map[contracts.Digest]EntryAt, error) {
	const step = 4096
	known := map[contracts.Digest]EntryAt{}
	for to := r.older.size; to > 0 && len(known) < len(wanted); to -= min(to, step) {
		from := to - min(to, step)
		leaves, err := r.leaves(from, to)
		if err != nil {
			return nil, err
		}
		for i, leaf := range leaves {
			if !wanted[contracts.Digest(leaf)] {
				continue
			}
			e, _, err := r.older.readAt(r.ctx, from+uint64(i))
			if err == nil && e.Hash != contracts.Digest(leaf) {
				err = errElsewhere
			}
			if err == nil {
				err = r.older.proved(e)
			}
			if err != nil {
				return nil, err
			}
			known[e.Hash] = e
		}
	}
	return known, nil
}

// leaves returns the stored hashes of entries.
func (r *restoring) leaves(from, to uint64) (list []tlog.Hash, err error) {
	defer contain.Error(&err, "ReadHashes")
	reader, ok := r.store.(tlog.HashReader)
	if !ok {
		return nil, errNoHashes
	}
	indexes := make([]int64, 0, to-from)
	for i := from; i < to; i++ {
		indexes = append(indexes, tlog.StoredHashIndex(0, int64(i)))
	}
	list, err = reader.ReadHashes(indexes)
	if err == nil && len(list) != len(indexes) {
		err = errors.New("not as many hashes as were asked for")
	}
	return list, err
}

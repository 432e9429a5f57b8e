// Package proofs proves to others what a log in a store has: that an entry is in it, and that it
// goes on from what it was. Proofs are of RFC 6962.
//
// A store that has the hashes of its log is a [tlog.HashReader]. If it is none, fails, or returns
// hashes that do not fit together, they are computed by a pass over the entries.
//
// No proof is returned before it was checked: the root that it leads to must be the one that leads
// to, or from, the store's latest checkpoint. So of a size up to that checkpoint's a proof is right
// or there is none. Of a larger size, and if the store has no checkpoint, it is checked that the
// proof fits the hashes of the store, and not that these are the entries'. The signature of the
// checkpoint is not verified.
package proofs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/hashes"
	"github.com/helmkernel/helm/proofgraph"
)

// Inclusion returns the proof that the first size entries have the one with that index.
func Inclusion(ctx context.Context, s proofgraph.Store, index, size uint64) (p []contracts.Digest, err error) {
	defer contain.Error(&err, "the store")
	if index >= size {
		return nil, fmt.Errorf("index %d: not below the size, %d", index, size)
	}
	l, err := open(ctx, s, size)
	if err != nil {
		return nil, err
	}
	leaf, err := l.leaf(ctx, index)
	if err != nil {
		return nil, err
	}
	var proof tlog.RecordProof
	n, i := int64(size), int64(index)
	err = l.answer(ctx, func(r tlog.HashReader) (err error) {
		proof, err = tlog.ProveRecord(n, i, r)
		return err
	}, func() error { return tlog.CheckRecord(proof, n, l.root, i, leaf) })
	return digests(proof, err)
}

// Consistency returns the proof that the first to entries begin with the first from.
func Consistency(ctx context.Context, s proofgraph.Store, from, to uint64) (p []contracts.Digest, err error) {
	defer contain.Error(&err, "the store")
	switch {
	case from == 0:
		return nil, errors.New("from 0: every log extends the empty one, so there is no proof of it")
	case from > to:
		return nil, fmt.Errorf("from %d: above %d", from, to)
	}
	l, err := open(ctx, s, to)
	if err != nil {
		return nil, err
	}
	var proof tlog.TreeProof
	var root tlog.Hash // of the first from entries
	n, m := int64(to), int64(from)
	err = l.answer(ctx, func(r tlog.HashReader) (err error) {
		if root, err = tlog.TreeHash(m, r); err == nil {
			proof, err = tlog.ProveTree(n, m, r)
		}
		return err
	}, func() error { return tlog.CheckTree(proof, n, l.root, m, root) })
	return digests(proof, err)
}

// Root returns the root of the first size entries.
func Root(ctx context.Context, s proofgraph.Store, size uint64) (root contracts.Digest, err error) {
	defer contain.Error(&err, "the store")
	l, err := open(ctx, s, size)
	if err != nil {
		return root, err
	}
	nothing := func() error { return nil }
	if err := l.answer(ctx, func(tlog.HashReader) error { return nothing() }, nothing); err != nil {
		return root, err
	}
	return contracts.Digest(l.root), nil
}

func digests[T ~[]tlog.Hash](proof T, err error) ([]contracts.Digest, error) {
	if err != nil {
		return nil, err
	}
	list := make([]contracts.Digest, len(proof))
	for i, h := range proof {
		list[i] = contracts.Digest(h)
	}
	return list, nil
}

// A log is one in a store, while a question about it is answered.
type log struct {
	store proofgraph.Store
	size  int64
	mark  proofgraph.Checkpoint // the store's latest; the zero Checkpoint if it has none

	root   tlog.Hash      // of the first size entries
	marked tlog.Hash      // of those of the checkpoint
	link   tlog.TreeProof // from the smaller of the two to the other
}

// open asks how far the log goes. The checkpoint comes first, since the store may grow.
func open(ctx context.Context, s proofgraph.Store, size uint64) (*log, error) {
	if s == nil {
		return nil, errors.New("no store")
	}
	l := &log{store: s, size: int64(size)}
	note, err := s.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if note != nil {
		if l.mark, _, err = proofgraph.ParseCheckpoint(note); err != nil {
			return nil, err
		}
	}
	switch all, err := s.Size(ctx); {
	case err != nil:
		return nil, err
	case size > all:
		return nil, fmt.Errorf("size %d: the log has %d entries", size, all)
	case l.mark.Size > all:
		return nil, fmt.Errorf("the store's checkpoint is of %d entries, and it has %d", l.mark.Size, all)
	}
	return l, nil
}

func (l *log) leaf(ctx context.Context, index uint64) (tlog.Hash, error) {
	for e, err := range l.store.Entries(ctx, index, index+1) {
		if err != nil {
			return tlog.Hash{}, err
		}
		leaf, err := hashes.Leaf(e)
		if err != nil {
			err = fmt.Errorf("entry %d: %w", index, err)
		}
		return tlog.Hash(leaf), err
	}
	return tlog.Hash{}, fmt.Errorf("entry %d: the store does not return it", index)
}

// answer reads hashes of the tree, and checks them: against each other, and against the checkpoint.
// read must ask for the same hashes each time.
func (l *log) answer(ctx context.Context, read func(tlog.HashReader) error, check func() error) error {
	all := func(r tlog.HashReader) error {
		if err := l.read(r); err != nil {
			return err
		}
		return read(r)
	}
	var need []int64
	if err := all(tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		need = append(need, indexes...)
		return make([]tlog.Hash, len(indexes)), nil
	})); err != nil {
		return err
	}
	slices.Sort(need)
	need = slices.Compact(need)
	try := func(found map[int64]tlog.Hash) error {
		if err := all(reader(found)); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return err
		}
		return check()
	}
	if found, ok := l.kept(need); ok && try(found) == nil {
		return nil
	}
	found, err := hashes.Pass(need, l.store.Entries(ctx, 0, max(uint64(l.size), l.mark.Size)))
	if err != nil {
		return err
	}
	return try(found)
}

// kept returns hashes that the store has.
func (l *log) kept(need []int64) (found map[int64]tlog.Hash, ok bool) {
	defer contain.Value(&ok, false)
	r, ok := l.store.(tlog.HashReader)
	if !ok {
		return nil, false
	}
	list, err := r.ReadHashes(need)
	if err != nil || len(list) != len(need) {
		return nil, false
	}
	found = make(map[int64]tlog.Hash, len(need))
	for i, x := range need {
		found[x] = list[i]
	}
	return found, true
}

// reader returns hashes that were found.
func reader(found map[int64]tlog.Hash) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			h, ok := found[x]
			if !ok {
				return nil, errors.New("the store returned fewer entries than it has")
			}
			list[i] = h
		}
		return list, nil
	})
}

func (l *log) read(r tlog.HashReader) (err error) {
	if l.root, err = tlog.TreeHash(l.size, r); err != nil {
		return err
	}
	mark := int64(l.mark.Size)
	if l.marked, err = tlog.TreeHash(mark, r); err != nil || min(mark, l.size) == 0 {
		return err
	}
	l.link, err = tlog.ProveTree(max(mark, l.size), min(mark, l.size), r)
	return err
}

// check checks the root against the checkpoint.
func (l *log) check() error {
	mark := int64(l.mark.Size)
	if mark == 0 {
		return nil
	}
	other := fmt.Errorf("the store's first %d entries are not those of its checkpoint", mark)
	if l.marked != tlog.Hash(l.mark.Root) {
		return other
	}
	n, root, m, prefix := mark, l.marked, l.size, l.root
	if m > n {
		n, root, m, prefix = m, prefix, n, root
	}
	if m > 0 && tlog.CheckTree(l.link, n, root, m, prefix) != nil {
		return other
	}
	return nil
}

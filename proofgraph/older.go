package proofgraph

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/hashes"
)

// An older is what a log holds of the entries of its prefix: those that were named since, and a bit
// for each that is forgotten. The others are in the store.
type older struct {
	store     Store
	size      uint64
	root      contracts.Digest
	known     map[contracts.Digest]EntryAt
	forgotten []byte
}

func (o *older) lookup(hash contracts.Digest) (index, lamport uint64, ok bool) {
	e, ok := o.known[hash]
	if !ok || o.gone(e.Index) {
		return 0, 0, false
	}
	return e.Index, e.Lamport, true
}

func (o *older) gone(index uint64) bool {
	return index/8 < uint64(len(o.forgotten)) && o.forgotten[index/8]>>(index%8)&1 != 0
}

func (o *older) forget(index uint64) {
	if n := int(index/8) + 1; n > len(o.forgotten) {
		o.forgotten = append(o.forgotten, make([]byte, n-len(o.forgotten))...)
	}
	o.forgotten[index/8] |= 1 << (index % 8)
}

// readAt reads one line.
func (o *older) readAt(ctx context.Context, index uint64) (EntryAt, contracts.Entry, error) {
	for line, err := range o.store.Entries(ctx, index, index+1) {
		if err != nil {
			return EntryAt{}, nil, err
		}
		e, err := entryAt(index, line)
		return e, line, err
	}
	return EntryAt{}, nil, errors.New("the store does not have it")
}

// entryAt returns what a line says of its entry.
func entryAt(index uint64, line contracts.Entry) (EntryAt, error) {
	var r contracts.Reader
	if contracts.IsStub(line) {
		s, err := r.Stub(line)
		if err != nil {
			return EntryAt{}, err
		}
		return EntryAt{index, s.Entry, s.Lamport}, nil
	}
	sealed, bad := r.Open(line)
	if bad != nil {
		return EntryAt{}, bad
	}
	st, bad := sealed.Statement()
	if bad != nil {
		return EntryAt{}, bad
	}
	return EntryAt{index, line.Hash(), st.Lamport}, nil
}

var errElsewhere = errors.New("the store has another entry there than the log")

// prove returns an error if the prefix does not have that entry, by the hashes that the store has,
// or else by its entries.
func (o *older) prove(ctx context.Context, e EntryAt) error {
	if o.proved(e) == nil {
		return nil
	}
	found, err := o.pass(ctx, map[contracts.Digest]bool{e.Hash: true})
	if at, ok := found[e.Hash]; err == nil && (!ok || at.Index != e.Index) {
		err = errElsewhere
	}
	return err
}

var errNoHashes = errors.New("the store has no hashes")

// proved returns nil if the store's hashes prove that the prefix has that entry.
func (o *older) proved(e EntryAt) (err error) {
	defer contain.Error(&err, "ReadHashes")
	r, ok := o.store.(tlog.HashReader)
	if !ok {
		return errNoHashes
	}
	size, index := int64(o.size), int64(e.Index)
	proof, err := tlog.ProveRecord(size, index, r)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(proof, size, tlog.Hash(o.root), index, tlog.Hash(e.Hash))
}

// pass reads all entries of the prefix, and returns those that are wanted.
func (o *older) pass(ctx context.Context, wanted map[contracts.Digest]bool) (map[contracts.Digest]EntryAt, error) {
	var tree Tree
	found := map[contracts.Digest]EntryAt{}
	for line, err := range o.store.Entries(ctx, 0, o.size) {
		if err != nil {
			return nil, err
		}
		index := tree.Size()
		hash, err := hashes.Leaf(line)
		if err == nil && wanted[hash] {
			found[hash], err = entryAt(index, line)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", index, err)
		}
		tree.Append(hash)
	}
	if tree.Size() != o.size || tree.Root() != o.root {
		return nil, errors.New("the store has other entries than the prefix is of")
	}
	return found, nil
}

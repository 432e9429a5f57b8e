// Package hashes computes the hashes of a log's RFC 6962 tree, in the order in which package tlog
// has them stored: after each leaf those of the complete subtrees that it ends.
package hashes

import (
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
)

// Leaf returns the leaf hash of an entry, or of the entry that a stub is left of. Everything that
// hashes what a store returns as an entry calls it.
func Leaf(e contracts.Entry) (contracts.Digest, error) {
	if !contracts.IsStub(e) {
		return e.Hash(), nil
	}
	return new(contracts.Reader).Leaf(e)
}

// A Fold computes the hashes of leaves that are added one by one. It keeps the last node of each
// level. The zero Fold has no leaves.
type Fold struct {
	size  int64
	nodes [64]tlog.Hash // the last complete one of each level
}

// Add adds a leaf, and returns its hash and those of the subtrees that it completes, by level. The
// slice may be changed.
func (f *Fold) Add(leaf contracts.Digest) []tlog.Hash {
	list, err := tlog.StoredHashesForRecordHash(f.size, tlog.Hash(leaf), tlog.HashReaderFunc(f.left))
	if err != nil {
		panic(err) // left returns none
	}
	copy(f.nodes[:], list)
	f.size++
	return list
}

// left returns the nodes to the left of the next leaf's, which are the last ones of their levels.
func (f *Fold) left(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, _ := tlog.SplitStoredHashIndex(x)
		list[i] = f.nodes[level]
	}
	return list, nil
}

// Pass reads entries from the first one on, and returns the hashes with these indexes. Those of
// which there are not enough entries are missing. It keeps no others.
func Pass(indexes []int64, entries iter.Seq2[contracts.Entry, error]) (map[int64]tlog.Hash, error) {
	found := make(map[int64]tlog.Hash, len(indexes))
	wanted := make(map[int64]bool, len(indexes))
	for _, x := range indexes {
		wanted[x] = true
	}
	var f Fold
	next := int64(0)
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		leaf, err := Leaf(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", f.size, err)
		}
		for _, h := range f.Add(leaf) {
			if wanted[next] {
				found[next] = h
			}
			next++
		}
	}
	return found, nil
}

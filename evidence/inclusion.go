package evidence

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// inclusion returns the RFC 6962 proof that the first size entries of a store have the one at an
// index. It reads them all.
func inclusion(ctx context.Context, s proofgraph.Store, index, size uint64) ([]contracts.Digest, error) {
	path, err := tlog.ProveRecord(int64(size), int64(index), subtrees{ctx, s, size})
	if err != nil {
		return nil, err
	}
	hashes := make([]contracts.Digest, len(path))
	for i, h := range path {
		hashes[i] = contracts.Digest(h)
	}
	return hashes, nil
}

// subtrees computes hashes of the tree of a store's first entries from the entries.
type subtrees struct {
	ctx   context.Context
	store proofgraph.Store
	size  uint64
}

func (s subtrees) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	trees := make([]proofgraph.Tree, len(indexes))
	var r contracts.Reader
	at := uint64(0)
	for e, err := range s.store.Entries(s.ctx, 0, s.size) {
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", at, err)
		}
		leaf, err := r.Leaf(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", at, err)
		}
		for i, index := range indexes {
			if level, n := tlog.SplitStoredHashIndex(index); at>>level == uint64(n) {
				trees[i].Append(leaf)
			}
		}
		at++
	}
	hashes := make([]tlog.Hash, len(indexes))
	for i := range trees {
		hashes[i] = tlog.Hash(trees[i].Root())
	}
	return hashes, nil
}

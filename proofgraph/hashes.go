package proofgraph

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/internal/hashes"
)

// A treeHashes is the hashes of a log in memory, in the order of package tlog.
type treeHashes struct {
	fold hashes.Fold
	size int // entries that were added
	all  pages[tlog.Hash]
}

// ReadHashes returns hashes of the log's RFC 6962 tree by their indexes in the order of package
// tlog ([tlog.StoredHashIndex]). They are computed when they are first asked for, once for each
// entry, and then take 64 bytes an entry.
func (m *Memory) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	m.mu.RLock()
	entries := m.entries
	m.mu.RUnlock()
	m.hashing.Lock()
	defer m.hashing.Unlock()
	h := &m.hashes
	for ; h.size < entries.n; h.size++ {
		leaf, err := hashes.Leaf(*entries.at(h.size))
		if err != nil {
			return nil, fmt.Errorf("proofgraph: memory store: entry %d: %w", h.size, err)
		}
		for _, x := range h.fold.Add(leaf) {
			h.all.add(x)
		}
	}
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(h.all.n) {
			return nil, fmt.Errorf("proofgraph: memory store: hash %d of %d", x, h.all.n)
		}
		list[i] = *h.all.at(int(x))
	}
	return list, nil
}

package evidence

import (
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
)

// keptLevel is the lowest level of the tree whose nodes are kept. Those below are computed from at
// most 2^keptLevel leaves.
const keptLevel = 6

// rootAt returns the root that the log had at a size.
func (l *log) rootAt(size uint64) contracts.Digest {
	root, err := tlog.TreeHash(int64(size), tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			list[i] = l.node(tlog.SplitStoredHashIndex(x))
		}
		return list, nil
	}))
	if err != nil {
		panic(err) // the reader returns none
	}
	return contracts.Digest(root)
}

// node returns the root of the complete subtree of that number in a level.
func (l *log) node(level int, n int64) tlog.Hash {
	below := func(n int64) tlog.Hash { return tlog.NodeHash(l.node(level-1, 2*n), l.node(level-1, 2*n+1)) }
	switch k := level - keptLevel; {
	case level == 0:
		return tlog.Hash(l.index.Hash(uint64(n)))
	case k < 0:
		return below(n)
	default:
		for len(l.nodes) <= k {
			l.nodes = append(l.nodes, nil)
		}
		for m := int64(len(l.nodes[k])); m <= n; m++ {
			h := below(m)
			l.nodes[k] = append(l.nodes[k], h)
		}
		return l.nodes[k][n]
	}
}

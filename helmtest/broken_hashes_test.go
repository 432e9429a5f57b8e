package helmtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

type hashesFunc func(indexes []int64) ([]tlog.Hash, error)

// A hashing store has a hook before ReadHashes, too.
type hashing struct {
	*hooks
	read hashesFunc
}

func (h hashing) ReadHashes(indexes []int64) ([]tlog.Hash, error) { return h.read(indexes) }

// A condensingHashing store also condenses.
type condensingHashing struct {
	hashing
	condense condenseFunc
}

func (c condensingHashing) Condense(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
	return c.condense(ctx, stubs, blobs)
}

type hashingDoor struct{ hashing }

func (d hashingDoor) Close() error { return d.close() }

// hashed is a store in memory that reads hashes in its own way.
func hashed(how func(m *proofgraph.Memory) hashesFunc) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		s := hashing{&hooks{Store: m}, how(m)}
		return func() proofgraph.Store { return s }
	}
}

// closedHashing is one with a method Close.
func closedHashing(how func(d *door) hashesFunc) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			d := &door{room: m}
			return hashingDoor{hashing{&hooks{Store: d, close: d.Close}, how(d)}}
		}
	}
}

// leavesOf is a store that has hashes of its own idea.
func leavesOf(leaf func(i int, e contracts.Entry) contracts.Digest) func() func() proofgraph.Store {
	return hashed(func(m *proofgraph.Memory) hashesFunc {
		return func(indexes []int64) ([]tlog.Hash, error) {
			n, err := m.Size(forever)
			if err != nil {
				return nil, err
			}
			var leaves []contracts.Digest
			for i, e := range (&hooks{Store: m}).all(0, n) {
				leaves = append(leaves, leaf(i, e))
			}
			return hashesAt(stored(leaves), indexes)
		}
	})
}

var errNoHash = errors.New("no such hash")

// hashesAt returns the hashes with these indexes.
func hashesAt(all []tlog.Hash, indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		if i < 0 || i >= int64(len(all)) {
			return nil, errNoHash
		}
		list = append(list, all[i])
	}
	return list, nil
}

// changed is a store that changes what it has read.
func changed(change func(list []tlog.Hash) []tlog.Hash) func() func() proofgraph.Store {
	return hashed(func(m *proofgraph.Memory) hashesFunc {
		return func(indexes []int64) ([]tlog.Hash, error) {
			list, err := m.ReadHashes(indexes)
			return change(list), err
		}
	})
}

// beyondHashes is a store that has something in the place of hashes that are not there.
func beyondHashes(when func(i int64) bool) func() func() proofgraph.Store {
	return hashed(func(m *proofgraph.Memory) hashesFunc {
		return func(indexes []int64) ([]tlog.Hash, error) {
			list, err := m.ReadHashes(indexes)
			if err != nil && slices.ContainsFunc(indexes, when) {
				return make([]tlog.Hash, len(indexes)), nil
			}
			return list, err
		}
	})
}

var brokenHashes = []breaches{
	{"hashes are those of the log's tree", []breach{
		{"fails", hashed(func(*proofgraph.Memory) hashesFunc {
			return func([]int64) ([]tlog.Hash, error) { return nil, errBroken }
		})},
		{"fails if it is asked for none", hashed(func(m *proofgraph.Memory) hashesFunc {
			return func(indexes []int64) ([]tlog.Hash, error) {
				if len(indexes) == 0 {
					return nil, errBroken
				}
				return m.ReadHashes(indexes)
			}
		})},
		{"hashes entries as other bytes", leavesOf(func(_ int, e contracts.Entry) contracts.Digest {
			return contracts.Digest(tlog.NodeHash(tlog.Hash{}, tlog.RecordHash(e)))
		})},
		{"has one leaf that is another", leavesOf(func(i int, e contracts.Entry) contracts.Digest {
			if i == 17 {
				return contracts.Entry("another").Hash()
			}
			return e.Hash()
		})},
		{"has one too few", changed(func(list []tlog.Hash) []tlog.Hash { return list[:max(len(list), 1)-1] })},
		{"has one more", changed(func(list []tlog.Hash) []tlog.Hash { return append(list, tlog.Hash{}) })},
		{"has them in their own order", hashed(func(m *proofgraph.Memory) hashesFunc {
			return func(indexes []int64) ([]tlog.Hash, error) {
				return m.ReadHashes(slices.Sorted(slices.Values(indexes)))
			}
		})},
		{"has each once", hashed(func(m *proofgraph.Memory) hashesFunc {
			return func(indexes []int64) ([]tlog.Hash, error) {
				return m.ReadHashes(slices.Compact(slices.Sorted(slices.Values(indexes))))
			}
		})},
		{"has leaves alone", hashed(func(m *proofgraph.Memory) hashesFunc {
			return func(indexes []int64) ([]tlog.Hash, error) {
				leaves := slices.Clone(indexes)
				for i, x := range leaves {
					if x < 0 || x >= 1<<40 { // package tlog does not end with the largest
						return nil, errNoHash
					}
					if level, n := tlog.SplitStoredHashIndex(x); level > 0 {
						leaves[i] = tlog.StoredHashIndex(0, n)
					}
				}
				return m.ReadHashes(leaves)
			}
		})},
		{"hands out its own memory", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			kept := map[int][]tlog.Hash{} // by the length of the answer
			read := func(indexes []int64) ([]tlog.Hash, error) {
				list, err := m.ReadHashes(indexes)
				if err != nil || len(list) != 1 || indexes[0] != 0 {
					return list, err
				}
				if kept[1] == nil {
					kept[1] = list
				}
				return kept[1], nil
			}
			return func() proofgraph.Store { return hashing{&hooks{Store: m}, read} }
		}},
		{"knows those that were there when it was asked first", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			var all []tlog.Hash
			read := func(indexes []int64) ([]tlog.Hash, error) {
				for i := int64(0); len(all) < 40; i++ {
					h, err := m.ReadHashes([]int64{i})
					if err != nil {
						return m.ReadHashes(indexes)
					}
					all = append(all[:i], h...)
				}
				return hashesAt(all, indexes)
			}
			return func() proofgraph.Store { return hashing{&hooks{Store: m}, read} }
		}},
		{"hashes stubs as if they were entries", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			h := &hooks{Store: m}
			read := func(indexes []int64) ([]tlog.Hash, error) {
				var leaves []contracts.Digest
				for _, e := range h.all(0, h.len()) {
					leaves = append(leaves, e.Hash())
				}
				return hashesAt(stored(leaves), indexes)
			}
			return func() proofgraph.Store { return condensingHashing{hashing{h, read}, m.Condense} }
		}},
		{"has a hash for what comes next", beyondHashes(func(i int64) bool { return i >= 0 && i < 1<<30 })},
		{"has a hash far away", beyondHashes(func(i int64) bool { return i >= 1<<30 })},
		{"has a hash below all", beyondHashes(func(i int64) bool { return i < 0 })},
		{"leaves out what is not there", hashed(func(m *proofgraph.Memory) hashesFunc {
			return func(indexes []int64) ([]tlog.Hash, error) {
				list, err := m.ReadHashes(indexes)
				if err != nil && len(indexes) > 1 {
					return m.ReadHashes(indexes[:len(indexes)-1])
				}
				return list, err
			}
		})},
		{"reads when it is closed", closedHashing(func(d *door) hashesFunc { return d.room.ReadHashes })},
		{"cannot be closed", func() func() proofgraph.Store {
			m, opened := proofgraph.NewMemory(), 0
			return func() proofgraph.Store {
				d := &door{room: m}
				h := &hooks{Store: d, close: d.Close}
				if opened++; opened > 1 { // the second time
					h.close = func() error { return errBroken }
				}
				return hashingDoor{hashing{h, m.ReadHashes}}
			}
		}},
	}},
	{"hashes are right while others append", []breach{
		{"fails while others append", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			h := &hooks{Store: m}
			var appending atomic.Bool
			var looks atomic.Int64
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				appending.Store(true)
				defer appending.Store(false)
				await(&looks, looks.Load()+2)
				return m.Append(ctx, b)
			}
			read := func(indexes []int64) ([]tlog.Hash, error) {
				looks.Add(1)
				if appending.Load() {
					return nil, errBroken
				}
				return m.ReadHashes(indexes)
			}
			return func() proofgraph.Store { return hashing{h, read} }
		}},
		{"has those of a batch later than the batch", func() func() proofgraph.Store {
			m, late := proofgraph.NewMemory(), proofgraph.NewMemory()
			h := &hooks{Store: m}
			var mu sync.Mutex
			var waiting *proofgraph.Batch
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				if waiting != nil {
					if err := late.Append(ctx, *waiting); err != nil {
						return err
					}
				}
				c := clone(b)
				waiting = &c
				return m.Append(ctx, b)
			}
			return func() proofgraph.Store { return hashing{h, late.ReadHashes} }
		}},
	}},
}

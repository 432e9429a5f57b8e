package helmtest

import (
	"context"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

type entriesFunc = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]

func reads(entries func(h *hooks) entriesFunc) func() func() proofgraph.Store {
	return toy(func(h *hooks) { h.entries = entries(h) })
}

func nothingIsAnError(h *hooks) entriesFunc {
	return func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		if from == to {
			return iterate(nil, errBroken)
		}
		return h.Store.Entries(ctx, from, to)
	}
}

// whenever returns an iteration of its own for some ranges of a store of that size.
func whenever(is func(from, to, size uint64) bool, entries func(h *hooks,
	from, to uint64) iter.Seq2[contracts.Entry, error]) func() func() proofgraph.Store {
	return reads(func(h *hooks) entriesFunc {
		return func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			if is(from, to, h.len()) {
				return entries(h, from, to)
			}
			return h.Store.Entries(ctx, from, to)
		}
	})
}

func isBeyond(from, to, size uint64) bool { return from > to || to > size }
func isWithin(from, to, size uint64) bool { return !isBeyond(from, to, size) }

// locked is busy during a read.
func locked(read func(lock, unlock func(),
	all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error]) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		readers := 0
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			if readers > 0 {
				return errBroken
			}
			return h.Store.Append(ctx, b)
		}
		h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return read(func() { readers++ }, func() { readers-- }, h.Store.Entries(ctx, from, to))
		}
	})
}

var brokenReads = []breaches{
	{"any range of entries is read", []breach{
		{"gives one more", whenever(func(_, to, size uint64) bool { return to < size },
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(h.all(from, to+1), nil)
			})},
		{"begins one later", whenever(func(from, to, size uint64) bool { return 0 < from && from < to && to < size },
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(h.all(from+1, to+1), nil)
			})},
		{"begins at the beginning",
			whenever(isWithin, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(h.all(0, to-from), nil)
			})},
		{"ends at the batch's end", whenever(func(from, to, _ uint64) bool { return from == 0 && to > 5 },
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(h.all(from, 5), nil)
			})},
		{"gives the first entry twice", whenever(func(from, to, size uint64) bool { return from < to && to <= size },
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(append(h.all(from, from+1), h.all(from, to)...), nil)
			})},
		{"has no empty range", reads(nothingIsAnError)},
	}},
	{"a range beyond the end is an error and no entry", []breach{
		{"gives what there is", whenever(isBeyond, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			n := h.len()
			return iterate(h.all(min(from, n), max(min(from, n), min(to, n))), nil)
		})},
		{"gives what there is, and then the error", whenever(isBeyond,
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				n := h.len()
				return iterate(h.all(min(from, n), max(min(from, n), min(to, n))), errBroken)
			})},
		{"takes a range that ends before it begins as empty",
			whenever(func(from, to, _ uint64) bool { return from > to },
				func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
					return iterate(nil, nil)
				})},
		{"takes every empty range as one that is there", whenever(func(from, to, _ uint64) bool { return from == to },
			func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(nil, nil)
			})},
		{"looks at the lower half of an index", whenever(isBeyond,
			func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return h.Store.Entries(context.Background(), uint64(uint32(from)), uint64(uint32(to)))
			})},
		{"says it twice", whenever(isBeyond, func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				for range 2 {
					if !yield(nil, errBroken) {
						return
					}
				}
			}
		})},
	}},
	{"an iteration can be left", []breach{
		{"goes on", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for _, e := range h.all(from, to) {
						yield(e, nil)
					}
				}
			}
		})},
		{"is locked until somebody iterates",
			locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
				lock()
				return func(yield func(contracts.Entry, error) bool) {
					defer unlock()
					all(yield)
				}
			})},
		{"is locked until the iteration comes to its end",
			locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					lock()
					for e, err := range all {
						if !yield(e, err) {
							return
						}
					}
					unlock()
				}
			})},
		{"is locked until the iteration returns, and it panics",
			locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					lock()
					all(yield)
					unlock()
				}
			})},
	}},
	{"the store can be used during an iteration", []breach{
		{"is locked",
			locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					lock()
					defer unlock()
					all(yield)
				}
			})},
		{"ends the iteration when it was written to", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for _, e := range h.all(from, to) {
						if !yield(e, nil) || h.len() != n {
							return
						}
					}
				}
			}
		})},
		{"has an error when it was written to", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for _, e := range h.all(from, to) {
						if h.len() != n {
							yield(nil, errBroken)
							return
						}
						if !yield(e, nil) {
							return
						}
					}
				}
			}
		})},
		{"gives what was written meanwhile, too", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for i := from; i < to+h.len()-n && yield(h.all(i, i+1)[0], nil); i++ {
					}
				}
			}
		})},
		{"has one place to read at", reads(func(h *hooks) entriesFunc {
			var at uint64
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for at = from; at < to && yield(h.all(at, at+1)[0], nil); at++ {
					}
				}
			}
		})},
	}},
}

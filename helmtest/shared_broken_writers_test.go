package helmtest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/helmkernel/helm/proofgraph"
)

// late lets a fenced writer put in another way.
func late(put func(w *writerHooks, c proofgraph.Change) (uint64, error)) func() func() proofgraph.Shared {
	return putsBut(func(w *writerHooks) putFunc {
		return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			at, err := w.Writer.Put(ctx, guess, c)
			if errors.Is(err, proofgraph.ErrFenced) {
				return put(w, c)
			}
			return at, err
		}
	})
}

// fencedBut has another error than ErrFenced for one method.
func fencedBut(method string) func() func() proofgraph.Shared {
	other := func(name string, err error) error {
		if name == method && errors.Is(err, proofgraph.ErrFenced) {
			return errBroken
		}
		return err
	}
	return writerToy(func(w *writerHooks) {
		w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			at, err := w.Writer.Put(ctx, guess, c)
			return at, other("Put", err)
		}
		w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
			s, err := w.Writer.Turn(ctx, a)
			return s, other("Turn", err)
		}
		w.end = func(ctx context.Context, c proofgraph.Change) error {
			return other("End", w.Writer.End(ctx, c))
		}
		w.dead = func(ctx context.Context) ([]uint64, error) {
			open, err := w.Writer.Dead(ctx)
			return open, other("Dead", err)
		}
	})
}

// once writes, or says so, of one put of a fenced writer.
func once(put func(w *writerHooks, c proofgraph.Change) (uint64, error)) func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		done := false
		return late(func(w *writerHooks, c proofgraph.Change) (uint64, error) {
			if done {
				return 0, proofgraph.ErrFenced
			}
			done = true
			return put(w, c)
		})()
	}
}

// settledToo has Dead return what it returned before, too.
func settledToo() func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		var mu sync.Mutex
		var all []uint64
		return deadBut(func(_ *writerHooks, open []uint64) []uint64 {
			mu.Lock()
			defer mu.Unlock()
			all = slices.Compact(slices.Sorted(slices.Values(append(all, open...))))
			return slices.Clone(all)
		})()
	}
}

func backwards(_ *writerHooks, open []uint64) []uint64 {
	slices.Reverse(open)
	return open
}

func none(*writerHooks, []uint64) []uint64 { return nil }

// hasty kills writers when Dead is called: those in their turns alone, or all.
func hasty(inTurn bool) func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		var mu sync.Mutex
		turns, all := map[uint64]bool{}, map[uint64]bool{}
		return writerToy(func(w *writerHooks) {
			id := w.Writer.ID()
			mu.Lock()
			all[id] = true
			mu.Unlock()
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				s, err := w.Writer.Turn(ctx, a)
				mu.Lock()
				defer mu.Unlock()
				turns[id] = err == nil
				return s, err
			}
			w.end = func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				mu.Lock()
				defer mu.Unlock()
				delete(turns, id)
				return err
			}
			w.dead = func(ctx context.Context) ([]uint64, error) {
				mu.Lock()
				for other := range all {
					if other != id && (turns[other] || !inTurn) {
						w.store.Kill(other)
					}
				}
				mu.Unlock()
				return w.Writer.Dead(ctx)
			}
		})()
	}
}

var brokenWriters = []sharedBreaches{
	{"what writers wrote is found when it is opened again", []sharedBreach{
		{"forgets nonces", sharedHandles(func(n int, h *sharedHooks) {
			h.writers = func(w *writerHooks) {
				w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
					s, err := w.Writer.Turn(ctx, a)
					if n%2 == 1 {
						s.Used = nil
					}
					return s, err
				}
			}
		})},
		{"forgets sessions", sharedHandles(func(n int, h *sharedHooks) {
			h.session = func(ctx context.Context, name string, from uint64) iter2 {
				if n > 2 {
					return iteratePlaced(nil, nil)
				}
				return h.Store.Session(ctx, name, from)
			}
		})},
		{"forgets decisions", sharedHandles(func(_ int, h *sharedHooks) {
			h.writers = func(w *writerHooks) {
				w.dead = func(context.Context) ([]uint64, error) { return nil, nil }
			}
		})},
		{"forgets what is settled", settlesMore()},
	}},
	{"open decisions of writers that left are found", []sharedBreach{
		{"forgets them", deadBut(none)},
		{"has them in another order", deadBut(backwards)},
		{"has those that are settled too", settledToo()},
		{"has those of others too", func() func() proofgraph.Shared {
			var opened []uint64
			return writerToy(func(w *writerHooks) {
				w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					at, err := w.Writer.Put(ctx, guess, c)
					for _, i := range c.Opened {
						opened = append(opened, at+uint64(i))
					}
					return at, err
				}
				w.dead = func(context.Context) ([]uint64, error) { return opened, nil }
			})()
		}},
		{"lets a writer that left write", writerToy(func(w *writerHooks) {
			w.leave = func(context.Context) error { return nil }
		})},
		{"says that a writer that left has written", writerToy(func(w *writerHooks) {
			left := false
			w.leave = func(ctx context.Context) error {
				left = true
				return w.Writer.Leave(ctx)
			}
			w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if left {
					return 0, nil
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"lets nobody settle them", mangles(func(c *proofgraph.Change) {
			if len(c.Settled) > 0 && c.Of[0] == "settling" {
				c.Settled = nil
			}
		})},
	}},
	{"a writer that lives is not fenced", []sharedBreach{
		{"fences who is in a turn", hasty(true)},
		{"fences all others", hasty(false)},
		{"never says who is dead", writerToy(func(w *writerHooks) {
			w.dead = func(context.Context) ([]uint64, error) { return nil, errBroken }
		})},
	}},
	{"a dead writer is fenced, and its open decisions are found", []sharedBreach{
		{"finds nobody dead", deadBut(none)},
		{"has them in another order", deadBut(backwards)},
		{"has those that are settled too", settledToo()},
		{"finds all others dead", hasty(false)},
		{"has them once", func() func() proofgraph.Shared {
			seen := map[uint64]bool{}
			return deadBut(func(_ *writerHooks, open []uint64) []uint64 {
				return slices.DeleteFunc(open, func(i uint64) bool {
					was := seen[i]
					seen[i] = true
					return was
				})
			})()
		}},
	}},
	{"a fenced writer changes nothing", []sharedBreach{
		{"puts all the same", late(func(w *writerHooks, c proofgraph.Change) (uint64, error) {
			return 0, slip(w.store, c)
		})},
		{"puts, and says that it is fenced", late(func(w *writerHooks, c proofgraph.Change) (uint64, error) {
			if err := slip(w.store, c); err != nil {
				return 0, err
			}
			return 0, proofgraph.ErrFenced
		})},
		{"keeps blobs", keeps(keptBlobs)},
		{"is moved", late(func(*writerHooks, proofgraph.Change) (uint64, error) { return 0, proofgraph.ErrMoved })},
		{"has another error of Put", fencedBut("Put")},
		{"has another error of Turn", fencedBut("Turn")},
		{"has another error of End", fencedBut("End")},
		{"has another error of Dead", fencedBut("Dead")},
		{"ends a turn all the same", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				if errors.Is(err, proofgraph.ErrFenced) {
					return slip(w.store, c)
				}
				return err
			}
		})},
		{"does not let it leave", writerToy(func(w *writerHooks) {
			w.leave = func(ctx context.Context) error {
				if _, err := w.Writer.Dead(ctx); err != nil {
					return err
				}
				return w.Writer.Leave(ctx)
			}
		})},
	}},
	{"what a writer puts while it dies is found or was not written", []sharedBreach{
		{"writes after it was fenced", once(func(w *writerHooks, c proofgraph.Change) (uint64, error) {
			return 0, slip(w.store, c)
		})},
		{"says that it wrote after it was fenced", once(func(w *writerHooks, c proofgraph.Change) (uint64, error) {
			return 1 << 40, nil
		})},
		{"does not find the last one", deadBut(func(_ *writerHooks, open []uint64) []uint64 {
			return open[:max(len(open), 1)-1]
		})},
		{"finds nobody dead", deadBut(none)},
	}},
}

package helmtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// turnFunc and endFunc are a turn in another way.
type (
	turnFunc = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error)
	endFunc  = func(ctx context.Context, c proofgraph.Change) error
)

func turnsBut(turn func(w *writerHooks) (turnFunc, endFunc)) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) { w.turn, w.end = turn(w) })
}

// unlocked has turns that do not take the log, and writes what they end with.
func unlocked(w *writerHooks) (turnFunc, endFunc) {
	turn := func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
		s, err := w.Writer.Turn(ctx, a)
		if err != nil {
			return s, err
		}
		return s, w.Writer.End(ctx, proofgraph.Change{})
	}
	end := func(ctx context.Context, c proofgraph.Change) error {
		if _, err := w.Writer.Turn(ctx, proofgraph.Ask{Balances: c.Spent}); err != nil {
			return err
		}
		return w.Writer.End(ctx, c)
	}
	return turn, end
}

// busy calls do in each call of a method that begins during a turn.
func busy(do func(h *sharedHooks, inTurn *atomic.Bool)) func() func() proofgraph.Shared {
	return sharedToy(func(h *sharedHooks) {
		inTurn := new(atomic.Bool)
		h.writers = func(w *writerHooks) {
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				s, err := w.Writer.Turn(ctx, a)
				inTurn.Store(err == nil)
				return s, err
			}
			w.end = func(ctx context.Context, c proofgraph.Change) error {
				inTurn.Store(false)
				return w.Writer.End(ctx, c)
			}
		}
		do(h, inTurn)
	})
}

// busyPuts puts in another way, and knows whether there is a turn.
func busyPuts(put func(w *writerHooks, inTurn *atomic.Bool) putFunc) func() func() proofgraph.Shared {
	return busy(func(h *sharedHooks, inTurn *atomic.Bool) {
		turns := h.writers
		h.writers = func(w *writerHooks) {
			turns(w)
			w.put = put(w, inTurn)
		}
	})
}

// endsBut ends turns in another way.
func endsBut(end func(w *writerHooks) endFunc) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) { w.end = end(w) })
}

func isZero(c proofgraph.Change) bool {
	return len(c.Entries) == 0 && len(c.Blobs) == 0 && c.Checkpoint == nil && len(c.Used)+len(c.Settled) == 0
}

var brokenTurns = []sharedBreaches{
	{"a turn returns what it was asked, in order", []sharedBreach{
		{"sorts nonces", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) { slices.Sort(s.Used) })},
		{"returns all nonces", answersBut(func(a proofgraph.Ask, s *proofgraph.State) { s.Used = a.Nonces })},
		{"sorts balances", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) {
			slices.SortFunc(s.Spent, func(a, b contracts.Balance) int { return int(a.Spent) - int(b.Spent) })
		})},
		{"leaves out balances that were not charged", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) {
			s.Spent = slices.DeleteFunc(s.Spent, func(b contracts.Balance) bool { return b.Spent == 0 })
		})},
		{"reads Spent of what is asked", answersBut(func(a proofgraph.Ask, s *proofgraph.State) {
			for i := range s.Spent {
				s.Spent[i].Spent = max(s.Spent[i].Spent, a.Balances[i].Spent)
			}
		})},
		{"does not look at windows", writerToy(func(w *writerHooks) {
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				asked := slices.Clone(a.Balances)
				for i := range asked {
					if asked[i].Window != "" {
						asked[i].Window = "2026-01"
					}
				}
				s, err := w.Writer.Turn(ctx, proofgraph.Ask{Sessions: a.Sessions, Balances: asked, Nonces: a.Nonces})
				for i := range s.Spent {
					s.Spent[i].Window = a.Balances[i].Window
				}
				return s, err
			}
		})},
		{"leaves out sessions that are not there", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) {
			maps.DeleteFunc(s.Sessions, func(_ string, end proofgraph.End) bool { return end.Next == 0 })
		})},
		{"returns a session that was not asked for", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) {
			s.Sessions["a"] = proofgraph.End{}
		})},
		{"does not know the size", answersBut(func(_ proofgraph.Ask, s *proofgraph.State) { s.Size = 0 })},
		{"knows Kernel if it was asked for the session", answersBut(func(a proofgraph.Ask, s *proofgraph.State) {
			if !slices.Contains(a.Sessions, "") {
				s.Kernel = 0
			}
		})},
		{"has one answer", writerToy(func(w *writerHooks) {
			first := true
			var state proofgraph.State
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				s, err := w.Writer.Turn(ctx, a)
				if !first {
					s.Sessions = state.Sessions
				}
				first, state = false, s
				return s, err
			}
		})},
	}},
	{"the zero change ends a turn and changes nothing", []sharedBreach{
		{"refuses it", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				if isZero(c) {
					return errBroken
				}
				return err
			}
		})},
		{"takes it as an entry", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				if isZero(c) {
					c.Entries, c.Of = []contracts.Entry{nil}, []string{"zero"}
					c.Sessions = map[string]proofgraph.End{
						"zero": {Next: uint64(len(slices.Collect(maps.Keys(c.Sessions)))) + 1},
					}
				}
				return w.Writer.End(ctx, c)
			}
		})},
		{"takes no checkpoint as an empty one", mangles(func(c *proofgraph.Change) {
			c.Checkpoint = append([]byte{}, c.Checkpoint...)
		})},
		{"keeps the turn", keepsTurn(func(c proofgraph.Change, _ error) bool { return isZero(c) })},
	}},
	{"the change of a turn is whole or not there", []sharedBreach{
		{"does not look at nonces in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				if errors.Is(err, proofgraph.ErrMoved) && len(c.Settled) == 0 {
					return slip(w.store, unusedBut(w, c))
				}
				return err
			}
		})},
		{"does not look at what is settled in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				if errors.Is(err, proofgraph.ErrMoved) && len(c.Settled) > 0 {
					c.Settled = nil
					return slip(w.store, c)
				}
				return err
			}
		})},
		{"keeps blobs", keeps(keptBlobs)},
		{"does not settle in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				if len(c.Settled) > 1 {
					c.Settled = nil
				}
				return w.Writer.End(ctx, c)
			}
		})},
		{"opens nothing in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				c.Opened = nil
				return w.Writer.End(ctx, c)
			}
		})},
		{"drops balances in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				c.Spent = nil
				return w.Writer.End(ctx, c)
			}
		})},
		{"drops blobs in a turn", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				c.Blobs = nil
				return w.Writer.End(ctx, c)
			}
		})},
		{"keeps the turn after an error", func() func() proofgraph.Shared {
			kept := false
			return writerToy(func(w *writerHooks) {
				w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					if kept {
						return 0, errBroken
					}
					return w.Writer.Put(ctx, guess, c)
				}
				w.end = func(ctx context.Context, c proofgraph.Change) error {
					err := w.Writer.End(ctx, c)
					kept = kept || err != nil
					return err
				}
			})()
		}},
	}},
	{"turns exclude each other", []sharedBreach{
		{"does not lock", turnsBut(unlocked)},
		{"locks within a process", sharedHandles(func(_ int, h *sharedHooks) {
			var one sync.Mutex
			h.writers = func(w *writerHooks) {
				turn, end := unlocked(w)
				w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
					one.Lock()
					return turn(ctx, a)
				}
				w.end = func(ctx context.Context, c proofgraph.Change) error {
					defer one.Unlock()
					return end(ctx, c)
				}
			}
		})},
		{"reads before it waits", writerToy(func(w *writerHooks) {
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				before := now(w.store, a)
				_, err := w.Writer.Turn(ctx, a)
				return before, err
			}
		})},
	}},
	{"a put waits for another writer's turn", []sharedBreach{
		{"does not wait", turnsBut(unlocked)},
		{"is moved at once", busyPuts(func(w *writerHooks, inTurn *atomic.Bool) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if inTurn.Load() {
					return 0, proofgraph.ErrMoved
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"is always moved after it has waited", busyPuts(func(w *writerHooks, inTurn *atomic.Bool) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if inTurn.Load() {
					guess.Kernel++
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"compares before it waits", busyPuts(func(w *writerHooks, inTurn *atomic.Bool) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if !inTurn.Load() {
					return w.Writer.Put(ctx, guess, c)
				}
				s, err := w.Writer.Turn(ctx, proofgraph.Ask{Sessions: []string{"s"}})
				if err != nil {
					return 0, err
				}
				c.Sessions = map[string]proofgraph.End{"s": {Next: s.Sessions["s"].Next + 1, Last: c.Entries[0].Hash()}}
				return s.Size, w.Writer.End(ctx, c)
			}
		})},
	}},
	{"a reader waits for no turn", []sharedBreach{
		{"has no size during a turn", busy(func(h *sharedHooks, inTurn *atomic.Bool) {
			h.size = func(ctx context.Context) (uint64, error) {
				if inTurn.Load() {
					return 0, errBroken
				}
				return h.Store.Size(ctx)
			}
		})},
		{"has no sessions during a turn", busy(func(h *sharedHooks, inTurn *atomic.Bool) {
			h.session = func(ctx context.Context, name string, from uint64) iter2 {
				if inTurn.Load() {
					return iteratePlaced(nil, errBroken)
				}
				return h.Store.Session(ctx, name, from)
			}
		})},
	}},
}

// sometimes reports true in each fifth call.
func sometimes() func() bool {
	var n atomic.Int64
	return func() bool { return n.Add(1)%5 == 0 }
}

var brokenAtOnce = []sharedBreaches{
	{"writers that put and take turns at once leave no hole", []sharedBreach{
		{"fails under load", func() func() proofgraph.Shared {
			now := sometimes()
			return endsBut(func(w *writerHooks) endFunc {
				return func(ctx context.Context, c proofgraph.Change) error {
					if err := w.Writer.End(ctx, c); err != nil || now() {
						return errBroken
					}
					return nil
				}
			})()
		}},
		{"cannot take turns under load", func() func() proofgraph.Shared {
			now := sometimes()
			return writerToy(func(w *writerHooks) {
				w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
					if now() {
						return proofgraph.State{}, errBroken
					}
					return w.Writer.Turn(ctx, a)
				}
			})()
		}},
		{"loses charges", func() func() proofgraph.Shared {
			now := sometimes()
			return mangles(func(c *proofgraph.Change) {
				if now() {
					c.Spent = nil
				}
			})()
		}},
		{"does not look at balances",
			guesses(func(guess *proofgraph.State, holds proofgraph.State) { guess.Spent = holds.Spent })},
		{"has a nonce used twice", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				return w.Writer.Put(ctx, guess, unusedBut(w, c))
			}
		})},
		{"has other indexes under load", func() func() proofgraph.Shared {
			now := sometimes()
			return putsBut(func(w *writerHooks) putFunc {
				return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					at, err := w.Writer.Put(ctx, guess, c)
					if now() {
						at++
					}
					return at, err
				}
			})()
		}},
		{"writes more", sharedToy(func(h *sharedHooks) {
			h.size = func(ctx context.Context) (uint64, error) {
				n, err := h.Store.Size(ctx)
				if n > 0 {
					n++
				}
				return n, err
			}
		})},
	}},
	{"of writers that settle one decision one does", []sharedBreach{
		{"lets all settle it", writerToy(func(w *writerHooks) {
			w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				at, err := w.Writer.Put(ctx, guess, c)
				if errors.Is(err, proofgraph.ErrMoved) {
					c.Settled = nil
					return w.Writer.Put(ctx, guess, c)
				}
				return at, err
			}
		})},
		{"lets nobody settle it", writerToy(func(w *writerHooks) {
			w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if len(c.Settled) > 0 {
					return 0, proofgraph.ErrMoved
				}
				return w.Writer.Put(ctx, guess, c)
			}
			w.end = func(ctx context.Context, c proofgraph.Change) error {
				if len(c.Settled) > 0 {
					w.Writer.End(ctx, proofgraph.Change{})
					return proofgraph.ErrMoved
				}
				return w.Writer.End(ctx, c)
			}
		})},
		{"fences who comes late", onMoved(func(*writerHooks, proofgraph.Change, error) error {
			return proofgraph.ErrFenced
		})},
	}},
}

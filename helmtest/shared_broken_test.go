package helmtest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// A sharedBreach is a shared store that breaks a promise. Its name is what it does wrong.
type sharedBreach struct {
	name  string
	place func() func() proofgraph.Shared
}

type sharedBreaches struct {
	promise string
	stores  []sharedBreach
}

var brokenShared = slices.Concat(brokenGuesses, brokenTurns, brokenAtOnce, brokenSessions, brokenGiven, brokenEnds,
	brokenWriters)

var brokenSharedAsStores = map[string]func() func() proofgraph.Shared{
	"entries keep their order": mangles(func(c *proofgraph.Change) { slices.Reverse(c.Entries) }),
	"a blob has the name of its bytes": mangles(func(c *proofgraph.Change) {
		if len(c.Blobs) > 1 {
			c.Blobs = c.Blobs[1:]
		}
	}),
	"a context that has ended is honoured": writerToy(func(w *writerHooks) {
		w.turn = func(_ context.Context, a proofgraph.Ask) (proofgraph.State, error) { return w.Writer.Turn(forever, a) }
		w.end = func(_ context.Context, c proofgraph.Change) error { return w.Writer.End(forever, c) }
	}),
	"a batch that does not begin at the end is ErrConflict and changes nothing": answersBut(
		func(_ proofgraph.Ask, s *proofgraph.State) { s.Size++ }),
	"all who have it open append to one log": func() func() proofgraph.Shared {
		return func() proofgraph.Shared { return sharedmem.New() }
	},
	"a new store is empty": sharedToy(func(h *sharedHooks) {
		h.join = func(context.Context, string) (proofgraph.Writer, error) { return nil, errBroken }
	}),
}

// settlesMore leaves out of a change what it may not settle.
func settlesMore() func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			at, err := w.Writer.Put(ctx, guess, c)
			if errors.Is(err, proofgraph.ErrMoved) && len(c.Settled) > 0 {
				c.Settled = nil
				return w.Writer.Put(ctx, guess, c)
			}
			return at, err
		}
	})
}

// settlesTwice is another answer to a writer that settles again what it has settled in a turn.
func settlesTwice(put func(w *writerHooks, guess proofgraph.State, c proofgraph.Change) (uint64, error),
) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		settled := map[uint64]bool{}
		w.end = func(ctx context.Context, c proofgraph.Change) error {
			err := w.Writer.End(ctx, c)
			for _, i := range c.Settled {
				settled[i] = settled[i] || err == nil
			}
			return err
		}
		w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			at, err := w.Writer.Put(ctx, guess, c)
			if errors.Is(err, proofgraph.ErrMoved) && len(c.Settled) > 0 && settled[c.Settled[0]] {
				return put(w, guess, c)
			}
			return at, err
		}
	})
}

// keeps writes a part of a change that is refused.
func keeps(part func(c proofgraph.Change) proofgraph.Change) func() func() proofgraph.Shared {
	return onMoved(func(w *writerHooks, c proofgraph.Change, err error) error {
		if err := slip(w.store, part(c)); err != nil {
			return err
		}
		return err
	})
}

func keptBlobs(c proofgraph.Change) proofgraph.Change {
	return proofgraph.Change{Batch: proofgraph.Batch{Blobs: c.Blobs}}
}

// unusedBut leaves out the nonces of a change that are used.
func unusedBut(w *writerHooks, c proofgraph.Change) proofgraph.Change {
	c.Used = slices.DeleteFunc(slices.Clone(c.Used), func(nonce string) bool {
		return len(now(w.store, proofgraph.Ask{Nonces: []string{nonce}}).Used) > 0
	})
	return c
}

var brokenGuesses = []sharedBreaches{
	{"a log is begun without entries", []sharedBreach{
		{"begins with an entry", sharedToy(func(h *sharedHooks) {
			h.join = func(ctx context.Context, origin string) (proofgraph.Writer, error) {
				w, err := h.Store.Join(ctx, origin)
				if w.ID() == 2 {
					w.Put(ctx, proofgraph.State{}, oneSession(proofgraph.Batch{Entries: []contracts.Entry{[]byte("first")}}))
				}
				return w, err
			}
		})},
		{"nobody can join", sharedToy(func(h *sharedHooks) {
			h.join = func(context.Context, string) (proofgraph.Writer, error) { return nil, errBroken }
		})},
		{"one writer can join", sharedToy(func(h *sharedHooks) {
			first := true
			h.join = func(ctx context.Context, origin string) (proofgraph.Writer, error) {
				if !first {
					return nil, errBroken
				}
				first = false
				return h.Store.Join(ctx, origin)
			}
		})},
		{"is not there", func() func() proofgraph.Shared { return func() proofgraph.Shared { return nil } }},
		{"nobody can open", func() func() proofgraph.Shared { return nil }},
		{"has every session", sessionsBut(func(*sharedHooks) sessionFunc {
			return func(context.Context, string, uint64) iter2 {
				return iteratePlaced([]proofgraph.Placed{{Entry: []byte("an entry")}}, nil)
			}
		})},
	}},
	{"Append is ErrShared and changes nothing", []sharedBreach{
		{"appends", sharedToy(func(h *sharedHooks) {
			h.append = func(_ context.Context, b proofgraph.Batch) error {
				return slip(h.Store, oneSession(proofgraph.Batch{Blobs: b.Blobs}))
			}
		})},
		{"has a conflict", sharedToy(func(h *sharedHooks) {
			h.append = func(context.Context, proofgraph.Batch) error { return proofgraph.ErrConflict }
		})},
		{"keeps its blobs", sharedToy(func(h *sharedHooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := slip(h.Store, oneSession(proofgraph.Batch{Blobs: b.Blobs})); err != nil {
					return err
				}
				return h.Store.Append(ctx, b)
			}
		})},
	}},
	{"a writer's number is never used again", []sharedBreach{
		{"has one number", writerToy(func(w *writerHooks) { w.id = func() uint64 { return 1 } })},
		{"counts how often it is read", writerToy(func(w *writerHooks) {
			n := w.Writer.ID() << 32
			w.id = func() uint64 { n++; return n }
		})},
		{"begins to count again when it is opened", sharedHandles(func(_ int, h *sharedHooks) {
			n := uint64(0)
			h.writers = func(w *writerHooks) {
				n++
				id := n
				w.id = func() uint64 { return id }
			}
		})},
		{"has numbers of processes", sharedHandles(func(n int, h *sharedHooks) {
			h.writers = func(w *writerHooks) { w.id = func() uint64 { return uint64(n) } }
		})},
		{"lets nobody leave", writerToy(func(w *writerHooks) {
			w.leave = func(context.Context) error { return errBroken }
		})},
		{"never says who is dead", writerToy(func(w *writerHooks) {
			w.dead = func(context.Context) ([]uint64, error) { return nil, errBroken }
		})},
	}},
	{"a right guess is written whole", []sharedBreach{
		{"is always moved", putsBut(func(*writerHooks) putFunc {
			return func(context.Context, proofgraph.State, proofgraph.Change) (uint64, error) {
				return 0, proofgraph.ErrMoved
			}
		})},
		{"has the index of the last entry", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				at, err := w.Writer.Put(ctx, guess, c)
				return at + uint64(max(len(c.Entries), 1)) - 1, err
			}
		})},
		{"drops nonces", mangles(func(c *proofgraph.Change) { c.Used = nil })},
		{"drops the last nonce", mangles(func(c *proofgraph.Change) { c.Used = c.Used[:max(len(c.Used), 1)-1] })},
		{"drops balances", mangles(func(c *proofgraph.Change) { c.Spent = nil })},
		{"drops blobs", mangles(func(c *proofgraph.Change) { c.Blobs = nil })},
		{"drops the checkpoint", mangles(func(c *proofgraph.Change) { c.Checkpoint = nil })},
		{"drops the checkpoint if there is no entry", mangles(func(c *proofgraph.Change) {
			if len(c.Entries) == 0 {
				c.Checkpoint = nil
			}
		})},
		{"drops decisions", mangles(func(c *proofgraph.Change) { c.Opened = nil })},
		{"drops half of an end", mangles(func(c *proofgraph.Change) {
			for name, end := range c.Sessions {
				c.Sessions[name] = proofgraph.End{Next: end.Next, Last: end.Last}
			}
		})},
		{"forgets that a session was closed", mangles(func(c *proofgraph.Change) {
			for name, end := range c.Sessions {
				end.Closed = false
				c.Sessions[name] = end
			}
		})},
		{"has entries of two sessions in each other's place", mangles(func(c *proofgraph.Change) {
			if len(c.Of) == 5 {
				c.Of[3], c.Of[4] = c.Of[4], c.Of[3]
			}
		})},
		{"compares the size", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			if guess.Size != holds.Size {
				guess.Kernel++
			}
		})},
		{"compares whole ends", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			if !maps.Equal(guess.Sessions, holds.Sessions) {
				guess.Kernel++
			}
		})},
		{"refuses a session that is not there", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			for _, end := range holds.Sessions {
				if end.Next == 0 {
					guess.Kernel++
				}
			}
		})},
	}},
	{"a guess that is wrong in any part is ErrMoved and changes nothing", []sharedBreach{
		{"does not look at Kernel",
			guesses(func(guess *proofgraph.State, holds proofgraph.State) { guess.Kernel = holds.Kernel })},
		{"does not look at what is above Kernel",
			guesses(func(guess *proofgraph.State, holds proofgraph.State) { guess.Kernel = min(guess.Kernel, holds.Kernel) })},
		{"does not look at Next", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			for name, end := range guess.Sessions {
				end.Next = holds.Sessions[name].Next
				guess.Sessions[name] = end
			}
		})},
		{"does not look at Last", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			for name, end := range guess.Sessions {
				end.Last = holds.Sessions[name].Last
				guess.Sessions[name] = end
			}
		})},
		{"looks at sessions that are there", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			for name, end := range holds.Sessions {
				if end.Next == 0 {
					delete(guess.Sessions, name)
				}
			}
		})},
		{"does not look at balances",
			guesses(func(guess *proofgraph.State, holds proofgraph.State) { guess.Spent = holds.Spent })},
		{"looks at the first balance", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			guess.Spent = append(guess.Spent[:min(1, len(guess.Spent))], holds.Spent[min(1, len(guess.Spent)):]...)
		})},
		{"looks at balances that were charged", guesses(func(guess *proofgraph.State, holds proofgraph.State) {
			for i, b := range holds.Spent {
				if b.Spent == 0 {
					guess.Spent[i] = b
				}
			}
		})},
		{"does not look at nonces", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				return w.Writer.Put(ctx, guess, unusedBut(w, c))
			}
		})},
		{"does not look at what is settled", settlesMore()},
		{"lets a writer settle its decisions twice",
			settlesTwice(func(w *writerHooks, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				c.Settled = nil
				return w.Writer.Put(context.Background(), guess, c)
			})},
		{"takes a writer that settles twice for a fenced one",
			settlesTwice(func(*writerHooks, proofgraph.State, proofgraph.Change) (uint64, error) {
				return 0, proofgraph.ErrFenced
			})},
		{"has an error of its own",
			onMoved(func(*writerHooks, proofgraph.Change, error) error { return errBroken })},
		{"says that it was written", onMoved(func(*writerHooks, proofgraph.Change, error) error { return nil })},
		{"keeps blobs", keeps(keptBlobs)},
		{"keeps the checkpoint", keeps(func(c proofgraph.Change) proofgraph.Change {
			return proofgraph.Change{Batch: proofgraph.Batch{Checkpoint: c.Checkpoint}}
		})},
		{"keeps the nonces", onMoved(func(w *writerHooks, c proofgraph.Change, err error) error {
			slip(w.store, unusedBut(w, proofgraph.Change{Used: c.Used}))
			return err
		})},
		{"keeps the balances", keeps(func(c proofgraph.Change) proofgraph.Change {
			return proofgraph.Change{Spent: c.Spent}
		})},
	}},
	{"a change that contradicts itself or the log changes nothing", []sharedBreach{
		{"says nothing", onMoved(func(*writerHooks, proofgraph.Change, error) error { return nil })},
		{"keeps blobs", keeps(keptBlobs)},
		{"keeps the nonces", keeps(func(c proofgraph.Change) proofgraph.Change {
			return proofgraph.Change{Used: c.Used}
		})},
		{"keeps the turn", keepsTurn(func(_ proofgraph.Change, err error) bool { return err != nil })},
	}},
}

package helmtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// remembered keeps checkpoints by a rule of its own: which of the one that is kept and the next.
func remembered(keep func(kept, next []byte) []byte) func() func() proofgraph.Shared {
	return sharedToy(func(h *sharedHooks) {
		var mu sync.Mutex
		var kept []byte
		note := func(c proofgraph.Change) {
			mu.Lock()
			defer mu.Unlock()
			if c.Checkpoint != nil && kept != nil {
				kept = bytes.Clone(keep(kept, c.Checkpoint))
			} else if c.Checkpoint != nil {
				kept = bytes.Clone(c.Checkpoint)
			}
		}
		h.checkpoint = func(context.Context) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Clone(kept), nil
		}
		h.writers = func(w *writerHooks) {
			w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				note(c)
				return w.Writer.Put(ctx, guess, c)
			}
			w.end = func(ctx context.Context, c proofgraph.Change) error {
				note(c)
				return w.Writer.End(ctx, c)
			}
		}
	})
}

var brokenSessions = []sharedBreaches{
	{"a session is read from any seq", []sharedBreach{
		{"begins at the beginning", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, _ uint64) iter2 { return h.Store.Session(ctx, name, 0) }
		})},
		{"begins one later", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return h.Store.Session(ctx, name, from+min(from, 1))
			}
		})},
		{"takes it as an index", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 {
				return iteratePlaced(slices.DeleteFunc(h.places(name), func(p proofgraph.Placed) bool {
					return p.Index < from
				}), nil)
			}
		})},
		{"looks at the lower half of a seq", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return h.Store.Session(ctx, name, uint64(uint32(from)))
			}
		})},
		{"has an error if there is none", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				if from >= uint64(len(list)) {
					return iteratePlaced(nil, errBroken)
				}
				return iteratePlaced(list[from:], nil)
			}
		})},
		{"does not look at case", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return h.Store.Session(ctx, strings.ToLower(name), from)
			}
		})},
		{"ends a name at a colon", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				name, _, _ = strings.Cut(name, ":")
				return h.Store.Session(ctx, name, from)
			}
		})},
		{"numbers a session's entries", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return func(yield func(proofgraph.Placed, error) bool) {
					for p, err := range h.Store.Session(ctx, name, from) {
						p.Index = from
						if from++; !yield(p, err) {
							return
						}
					}
				}
			}
		})},
		{"has an error when it was written to", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 {
				return func(yield func(proofgraph.Placed, error) bool) {
					size := now(h.Store, proofgraph.Ask{}).Size
					list := h.places(name)
					for _, p := range list[min(from, uint64(len(list))):] {
						if now(h.Store, proofgraph.Ask{}).Size != size {
							yield(proofgraph.Placed{}, errBroken)
							return
						}
						if !yield(p, nil) {
							return
						}
					}
				}
			}
		})},
		{"is locked meanwhile", sharedToy(func(h *sharedHooks) {
			readers := 0
			h.session = func(ctx context.Context, name string, from uint64) iter2 {
				return func(yield func(proofgraph.Placed, error) bool) {
					readers++
					defer func() { readers-- }()
					h.Store.Session(ctx, name, from)(yield)
				}
			}
			h.writers = func(w *writerHooks) {
				w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					if readers > 0 {
						return 0, errBroken
					}
					return w.Writer.Put(ctx, guess, c)
				}
			}
		})},
	}},
	{"a session is read while others append", []sharedBreach{
		{"begins one later", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return h.Store.Session(ctx, name, from+min(from, 1))
			}
		})},
		{"leaves holes", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				list = list[min(from, uint64(len(list))):]
				return iteratePlaced(slices.DeleteFunc(list, func(p proofgraph.Placed) bool { return p.Index%9 == 4 }), nil)
			}
		})},
		{"is late", sharedToy(func(h *sharedHooks) {
			var mu sync.Mutex
			seen := uint64(0)
			h.session = func(ctx context.Context, name string, from uint64) iter2 {
				mu.Lock()
				defer mu.Unlock()
				list := h.places(name)
				late := list[min(from, uint64(len(list))):]
				late = late[:min(uint64(len(late)), seen)]
				seen = uint64(len(list))
				return iteratePlaced(late, nil)
			}
		})},
	}},
	{"the larger checkpoint stays", []sharedBreach{
		{"keeps the later one", remembered(func(_, next []byte) []byte { return next })},
		{"keeps the first one", remembered(func(kept, _ []byte) []byte { return kept })},
		{"keeps the later one of a size", remembered(func(kept, next []byte) []byte {
			if sizeOf(next) < sizeOf(kept) {
				return kept
			}
			return next
		})},
		{"keeps the first one of a size", remembered(func(kept, next []byte) []byte {
			if sizeOf(next) > sizeOf(kept) {
				return next
			}
			return kept
		})},
		{"compares them as texts", remembered(func(kept, next []byte) []byte {
			if sizeOf(next) > 0 && bytes.Compare(next, kept) < 0 {
				return kept
			}
			return next
		})},
		{"looks at the lower half of a size", remembered(func(kept, next []byte) []byte {
			if uint32(sizeOf(next)) < uint32(sizeOf(kept)) {
				return kept
			}
			return next
		})},
		{"takes bytes that are no checkpoint as a large one", remembered(func(kept, next []byte) []byte {
			if _, _, err := proofgraph.ParseCheckpoint(next); err == nil && sizeOf(next) < sizeOf(kept) {
				return kept
			}
			return next
		})},
		{"drops a checkpoint without an entry", mangles(func(c *proofgraph.Change) {
			if len(c.Entries) == 0 {
				c.Checkpoint = nil
			}
		})},
	}},
}

var brokenGiven = []sharedBreaches{
	{"bytes of a change are copied", []sharedBreach{
		{"sorts nonces", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				slices.Sort(c.Used)
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"adds to the guess", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				guess.Sessions["another"] = proofgraph.End{}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"keeps ends of sessions", sharedToy(func(h *sharedHooks) {
			var kept map[string]proofgraph.End
			h.writers = func(w *writerHooks) {
				w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					kept = c.Sessions
					return w.Writer.Put(ctx, guess, c)
				}
				w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
					s, err := w.Writer.Turn(ctx, a)
					for name := range s.Sessions {
						if end, ok := kept[name]; ok {
							s.Sessions[name] = end
						}
					}
					return s, err
				}
			}
		})},
		{"keeps entries", sharedToy(func(h *sharedHooks) {
			kept := map[uint64]contracts.Entry{}
			h.writers = func(w *writerHooks) {
				w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
					at, err := w.Writer.Put(ctx, guess, c)
					for i, e := range c.Entries {
						kept[at+uint64(i)] = e
					}
					return at, err
				}
			}
			h.session = func(_ context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				for i, p := range list {
					if e, ok := kept[p.Index]; ok {
						list[i].Entry = e
					}
				}
				return iteratePlaced(list[min(from, uint64(len(list))):], nil)
			}
		})},
	}},
	{"bytes of a session are the caller's", []sharedBreach{
		{"has one buffer", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				return func(yield func(proofgraph.Placed, error) bool) {
					room := make([]byte, 0, 1000)
					for p, err := range h.Store.Session(ctx, name, from) {
						p.Entry = append(room[:0], p.Entry...)
						if !yield(p, err) {
							return
						}
					}
				}
			}
		})},
		{"returns parts of one slice", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				room := make([]byte, 0, 1000)
				for i, p := range list {
					start := len(room)
					room = append(room, p.Entry...)
					list[i].Entry = room[start:len(room):1000]
				}
				return iteratePlaced(list[min(from, uint64(len(list))):], nil)
			}
		})},
		{"returns what it keeps", sharedToy(func(h *sharedHooks) {
			kept := map[uint64]contracts.Entry{}
			h.session = func(_ context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				for i, p := range list {
					if kept[p.Index] == nil {
						kept[p.Index] = p.Entry
					}
					list[i].Entry = kept[p.Index]
				}
				return iteratePlaced(list[min(from, uint64(len(list))):], nil)
			}
		})},
		{"cannot be read", sessionsBut(func(*sharedHooks) sessionFunc {
			return func(context.Context, string, uint64) iter2 { return iteratePlaced(nil, errBroken) }
		})},
	}},
}

var brokenEnds = []sharedBreaches{
	{"a context that has ended is honoured by writers", []sharedBreach{
		{"puts all the same", putsBut(func(w *writerHooks) putFunc {
			return func(_ context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				return w.Writer.Put(forever, guess, c)
			}
		})},
		{"puts, and says that it did not", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if at, err := w.Writer.Put(forever, guess, c); err != nil || ctx.Err() == nil {
					return at, err
				}
				return 0, ctx.Err()
			}
		})},
		{"is moved", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if ctx.Err() != nil {
					return 0, proofgraph.ErrMoved
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"takes turns all the same", writerToy(func(w *writerHooks) {
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				s, err := w.Writer.Turn(forever, a)
				if ctx.Err() != nil {
					w.Writer.End(forever, proofgraph.Change{}) // the suite would wait
				}
				return s, err
			}
		})},
		{"ends turns all the same", endsBut(func(w *writerHooks) endFunc {
			return func(_ context.Context, c proofgraph.Change) error { return w.Writer.End(forever, c) }
		})},
		{"ends turns, and says that it did not", endsBut(func(w *writerHooks) endFunc {
			return func(ctx context.Context, c proofgraph.Change) error {
				if err := w.Writer.End(forever, c); err != nil {
					return err
				}
				return ctx.Err()
			}
		})},
		{"keeps the turn", keepsTurn(func(_ proofgraph.Change, err error) bool { return err != nil })},
		{"lets others join", sharedToy(func(h *sharedHooks) {
			h.join = func(_ context.Context, origin string) (proofgraph.Writer, error) {
				return h.Store.Join(forever, origin)
			}
		})},
		{"reads sessions all the same", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(_ context.Context, name string, from uint64) iter2 { return h.Store.Session(forever, name, from) }
		})},
		{"reads sessions, and has the error then", sessionsBut(func(h *sharedHooks) sessionFunc {
			return func(ctx context.Context, name string, from uint64) iter2 {
				list := h.places(name)
				return iteratePlaced(list[min(from, uint64(len(list))):], ctx.Err())
			}
		})},
		{"declares writers dead all the same", writerToy(func(w *writerHooks) {
			w.dead = func(context.Context) ([]uint64, error) { return w.Writer.Dead(forever) }
		})},
		{"leaves all the same", writerToy(func(w *writerHooks) {
			w.leave = func(context.Context) error { return w.Writer.Leave(forever) }
		})},
	}},
	{"a context that ends while a writer waits for the log ends that", []sharedBreach{
		{"waits for a turn", writerToy(func(w *writerHooks) {
			w.turn = func(_ context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				s, err := w.Writer.Turn(forever, a)
				if w.Writer.ID() > 2 {
					w.Writer.End(forever, proofgraph.Change{}) // the suite would wait
				}
				return s, err
			}
		})},
		{"waits with a put", putsBut(func(w *writerHooks) putFunc {
			return func(_ context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				return w.Writer.Put(forever, guess, c)
			}
		})},
	}},
	{"a context that ends during a put leaves all of it or nothing", []sharedBreach{
		{"keeps blobs", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if err := slip(w.store, keptBlobs(c)); err != nil {
					return 0, err
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
		{"fails although nothing ended", putsBut(func(w *writerHooks) putFunc {
			return func(_ context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				return 0, errBroken
			}
		})},
		{"says nothing and stores nothing", putsBut(func(w *writerHooks) putFunc {
			return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
				if ctx.Err() != nil {
					return now(w.store, proofgraph.Ask{}).Size, nil
				}
				return w.Writer.Put(ctx, guess, c)
			}
		})},
	}},
}

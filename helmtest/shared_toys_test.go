package helmtest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

type (
	putFunc     = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error)
	iter2       = iter.Seq2[proofgraph.Placed, error]
	sessionFunc = func(ctx context.Context, name string, from uint64) iter2
)

// sharedHooks replace methods of a shared store. Methods without a hook are the store's own.
type sharedHooks struct {
	*sharedmem.Store
	append     func(ctx context.Context, b proofgraph.Batch) error
	size       func(ctx context.Context) (uint64, error)
	checkpoint func(ctx context.Context) ([]byte, error)
	join       func(ctx context.Context, origin string) (proofgraph.Writer, error)
	session    sessionFunc
	writers    func(w *writerHooks) // each writer that joins
}

func (h *sharedHooks) Append(ctx context.Context, b proofgraph.Batch) error {
	if h.append != nil {
		return h.append(ctx, b)
	}
	return h.Store.Append(ctx, b)
}

func (h *sharedHooks) Size(ctx context.Context) (uint64, error) {
	if h.size != nil {
		return h.size(ctx)
	}
	return h.Store.Size(ctx)
}

func (h *sharedHooks) Checkpoint(ctx context.Context) ([]byte, error) {
	if h.checkpoint != nil {
		return h.checkpoint(ctx)
	}
	return h.Store.Checkpoint(ctx)
}

func (h *sharedHooks) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	if h.session != nil {
		return h.session(ctx, name, from)
	}
	return h.Store.Session(ctx, name, from)
}

func (h *sharedHooks) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	if h.join != nil {
		return h.join(ctx, origin)
	}
	w, err := h.Store.Join(ctx, origin)
	if err != nil || h.writers == nil {
		return w, err
	}
	hooked := &writerHooks{Writer: w, store: h.Store}
	h.writers(hooked)
	return hooked, nil
}

// writerHooks replace methods of a writer.
type writerHooks struct {
	proofgraph.Writer
	store *sharedmem.Store
	id    func() uint64
	put   putFunc
	turn  func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error)
	end   func(ctx context.Context, c proofgraph.Change) error
	dead  func(ctx context.Context) ([]uint64, error)
	leave func(ctx context.Context) error
}

func (w *writerHooks) Kill() { w.store.Kill(w.Writer.ID()) }

func (w *writerHooks) ID() uint64 {
	if w.id != nil {
		return w.id()
	}
	return w.Writer.ID()
}

func (w *writerHooks) Put(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
	if w.put != nil {
		return w.put(ctx, guess, c)
	}
	return w.Writer.Put(ctx, guess, c)
}

func (w *writerHooks) Turn(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
	if w.turn != nil {
		return w.turn(ctx, a)
	}
	return w.Writer.Turn(ctx, a)
}

func (w *writerHooks) End(ctx context.Context, c proofgraph.Change) error {
	if w.end != nil {
		return w.end(ctx, c)
	}
	return w.Writer.End(ctx, c)
}

func (w *writerHooks) Dead(ctx context.Context) ([]uint64, error) {
	if w.dead != nil {
		return w.dead(ctx)
	}
	return w.Writer.Dead(ctx)
}

func (w *writerHooks) Leave(ctx context.Context) error {
	if w.leave != nil {
		return w.leave(ctx)
	}
	return w.Writer.Leave(ctx)
}

// now returns what holds of the log.
func now(s *sharedmem.Store, a proofgraph.Ask) proofgraph.State {
	w := joinNow(s)
	state, err := w.Turn(forever, a)
	if err == nil {
		err = w.End(forever, proofgraph.Change{})
	}
	if err != nil {
		panic(err)
	}
	return state
}

func joinNow(s *sharedmem.Store) proofgraph.Writer {
	w, err := s.Join(forever, sharedOrigin)
	if err != nil {
		panic(err)
	}
	return w
}

// slip writes a change by another writer, on the log as it is.
func slip(s *sharedmem.Store, c proofgraph.Change) error {
	w := joinNow(s)
	if _, err := w.Turn(forever, proofgraph.Ask{Balances: c.Spent}); err != nil {
		return err
	}
	return w.End(forever, c)
}

// sharedToy is a shared store in memory, the same one each time that it is opened.
func sharedToy(spoil func(h *sharedHooks)) func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		h := &sharedHooks{Store: sharedmem.New()}
		spoil(h)
		return func() proofgraph.Shared { return h }
	}
}

// sharedHandles are shared stores over one log, which are hooked again each time that one is
// opened. They are numbered.
func sharedHandles(spoil func(n int, h *sharedHooks)) func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		s, n := sharedmem.New(), 0
		return func() proofgraph.Shared {
			h := &sharedHooks{Store: s}
			spoil(n, h)
			n++
			return h
		}
	}
}

// writerToy is a shared store each of whose writers is hooked.
func writerToy(spoil func(w *writerHooks)) func() func() proofgraph.Shared {
	return sharedToy(func(h *sharedHooks) { h.writers = spoil })
}

// mangles changes each change on its way in, of Put and of End.
func mangles(change func(c *proofgraph.Change)) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			c = cloneChange(c)
			change(&c)
			return w.Writer.Put(ctx, guess, c)
		}
		w.end = func(ctx context.Context, c proofgraph.Change) error {
			c = cloneChange(c)
			change(&c)
			return w.Writer.End(ctx, c)
		}
	})
}

// putsBut puts in another way.
func putsBut(put func(w *writerHooks) putFunc) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) { w.put = put(w) })
}

// guesses changes each guess on its way in. It is given what holds.
func guesses(change func(guess *proofgraph.State, holds proofgraph.State)) func() func() proofgraph.Shared {
	return putsBut(func(w *writerHooks) putFunc {
		return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			guess.Sessions, guess.Spent = maps.Clone(guess.Sessions), slices.Clone(guess.Spent)
			change(&guess, now(w.store, proofgraph.Ask{
				Sessions: slices.Collect(maps.Keys(guess.Sessions)), Balances: guess.Spent,
			}))
			return w.Writer.Put(ctx, guess, c)
		}
	})
}

// answersBut changes what turns return.
func answersBut(change func(a proofgraph.Ask, s *proofgraph.State)) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
			s, err := w.Writer.Turn(ctx, a)
			if err == nil {
				change(a, &s)
			}
			return s, err
		}
	})
}

// onMoved does something when a change is refused, and returns another error.
func onMoved(do func(w *writerHooks, c proofgraph.Change, err error) error) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		w.put = func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			at, err := w.Writer.Put(ctx, guess, c)
			if err != nil {
				err = do(w, c, err)
			}
			return at, err
		}
		w.end = func(ctx context.Context, c proofgraph.Change) error {
			err := w.Writer.End(ctx, c)
			if err != nil {
				err = do(w, c, err)
			}
			return err
		}
	})
}

// keepsTurn has no turn after an End for which keeps reports true.
func keepsTurn(keeps func(c proofgraph.Change, err error) bool) func() func() proofgraph.Shared {
	return func() func() proofgraph.Shared {
		kept := false
		return writerToy(func(w *writerHooks) {
			w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
				if kept {
					return proofgraph.State{}, errBroken
				}
				return w.Writer.Turn(ctx, a)
			}
			w.end = func(ctx context.Context, c proofgraph.Change) error {
				err := w.Writer.End(ctx, c)
				kept = kept || keeps(c, err)
				return err
			}
		})()
	}
}

// deadBut changes what Dead returns.
func deadBut(change func(w *writerHooks, open []uint64) []uint64) func() func() proofgraph.Shared {
	return writerToy(func(w *writerHooks) {
		w.dead = func(ctx context.Context) ([]uint64, error) {
			open, err := w.Writer.Dead(ctx)
			return change(w, open), err
		}
	})
}

// sessionsBut reads sessions in another way.
func sessionsBut(session func(h *sharedHooks) sessionFunc) func() func() proofgraph.Shared {
	return sharedToy(func(h *sharedHooks) { h.session = session(h) })
}

// places are all entries of a session.
func (h *sharedHooks) places(name string) []proofgraph.Placed {
	list, err := placed(forever, h.Store, name, 0)
	if err != nil {
		panic(err)
	}
	return list
}

// iteratePlaced returns an iteration over a list that may end with an error.
func iteratePlaced(list []proofgraph.Placed, err error) iter.Seq2[proofgraph.Placed, error] {
	return func(yield func(proofgraph.Placed, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(proofgraph.Placed{}, err)
		}
	}
}

// honestShared stores keep every promise.
var honestShared = map[string]func() func() proofgraph.Shared{
	"in memory":  sharedToy(func(*sharedHooks) {}),
	"with hooks": writerToy(func(*writerHooks) {}),
	"whose writers live for ever": sharedToy(func(h *sharedHooks) {
		h.join = func(ctx context.Context, origin string) (proofgraph.Writer, error) {
			w, err := h.Store.Join(ctx, origin)
			return struct{ proofgraph.Writer }{w}, err
		}
	}),
	"with a method Close": func() func() proofgraph.Shared {
		s := sharedmem.New()
		return func() proofgraph.Shared { return newSharedDoor(s) }
	},
	"whose puts are often made again": putsBut(func(w *writerHooks) putFunc {
		n := 0
		return func(ctx context.Context, guess proofgraph.State, c proofgraph.Change) (uint64, error) {
			if n++; n%3 == 0 && len(c.Of) == 2 { // of a crowd
				return 0, proofgraph.ErrMoved
			}
			return w.Writer.Put(ctx, guess, c)
		}
	}),
	"that is a store and no more": func() func() proofgraph.Shared {
		s := sharedmem.New()
		return func() proofgraph.Shared { return struct{ proofgraph.Shared }{s} }
	},
}

// A sharedDoor is open, or closed for good, with its writers.
type sharedDoor struct {
	*sharedHooks
	closed atomic.Bool
}

func newSharedDoor(s *sharedmem.Store) *sharedDoor {
	d := &sharedDoor{sharedHooks: &sharedHooks{Store: s}}
	pass := func() error {
		if d.closed.Load() {
			return errClosed
		}
		return nil
	}
	h := d.sharedHooks
	h.size = func(ctx context.Context) (uint64, error) {
		if err := pass(); err != nil {
			return 0, err
		}
		return s.Size(ctx)
	}
	h.checkpoint = func(ctx context.Context) ([]byte, error) {
		if err := pass(); err != nil {
			return nil, err
		}
		return s.Checkpoint(ctx)
	}
	h.writers = func(w *writerHooks) {
		w.turn = func(ctx context.Context, a proofgraph.Ask) (proofgraph.State, error) {
			if err := pass(); err != nil {
				return proofgraph.State{}, err
			}
			return w.Writer.Turn(ctx, a)
		}
	}
	return d
}

func (d *sharedDoor) Close() error {
	d.closed.Store(true)
	return nil
}

func (d *sharedDoor) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if d.closed.Load() {
		return iterate(nil, errClosed)
	}
	return d.Store.Entries(ctx, from, to)
}

func (d *sharedDoor) Blob(ctx context.Context, name contracts.Digest) ([]byte, error) {
	if d.closed.Load() {
		return nil, errClosed
	}
	return d.Store.Blob(ctx, name)
}

func (d *sharedDoor) EraseBlob(ctx context.Context, name contracts.Digest) error {
	if d.closed.Load() {
		return errClosed
	}
	return d.Store.EraseBlob(ctx, name)
}

func (d *sharedDoor) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if d.closed.Load() {
		return nil, errClosed
	}
	return d.Store.ReadHashes(indexes)
}

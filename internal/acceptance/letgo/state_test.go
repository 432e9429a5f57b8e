package letgo

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/hashes"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A keeping is a fork that keeps a state.
type keeping struct {
	*fork
	mu      sync.Mutex // protects all below
	state   []byte
	pretend uint64 // if not 0, the size that Size returns next
	saves   int
}

var _ proofgraph.Rememberer = (*keeping)(nil)

func (k *keeping) SaveState(_ context.Context, state []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.saves++
	k.state = bytes.Clone(state)
	return nil
}

func (k *keeping) State(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.state), nil
}

func (k *keeping) Size(ctx context.Context) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.pretend; n != 0 {
		k.pretend = 0
		return n, nil
	}
	return k.fork.Size(ctx)
}

// A hashed is a keeping that has the hashes of its log.
type hashed struct{ *keeping }

func (h hashed) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	h.fork.mu.Lock()
	all := slices.Clone(h.fork.all)
	h.fork.mu.Unlock()
	found, err := hashes.Pass(indexes, func(yield func(contracts.Entry, error) bool) {
		for _, line := range all {
			if !yield(line, nil) {
				return
			}
		}
	})
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		list[i] = found[x]
	}
	return list, err
}

// cut is a fork of the first n lines.
func cut(t testing.TB, base proofgraph.Store, n int) *fork {
	t.Helper()
	f := newFork(t, base)
	f.all, f.note = f.all[:n:n], nil
	return f
}

// quiet is a world over another store, which must take the state that is there, and reports what
// was not taken.
func (w *world) quiet(store proofgraph.Store) (x *world, events func() []helm.Event) {
	w.Helper()
	var mu sync.Mutex
	var list []helm.Event
	o := *w
	o.options.Observe = func(_ context.Context, e helm.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Why == "state" {
			list = append(list, e)
		}
	}
	return o.over(store), func() []helm.Event {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// stateAt returns the state of the first n entries of a store, made from another state or from the
// whole log.
func (w *world) stateAt(base proofgraph.Store, n int, from []byte) []byte {
	w.Helper()
	store := &keeping{fork: newFork(w, base), state: from}
	x, events := w.quiet(store)
	store.pretend = uint64(n)
	require.NoError(w, x.kernel.Close())
	require.Empty(w, events())
	require.Equal(w, 1, store.saves)
	return store.state
}

// again returns the story with a future of its own, which is the same for the same seed.
func (s *story) again(seed uint64) *story {
	next := *s
	next.Rand = rand.New(rand.NewPCG(seed, 0))
	next.refs = append([]contracts.Ref{}, s.refs...)
	next.closed = maps.Clone(s.closed)
	return &next
}

// alike goes on with the story over each of the stores, and fails the test if other entries come of
// it than over the first one.
func (w *world) alike(s *story, steps int, size int, what string, stores ...proofgraph.Store) {
	w.Helper()
	again := s.Int64()
	var want []contracts.Entry
	for n, store := range stores {
		x, events := w.quiet(store)
		x.tell(s.again(uint64(again)), steps)
		got := lines(w, store)[size:]
		if require.Empty(w, events(), "%s, store %d", what, n); n == 0 {
			want = got
			require.Greater(w, len(want), steps/2)
			continue
		}
		require.Len(w, got, len(want), "%s, store %d", what, n)
		for i := range want {
			require.Equal(w, string(want[i]), string(got[i]), "%s, store %d, entry %d", what, n, size+i)
		}
		require.NoError(w, x.kernel.Close())
	}
}

// A kernel that goes on from a state leaves the same entries as one that has read the whole log,
// byte by byte, wherever the state is of and wherever the log was cut off: calls without a receipt
// are settled, keys stay bound, balances, taint and labels, what the user and the tools said, and
// causes below the state. And a state that was made from a state is the one made from the log.
func TestFromAState(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	open := 0
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, proofgraph.NewMemory())
		s := newStory(seed)
		w.tell(s, 400)
		all := len(lines(t, w.store))
		for range 5 {
			first := 2 + r.IntN(all-2)
			then := first + r.IntN(all-first)
			end := then + r.IntN(all-then+1)
			early := w.stateAt(w.store, first, nil)
			late := early
			if then > first {
				late = w.stateAt(w.store, then, nil)
				require.True(t, bytes.Equal(late, w.stateAt(w.store, then, early)), "%d to %d", first, then)
			}
			var erased []contracts.Digest
			f := cut(t, w.store, end)
			for _, line := range f.all {
				st := statement(t, line)
				if st.Receipt == nil || st.Receipt.Decision != nil {
					continue
				}
				if entry.Blobs(st, func(d contracts.Digest, _ entry.Role) {
					if r.IntN(20) == 0 {
						erased = append(erased, d)
					}
				}); st.Receipt.Outcome == "" {
					t.Fatal("no outcome")
				}
			}
			if st := statement(t, f.all[end-1]); st.Decision != nil {
				open++
			}
			stores := []proofgraph.Store{f, &keeping{fork: cut(t, w.store, end), state: early},
				&keeping{fork: cut(t, w.store, end), state: late}, &keeping{fork: cut(t, w.store, end)},
				hashed{&keeping{fork: cut(t, w.store, end), state: early}}}
			for _, store := range stores {
				var f *fork
				switch x := store.(type) {
				case *fork:
					f = x
				case *keeping:
					f = x.fork
				case hashed:
					f = x.fork
				}
				for _, d := range erased {
					f.blobs[d] = nil
				}
			}
			w.alike(s, 60, end, "a cut log", stores...)
		}
		require.NoError(t, w.kernel.Close())
	}
	assert.Positive(t, open, "logs that ended with a decision")
}

// So it is of a log that was condensed, before the state or after it, and of which entries have
// gone since the state was made.
func TestFromAStateOfACondensedLog(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 8))
		w := newWorld(t, proofgraph.NewMemory())
		s := newStory(seed)
		w.tell(s, 1500)
		w.end(s)
		w.later(25 * time.Hour)
		w.tell(s, 100)
		before := w.stateAt(w.store, len(lines(t, w.store)), nil)
		c := w.condense()
		require.Len(t, c.Entries, 1, "seed %d", seed)
		w.tell(s, 50)
		all := len(lines(t, w.store))
		whole := w.stateAt(w.store, all, nil)
		require.True(t, bytes.Equal(whole, w.stateAt(w.store, all, before)))

		gone := newFork(t, w.store)
		o := w.over(gone)
		require.Equal(t, c.Members, o.drop().Entries)
		require.NoError(t, o.kernel.Close())
		dropped := w.stateAt(gone, all, nil)
		require.False(t, bytes.Equal(whole, dropped), "what stands whole is in it")
		require.True(t, bytes.Equal(dropped, w.stateAt(gone, all, before)))
		half := newFork(t, w.store)
		for i, line := range gone.stubs {
			if r.IntN(2) == 0 {
				half.all[i] = line
			}
		}
		require.True(t, bytes.Equal(whole, w.stateAt(half, all, before)))

		stores := []proofgraph.Store{newFork(t, w.store)}
		for _, base := range []proofgraph.Store{w.store, gone, half} {
			for _, state := range [][]byte{nil, before, whole, dropped} {
				if bytes.Equal(state, dropped) && base != proofgraph.Store(gone) {
					continue // a state is never of a later store
				}
				stores = append(stores, &keeping{fork: newFork(t, base), state: state})
			}
		}
		w.alike(s, 100, all, "condensed", stores...)

		// What stands whole can still be dropped.
		for _, base := range []proofgraph.Store{w.store, half, gone} {
			x, events := w.quiet(&keeping{fork: newFork(t, base), state: whole})
			_, err := x.kernel.Checkpoint(context.Background())
			require.NoError(t, err)
			want := c.Members
			if base == proofgraph.Store(gone) {
				want = 0
			}
			require.Equal(t, want, x.drop().Entries)
			require.Empty(t, events())
			x.verify()
		}
		require.NoError(t, w.kernel.Close())
	}
}

// A state is made while calls go on, after a checkpoint that many entries are before, and by a New
// that had to read so many: the next New takes it.
func TestStatesOfManyEntries(t *testing.T) {
	race.Alone(t)
	if testing.Short() {
		t.Skip("a log of 66,000 entries: a full run has it")
	}
	t.Parallel()
	store := &keeping{fork: newFork(t, proofgraph.NewMemory())}
	w := busy(t, store, 66_000, 20)
	_, err := w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	for saves := 0; saves == 0; time.Sleep(time.Millisecond) {
		store.mu.Lock()
		saves = store.saves
		store.mu.Unlock()
	}
	live := store.state
	w.quietly(1)
	require.NoError(t, w.kernel.Close())
	require.Equal(t, 2, store.saves, "and of the entries since")
	size := len(lines(t, store))
	again := newFork(t, store)
	for _, from := range [][]byte{nil, live} {
		k := &keeping{fork: newFork(t, store), state: from}
		x, events := w.quiet(k)
		require.NoError(t, x.kernel.Close())
		require.Empty(t, events())
		require.Equal(t, 1, k.saves, "New makes one of so many, and then Close none; of few Close does")
		require.True(t, bytes.Equal(store.state, k.state))
	}
	var want []contracts.Entry
	for _, base := range []proofgraph.Store{again, store, &keeping{fork: newFork(t, store), state: live}} {
		x, events := w.quiet(base)
		x.quietly(3)
		require.Empty(t, events())
		if got := lines(t, base)[size:]; want == nil {
			want = got
			require.Len(t, want, 6)
		} else {
			require.Equal(t, want, got)
		}
		require.NoError(t, x.kernel.Close())
	}
}

// quietly makes n calls of a busy world.
func (w *world) quietly(n int) {
	w.Helper()
	for i := range n {
		w.mustCall("quiet", "save", fmt.Sprintf(`{"text":"%d"}`, i))
	}
}

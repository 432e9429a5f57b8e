package letgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// The store fails at each Append while the log is condensed: the kernel is sealed, and the next one
// goes on where the log ends, with the condense entry or without it.
func TestStoreFailsAtEveryAppend(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	ctx := context.Background()
	for how, onFail := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return kerneltest.ErrDisk },
		"panics":                  func(error) error { panic("disk") },
	} {
		for n := 1; ; n++ {
			m := proofgraph.NewMemory()
			f := &kerneltest.FaultyStore{Store: m, OnFail: onFail}
			w := newWorld(t, condensing{f, m})
			w.fill("chat", 600)
			w.close("chat")
			w.later(25 * time.Hour)
			f.FailIn(n)
			_, err := w.kernel.Condense(ctx, time.Time{})
			if err == nil {
				require.Equal(t, 3, n, "the condense entry, and the checkpoint")
				break
			}
			require.ErrorIs(t, w.kernel.Err(), proofgraph.ErrSealed, "%s, %d", how, n)
			_, err = w.kernel.Drop(ctx)
			require.Error(t, err)
			f.Heal()
			w.open()
			c := w.condense()
			d := w.drop()
			assert.EqualValues(t, 1200, d.Entries, "%s, %d: %+v", how, n, c)
			w.fill("more", 3)
			r := w.verify()
			require.Len(t, r.Condensed, 1, "%s, %d", how, n)
			assert.EqualValues(t, 1200, r.Condensed[0].Stubs)
			require.NoError(t, w.kernel.Close())
		}
	}
}

// The signer fails at the condense entry: the place is void, and the kernel sealed.
func TestSignerFailsAtTheCondenseEntry(t *testing.T) {
	t.Parallel()
	key := &kerneltest.FaultySigner{PrivateKey: kerneltest.SeedKey(t, 1)}
	w := old(t, 600, func(o *helm.Options) { o.Key, o.LogKey = key, kerneltest.SeedKey(t, 9) })
	key.FailIn(1)
	_, err := w.kernel.Condense(context.Background(), time.Time{})
	require.ErrorIs(t, err, kerneltest.ErrKMS)
	require.ErrorIs(t, w.kernel.Err(), proofgraph.ErrSealed)
	w.open()
	assert.EqualValues(t, 1200, w.condense().Members)
	assert.EqualValues(t, 1200, w.drop().Entries)
	require.NoError(t, w.kernel.Close())
}

// A process that dies at any moment of letting go has forgotten some blobs, or all, and then leaves
// some stubs. The next one goes on, and leaves no blob that no entry names.
func TestKilledWhileItLetsGo(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := old(t, 600, func(o *helm.Options) { o.Keep.Outputs = true })
	w.condense()
	w.mustCall("more", "notes", `{"q":0}`)
	all := newFork(t, w.store)
	whole, had := all.all, w.blobs(all.all)
	w.over(all).drop()
	forgotten := slices.SortedFunc(maps.Keys(all.blobs), func(a, b contracts.Digest) int {
		return bytes.Compare(a[:], b[:])
	})
	forgotten = slices.DeleteFunc(forgotten, func(d contracts.Digest) bool { return all.blobs[d] != nil })
	require.Greater(t, len(forgotten), 1000)
	for _, killed := range []int{-1000, -1, 0, 1, 2, 599, 600, 601, 1199, 1200} { // negative: blobs that are left
		f := newFork(t, w.store)
		n := 0
		for _, d := range forgotten[:len(forgotten)+min(killed, 0)] {
			f.blobs[d] = nil
		}
		for i := range whole {
			if line, ok := all.stubs[uint64(i)]; ok && n < killed {
				f.all[i] = line
				n++
			}
		}
		x := w.over(f)
		d := x.drop()
		if killed == 1200 {
			assert.Equal(t, helm.Dropped{}, d, "nothing stands whole")
		} else {
			assert.EqualValues(t, 1200, d.Entries)
		}
		got := gone(t, f)
		require.Len(t, got, 1200)
		for _, i := range got {
			require.Equal(t, string(all.stubs[i]), string(f.all[i]))
		}
		x.mustForget(had)
		x.fill("more", 2)
		x.verify()
	}
}

// mustForget fails the test if the store has one of these blobs, and no entry names it.
func (w *world) mustForget(had map[contracts.Digest]bool) {
	w.Helper()
	named, left := w.blobs(lines(w, w.store)), 0
	for d := range had {
		if _, ok := named[d]; ok {
			continue
		}
		if _, err := w.store.Blob(context.Background(), d); !errors.Is(err, proofgraph.ErrNoBlob) {
			left++
		}
	}
	assert.Zero(w, left, "blobs that no entry names")
}

// A passing is a store on disk of which the pass of Drop over the whole log fails, after so many
// lines.
type passing struct {
	*filestore.Store
	after int                // negative: it does not fail
	end   context.CancelFunc // is called in the place of an error; nil: it is an error
}

func (p *passing) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		n := 0
		for e, err := range p.Store.Entries(ctx, from, to) {
			if from == 0 && to > 1 && n == p.after {
				if p.end == nil {
					yield(nil, kerneltest.ErrDisk)
					return
				}
				p.end()
			}
			n++
			if !yield(e, err) {
				return
			}
		}
	}
}

// If the pass over the log fails, by which Drop finds out which blobs stay, nothing goes: a process
// that goes on afterwards knows of stubs alone not which blobs their entries named.
func TestNothingGoesIfTheLogIsNotRead(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	for _, after := range []int{0, 100, 1200} {
		for _, ends := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "log")
			store, err := filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			p := &passing{Store: store, after: -1}
			w := newWorld(t, p, func(o *helm.Options) { o.Keep.Outputs = true })
			w.fill("chat", 600)
			w.close("chat")
			w.later(25 * time.Hour)
			had := w.blobs(lines(t, p))
			w.condense()
			ctx, end := context.WithCancel(context.Background())
			defer end()
			if p.after = after; ends {
				p.end = end
			}
			_, err = w.kernel.Drop(ctx)
			if ends {
				require.ErrorIs(t, err, context.Canceled)
			} else {
				require.ErrorIs(t, err, kerneltest.ErrDisk)
			}
			p.after = -1
			assert.Empty(t, gone(t, p), "after %d lines", after)
			for d := range had {
				_, err := p.Blob(context.Background(), d)
				assert.Equal(t, had[d], err == nil, "after %d lines", after)
			}
			require.NoError(t, errors.Join(w.kernel.Close(), store.Close()))
			store, err = filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			w.store, w.options.Store = store, store
			w.open()
			assert.EqualValues(t, 1200, w.drop().Entries)
			w.mustForget(had)
			w.verify()
			require.NoError(t, errors.Join(w.kernel.Close(), store.Close()))
		}
	}
}

// A store may ask for stubs first: then too the log is read before it gets one.
func TestNothingGoesIfTheLogIsNotReadForStubs(t *testing.T) {
	t.Parallel()
	s := &unread{Memory: proofgraph.NewMemory(), left: -1}
	asked := 0
	w := newWorld(t, stubsFirst{s, func() { asked++ }})
	w.fill("chat", 600)
	w.close("chat")
	w.later(25 * time.Hour)
	w.condense()
	s.left = 1200 + 700 // Drop reads the set first
	_, err := w.kernel.Drop(context.Background())
	require.ErrorIs(t, err, errRead)
	assert.Zero(t, asked)
	s.left = -1
	assert.EqualValues(t, 1200, w.drop().Entries)
	assert.Equal(t, 1200, asked)
}

// stubsFirst asks for stubs first, and only asks.
type stubsFirst struct {
	*unread
	got func()
}

func (s stubsFirst) Condense(
	_ context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	for range stubs {
		s.got()
	}
	for range blobs {
	}
	return nil
}

// Calls, Condense, Drop, Checkpoint, Swap and Close at once, several of each.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 4
	if race.Enabled {
		rounds = 2
	}
	for round := range rounds {
		w := newWorld(t, proofgraph.NewMemory())
		ctx := context.Background()
		w.fill("chat", 600)
		w.close("chat")
		w.later(25 * time.Hour)
		var wait sync.WaitGroup
		begin := make(chan struct{})
		run := func(n int, f func(g, i int) error) {
			for g := range 2 {
				wait.Add(1)
				go func() {
					defer wait.Done()
					<-begin
					for i := range n {
						if err := f(g, i); err != nil {
							assert.ErrorContains(t, err, "closed")
						}
					}
				}()
			}
		}
		run(60, func(g, i int) error {
			d, _ := w.kernel.Guard(ctx, helm.Intent{Tool: "notes", Args: fmt.Appendf(nil, `{"q":%d}`, 5*i),
				Session: fmt.Sprint("chat-", g), Caller: kim})
			return d.Err()
		})
		members := make(chan uint64, 100)
		run(3, func(int, int) error {
			c, err := w.kernel.Condense(ctx, time.Time{})
			members <- c.Members
			return err
		})
		run(5, func(int, int) error { _, err := w.kernel.Drop(ctx); return err })
		run(5, func(int, int) error { _, err := w.kernel.Checkpoint(ctx); return err })
		run(2, func(g, i int) error {
			if g > 0 {
				return nil // versions do not go back
			}
			return w.kernel.Swap(ctx, kerneltest.Compile(t, floor, kerneltest.Edit(t, bundle,
				"version: 1", fmt.Sprint("version: ", 2+i))))
		})
		if round%2 == 1 {
			run(1, func(int, int) error {
				time.Sleep(time.Duration(round) * 20 * time.Millisecond)
				return w.kernel.Close()
			})
		}
		close(begin)
		wait.Wait()
		close(members)
		all := uint64(0)
		for n := range members {
			all += n
		}
		assert.True(t, all == 1200 || all == 0 && round%2 == 1, "%d members: each once", all)
		require.NoError(t, w.kernel.Close())
		w.options.Policy = kerneltest.Compile(t, floor, kerneltest.Edit(t, bundle, "version: 1", "version: 9"))
		w.open()
		w.condense()
		w.drop()
		assert.Len(t, gone(t, w.store), 1200)
		w.verify()
	}
}

// Two that let go at once wait for one another, as long as their context lasts.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	meddler := &meddler{Memory: proofgraph.NewMemory(), when: "stubs"}
	w := newWorld(t, meddler)
	w.fill("chat", 600)
	w.close("chat")
	w.later(25 * time.Hour)
	w.condense()
	meddler.act = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := w.kernel.Drop(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = w.kernel.Condense(ctx, time.Time{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		w.mustCall("more", "notes", `{"q":0}`)
	}
	assert.EqualValues(t, 1200, w.drop().Entries)
	w.verify()
}

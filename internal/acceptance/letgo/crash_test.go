package letgo

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
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

// A process that dies at any moment of letting go leaves some stubs. The next one goes on.
func TestKilledWhileItLetsGo(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := old(t, 600, func(o *helm.Options) { o.Keep.Outputs = true })
	w.condense()
	w.mustCall("more", "notes", `{"q":0}`)
	all := newFork(t, w.store)
	whole := all.all
	w.over(all).drop()
	for _, killed := range []int{0, 1, 2, 599, 600, 601, 1199, 1200} {
		f := newFork(t, w.store)
		n := 0
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
		x.fill("more", 2)
		x.verify()
	}
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

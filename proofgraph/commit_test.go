package proofgraph

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// The tests here run in bubbles of package synctest: where every goroutine waits for another, the
// test fails at once.

func TestEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	for _, sessions := range []int{1, 64} {
		w := newWorld(t)
		spy := w.watch()
		w.open()
		const callers, each = 64, 12
		var durable atomic.Int64
		places := newHosts(w, sessions)
		places.run(callers, each, func(s *Slot, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			if got, ok := w.log.Lookup(s.Hash()); !ok || got != s.Index() {
				t.Errorf("entry %d is durable and not found: %d %v", s.Index(), got, ok)
			}
			durable.Add(1)
		})
		assert.True(t, !spy.overlap, "two appends at once")
		list := w.reread()
		n := durable.Load()
		require.True(t, n == callers*each && len(list) == callers*each+1, "%d durable, %d in the store", n, len(list))
		before := w.log
		w.open() // what was built up step by step equals what is read
		for i := range places.sessions {
			a, b := places.sessions[i].chain, w.log.Chain(places.sessions[i].chain.session)
			assert.True(t, a.next == b.next && a.last == b.last && a.lamport == b.lamport && a.time == b.time,
				"chain %s: %+v, read %+v", a.session, a, b)
		}
		assert.Equal(t, w.log.tree, before.tree, "another tree")
		newHosts(w, sessions).run(8, 2, nil)
		w.reread()
	}
}

// gate holds each append until the test lets it through.
func gate(s *spy) (arrived chan Batch, release chan error) {
	arrived, release = make(chan Batch), make(chan error)
	s.before = func(n int, b Batch) error {
		arrived <- Batch{b.At, slices.Clone(b.Entries), slices.Clone(b.Blobs), b.Checkpoint}
		return <-release
	}
	return arrived, release
}

func TestOneAppendForAllThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := opened(t)
		arrived, release := gate(w.watch())
		w.open()
		var all sync.WaitGroup
		say := func(session string) {
			all.Go(func() { w.say(session) })
		}
		say("a")
		b := <-arrived
		assert.True(t, b.At == 1 && len(b.Entries) == 1, "at %d, %d entries", b.At, len(b.Entries))
		say("b")
		say("c")
		say("d")
		synctest.Wait() // they are signed, and wait
		late := w.place(w.log.Chain("late"))
		say("e") // after a place that is not signed
		synctest.Wait()
		release <- nil
		if b := <-arrived; b.At != 2 || len(b.Entries) != 3 {
			t.Errorf("at %d, %d entries", b.At, len(b.Entries))
		}
		release <- nil
		synctest.Wait()
		select {
		case b := <-arrived:
			t.Fatalf("at %d: written past a hole", b.At)
		default:
		}
		w.sign(late) // and no goroutine waits for it
		if b := <-arrived; b.At != 5 || len(b.Entries) != 2 {
			t.Errorf("at %d, %d entries", b.At, len(b.Entries))
		}
		release <- nil
		all.Wait()
		assert.NoError(t, late.Wait())
		w.reread()
	})
}

// A caller that is alone does not wait: its entry is all that is written, and at once. The clock of
// the bubble would show a timer.
func TestALoneCallerWritesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		spy := w.watch()
		w.open()
		start := time.Now()
		for range 10 {
			w.say("a")
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		want := []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
		assert.True(t, slices.Equal(spy.appends, want), "appends of %v entries, want one each", spy.appends)
	})
}

// A caller returns when its entry is durable, though others wait that came later: one of them
// writes the next batch, and so on.
func TestNobodyWritesForThoseAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := opened(t)
		arrived, release := gate(w.watch())
		w.open()
		var all sync.WaitGroup
		var durable atomic.Int64
		say := func(session string) {
			all.Go(func() {
				w.say(session)
				durable.Add(1)
			})
			synctest.Wait()
		}
		say("a")
		for i, next := range []string{"b", "c", "d", "e"} {
			b := <-arrived
			assert.True(t, b.At == uint64(i+1) && len(b.Entries) == 1, "append %d: at %d, %d entries", i, b.At,
				len(b.Entries))
			say(next) // while the one before is being written
			release <- nil
			synctest.Wait() // the next append is begun, and not let through
			if n := durable.Load(); n != int64(i+1) {
				t.Errorf("append %d is done, and %d have returned", i, n)
			}
		}
		<-arrived
		release <- nil
		all.Wait()
		w.reread()
	})
}

func TestManyWaitForOneEntry(t *testing.T) {
	t.Parallel()
	for _, fail := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := opened(t)
			arrived, release := gate(w.watch())
			w.open()
			hole := w.place(w.log.Chain("hole"))
			s := w.place(w.log.Chain("a"))
			w.sign(s)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := s.Wait(); (err != nil) != fail {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			w.sign(hole)
			<-arrived
			for range 8 {
				all.Go(func() {
					if err := s.Wait(); (err != nil) != fail {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			var err error
			if fail {
				err = context.DeadlineExceeded
			}
			release <- err
			all.Wait()
			assert.True(t, w.log.asleep == 0 && s.asleep == 0 && s.wakeup == nil, "a goroutine is counted as asleep")
		})
	}
}

// Callers sign slowly and at random, before a store that writes slowly: in whatever order, none of
// them waits for ever.
func TestTheLeadIsNeverLost(t *testing.T) {
	t.Parallel()
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			nap := func(max time.Duration) {
				mu.Lock()
				d := time.Duration(random.Int64N(int64(max)))
				mu.Unlock()
				time.Sleep(d) // the bubble's time: it costs nothing
			}
			w := newWorld(t)
			spy := w.watch()
			w.open()
			spy.before = func(int, Batch) error { nap(300); return nil }
			h := newHosts(w, 1+int(seed*7%40))
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					for n := range 6 {
						session := &h.sessions[i%len(h.sessions)]
						session.lock <- struct{}{}
						s, err := w.log.take(&Draft{Chain: session.chain, Time: 1000})
						assert.NoError(t, err)
						nap(100)
						w.sign(s)
						<-session.lock
						if (i+n)%5 == 0 { // signs and does not care
							continue
						}
						nap(50)
						assert.NoError(t, s.Wait())
						if (i+n)%11 == 0 {
							_, err := w.log.Checkpoint(context.Background())
							assert.NoError(t, err)
						}
					}
				})
			}
			all.Wait()
			_, err := w.log.Checkpoint(context.Background())
			assert.NoError(t, err)
			if n := len(w.reread()); n != 40*6+1 || spy.overlap {
				t.Errorf("%d entries, overlap %v", n, spy.overlap)
			}
			if l := w.log; l.led || l.asleep != 0 || len(l.slots) != 0 || l.ready != 0 || l.writing != 0 ||
				l.pending.waiter != nil {
				t.Errorf("the queue is not at rest: %+v", &l.queue)
			}
		})
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spy := w.watch()
	w.open()
	c := w.log.Chain("a")
	var s *Slot
	for range maxBatchEntries + 100 {
		s = w.place(c)
		w.sign(s)
	}
	require.NoError(t, s.Wait())
	blob := make([]byte, maxBatchBytes/2+1)
	for range 5 {
		s = w.place(c)
		require.NoError(t, sign(s, message(), blob))
	}
	require.NoError(t, s.Wait())
	want := []int{1, maxBatchEntries, 100, 2, 2, 1}
	assert.True(t, slices.Equal(spy.appends, want), "appends of %v entries, want %v", spy.appends, want)
}

func TestBlobsAreStoredWithTheirEntry(t *testing.T) {
	t.Parallel()
	w := opened(t)
	s := w.place(w.log.Chain("a"))
	one, two := []byte("one"), []byte("two")
	require.NoError(t, sign(s, message(), one, two))
	require.NoError(t, s.Wait())
	one[0] = 'X'
	for _, text := range []string{"one", "two", string(w.options.Trust)} {
		b, err := w.memory.Blob(context.Background(), crypto.Sum([]byte(text)))
		assert.True(t, err == nil && string(b) == text, "%s: %q %v", text, b, err)
	}
}

// A session that signs ahead of the store does not overtake it: its entries become durable in their
// order.
func TestASessionSignsAheadOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := opened(t)
		arrived, release := gate(w.watch())
		w.open()
		c := w.log.Chain("a")
		var slots []*Slot
		for range 3 {
			s := w.place(c)
			w.sign(s)
			slots = append(slots, s)
		}
		for i, s := range slots {
			h := Place{s}.Header()
			assert.False(t, i > 0 && h.Prev != slots[i-1].Hash(), "prev")
			_, ok := w.log.Lookup(s.Hash())
			assert.False(t, ok, "found before it is durable")
		}
		go func() {
			<-arrived
			release <- nil
		}()
		require.NoError(t, slots[0].Wait())
		assert.True(t, w.size() == 4, "%d entries", w.size())
	})
}

package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

var errEnd = errors.New("the key is revoked")

// After the last place there is none, for any caller and however early. The entries before it are
// written, and then the log is sealed with the cause, not earlier.
func TestTheLastPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		spy := w.watch()
		w.open()
		dam, placed := make(chan struct{}), make(chan struct{})
		spy.before = func(int, Batch) error { <-dam; return nil }
		before := w.place(w.log.Chain("before"))
		var index uint64
		last, err := w.log.take(&Draft{Chain: w.log.Chain("last"), Time: w.options.Now, End: errEnd,
			Take: func(p Place) error { index = p.Index(); close(placed); return nil }})
		require.True(t, err == nil && index == 2 && last.Index() == 2, "place %d, %v", index, err)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				<-placed
				s, err := w.log.take(&Draft{Chain: w.log.Chain(fmt.Sprint("late-", i)), Time: w.options.Now,
					Take: func(Place) error { t.Error("a place behind the last"); return nil }})
				assert.True(t, s == nil && errors.Is(err, ErrSealed) && errors.Is(err, errEnd), "behind the last: %v",
					err)
			})
		}
		all.Go(func() {
			_, err := w.log.take(&Draft{Chain: w.log.Chain("another-end"), Time: w.options.Now, End: errDisk})
			assert.ErrorIs(t, err, errEnd, "a second end")
		})
		all.Go(func() {
			_, err := w.log.Next()
			assert.ErrorIs(t, err, errEnd, "an index after the last")
		})
		all.Go(func() { // an entry that was signed by then may no longer count
			c, err := w.log.Checkpoint(context.Background())
			assert.True(t, c.Note == nil && errors.Is(err, errEnd), "a checkpoint: %v", err)
		})
		synctest.Wait()
		require.NoError(t, w.log.Err(), "sealed too early")
		w.sign(last)
		all.Go(func() {
			assert.NoError(t, last.Wait(), "the last")
		})
		synctest.Wait()
		w.sign(before) // it has its place
		require.NoError(t, w.log.Err(), "sealed before it was durable")
		close(dam)
		all.Wait()
		for _, s := range []*Slot{before, last} {
			if err := s.Wait(); err != nil {
				t.Errorf("entry %d: %v", s.Index(), err)
			}
		}
		err = w.log.Err()
		assert.True(t, errors.Is(err, ErrSealed) && errors.Is(err, errEnd), "afterwards: %v", err)
		w.log.Seal(errors.New("another cause"))
		assert.True(t, errors.Is(w.log.Err(), errEnd) && len(w.reread()) == 3, "%v, %d entries", w.log.Err(), w.size())
		w.open()
		w.say("after")
	})
}

// An Append while the last place waits does not end the log before it, whether that place is signed
// or not.
func TestTheLastPlaceBehindAnAppend(t *testing.T) {
	t.Parallel()
	for _, signed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			spy := w.watch()
			w.open()
			dam := make(chan struct{})
			spy.before = func(int, Batch) error { <-dam; return nil }
			first := w.place(w.log.Chain("first"))
			w.sign(first)
			var all sync.WaitGroup
			all.Go(func() {
				assert.NoError(t, first.Wait(), "the first")
			})
			synctest.Wait() // it is being written
			last, err := w.log.take(&Draft{Chain: w.log.Chain("last"), Time: w.options.Now, End: errEnd})
			require.NoError(t, err)
			if signed {
				w.sign(last)
			}
			dam <- struct{}{}
			all.Wait()
			assert.NoError(t, w.log.Err(), "signed %v: sealed before the last was written", signed)
			close(dam)
			if !signed {
				w.sign(last)
			}
			if err := last.Wait(); err != nil || !errors.Is(w.log.Err(), errEnd) || len(w.reread()) != 3 {
				t.Errorf("signed %v: the last: %v, sealed with %v", signed, err, w.log.Err())
			}
		})
	}
}

// Any failure before the end, of the last place above all, seals the log with its own cause, and no
// caller goes on waiting.
func TestTheLastPlaceFails(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		spoil func(w *world, spy *spy, last *Slot)
		says  string
	}{
		"voided": {func(_ *world, _ *spy, last *Slot) { void(last, errDisk) }, errDisk.Error()},
		"not stored": {func(w *world, spy *spy, last *Slot) {
			spy.before = failAt(0, func() error { return errDisk })
			w.sign(last)
		}, errDisk.Error()},
		"ended": {func(w *world, spy *spy, last *Slot) {
			spy.before = failAt(0, func() error { runtime.Goexit(); return nil })
			w.sign(last)
		}, errGone.Error()},
		"no record": {func(_ *world, _ *spy, last *Slot) { _ = sign(last, new(contracts.Statement)) },
			"no record"},
		"sealed by others": {func(w *world, _ *spy, _ *Slot) { w.log.Seal(errDisk) }, errDisk.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				spy := w.watch()
				w.open()
				spy.appends = nil
				last, err := w.log.take(&Draft{Chain: w.log.Chain("last"), Time: w.options.Now, End: errEnd})
				require.NoError(t, err)
				var all sync.WaitGroup
				all.Go(func() {
					if _, err := w.log.take(&Draft{Chain: w.log.Chain("late"), Time: w.options.Now}); !errors.Is(err,
						ErrSealed) || errors.Is(err, errEnd) {
						t.Errorf("a caller that waited: %v", err)
					}
				})
				synctest.Wait()
				x.spoil(w, spy, last)
				all.Go(func() { _ = last.Wait() })
				all.Wait()
				err = w.log.Err()
				assert.True(t, err != nil && strings.Contains(err.Error(), x.says), "%v, want %s", err, x.says)
			})
		})
	}
	w := opened(t)
	refused := errors.New("not now")
	if s, err := w.log.take(&Draft{Chain: w.log.Chain("last"), Time: w.options.Now, End: errEnd,
		Take: func(Place) error { return refused }}); s != nil || err != refused {
		t.Errorf("%v", err)
	}
	w.say("a") // no place was taken, so none was the last
	s, err := w.log.Place(Draft{Chain: w.log.Chain("a"), Time: w.options.Now, End: errEnd, Write: says(message())})
	require.NoError(t, err)
	if err := s.Wait(); err != nil || !errors.Is(w.log.Err(), errEnd) {
		t.Errorf("%v, sealed with %v", err, w.log.Err())
	}
}

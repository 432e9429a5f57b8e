package inorder

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("the disk")

// A thing is a batch of some numbers, and how many of them the work reached.
type thing struct {
	first, n, done int
	err            error
}

// outcome runs something on a goroutine of its own: an error, what it panicked with, or that it
// never returned.
func outcome(run func() error) (what any) {
	done := make(chan any)
	go func() {
		what := any("ended")
		defer func() {
			if p := recover(); p != nil {
				what = fmt.Sprint("panic: ", p)
			}
			done <- what
		}()
		what = run()
	}()
	return <-done
}

// TestWaves has the work on each number, of batches of several lengths, fail, panic or end its
// goroutine, or its turn fail, and what comes after it fail too. The caller sees the first, on its
// own goroutine; turns were taken of all before it, in order, and nobody works any more. At last
// a batch is surely with another goroutine when its work panics, ends it, or the caller fails.
func TestWaves(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			cases := 0
			for _, lengths := range [][]int{nil, {1}, {7}, {5, 1, 4}, {1, 1, 1}, {2, 9, 2, 9}} {
				total := 0
				for _, n := range lengths {
					total += n
				}
				for bad := range total + 1 {
					for how, want := range []any{errDisk, "panic: boom", "ended", errDisk} {
						turns := bad
						if how == 3 && bad < total {
							turns++
						}
						if bad == total {
							want = nil
						}
						got, next, working := run(t, workers, lengths, bad, how)
						say := fmt.Sprintf("%v, number %d, way %d", lengths, bad, how)
						require.Equal(t, want, got, say)
						require.Zero(t, working, say)
						require.LessOrEqual(t, next, turns, say)
						if how != 2 { // else it may have been the caller's own goroutine, which ended at once
							require.Equal(t, turns, next, say)
						}
						cases++
					}
				}
			}
			assert.GreaterOrEqual(t, cases, 196)
		})
	}
	for want, end := range map[any]func(){"panic: boom": func() { panic("boom") }, "ended": runtime.Goexit,
		errDisk: nil} {
		begun, left := make(chan bool), atomic.Bool{}
		work := func(*thing) {
			defer left.Store(true)
			close(begun)
			if end != nil {
				end()
			}
			time.Sleep(10 * time.Millisecond) // the caller fails meanwhile
		}
		got := outcome(func() error {
			q := New(2, 2, func(*thing) {}, func() func(*thing) { return work }, func(*thing) error { return nil })
			defer q.End()
			if err := q.Push(); err != nil {
				return err
			}
			<-begun
			if end == nil {
				return errDisk
			}
			return q.Drain()
		})
		assert.Equal(t, want, got)
		assert.True(t, left.Load(), "%v: a goroutine is left", want)
	}
}

// run works on batches of these lengths and fails at a number in one of four ways. It returns how
// that ended, how many turns were taken, and how many goroutines are still at work.
func run(t *testing.T, workers int, lengths []int, bad, how int) (ended any, next int, working int32) {
	var at atomic.Int32
	one := func(i int) error {
		at.Add(1)
		defer at.Add(-1)
		switch {
		case i > bad:
			return io.EOF
		case i < bad || how == 3:
			return nil
		case how == 1:
			panic("boom")
		case how == 2:
			runtime.Goexit()
		}
		return errDisk
	}
	work := func(b *thing) {
		for b.err == nil && b.done < b.n {
			if b.err = one(b.first + b.done); b.err == nil {
				b.done++
			}
		}
	}
	ended = outcome(func() error {
		q := New(workers, 3, work, func() func(*thing) { return work }, func(b *thing) error {
			for i := b.first; i < b.first+b.done; i++ {
				assert.Equal(t, next, i, "the turn")
				next++
				if i == bad && how == 3 {
					return errDisk
				}
			}
			err := b.err
			*b = thing{}
			return err
		})
		defer q.End()
		first := 0
		for _, n := range lengths {
			*q.Next() = thing{first: first, n: n}
			first += n
			if err := q.Push(); err != nil {
				return err
			}
		}
		return q.Drain()
	})
	return ended, next, at.Load()
}

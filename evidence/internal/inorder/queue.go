// Package inorder works on batches ahead of their turn on several processors, and consumes the
// results in order.
//
// The caller fills batches and consumes them on its own goroutine, so only the work between is done
// elsewhere. The first failure in order is the one that the caller sees, however the work was
// scheduled. A panic in the work, or a call of runtime.Goexit, is the caller's too, in its turn.
//
// golang.org/x/sync/errgroup is not used: it returns the error that comes first in time, and here
// the first in order is wanted.
package inorder

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Queue is a ring of batches. The caller fills one, workers and at times the caller work on
// others, and the caller folds the oldest. At most as many batches exist as the ring is long. End
// must be deferred.
type Queue[B any] struct {
	own     func(*B)        // the caller's work on a batch
	work    func() func(*B) // makes that of another goroutine
	fold    func(*B) error
	workers int // the caller included
	ring    []slot[B]
	wait    sync.WaitGroup // for the workers
	ending  atomic.Bool

	mu      sync.Mutex // held to write filled and taken, and to end the work on a slot
	changed sync.Cond
	filled  uint64 // batches so far; the caller alone writes it
	taken   uint64 // to be worked on
	folded  uint64 // the caller's alone
}

// A slot is a place in the ring.
type slot[B any] struct {
	batch  B
	done   bool // the work on it is
	failed bool // the work panicked or ended its goroutine
	value  any  // what it panicked with
}

// New returns a queue for that many goroutines, of which the caller's is one. The caller works with
// own, each other one with a function that work makes. fold is called for each batch in order, also
// for one whose work panicked, and leaves the batch to be filled again.
func New[B any](workers, ring int, own func(*B), work func() func(*B), fold func(*B) error) *Queue[B] {
	q := &Queue[B]{own: own, work: work, fold: fold, workers: workers, ring: make([]slot[B], ring)}
	q.changed.L = &q.mu
	return q
}

// Next returns the batch to be filled: a zero one, or one as fold left it.
func (q *Queue[B]) Next() *B { return &q.at(q.filled).batch }

// Push hands over the batch that was filled. If the ring is full, it folds the oldest batch.
func (q *Queue[B]) Push() error {
	if q.filled == 0 {
		for range q.workers - 1 {
			q.wait.Go(q.ahead)
		}
	}
	q.handOver()
	for q.filled-q.folded == uint64(len(q.ring)) {
		if err := q.foldOldest(); err != nil {
			return err
		}
	}
	return nil
}

// Drain hands over the last batch and folds all that are left. No other goroutine is started for
// one batch alone.
func (q *Queue[B]) Drain() error {
	q.handOver()
	for q.folded < q.filled {
		if err := q.foldOldest(); err != nil {
			return err
		}
	}
	return nil
}

// End returns when no other goroutine works any more.
func (q *Queue[B]) End() {
	q.mu.Lock()
	q.ending.Store(true)
	q.changed.Broadcast()
	q.mu.Unlock()
	q.wait.Wait()
}

// Ending reports whether End was called, so that the rest of a batch need not be worked on.
func (q *Queue[B]) Ending() bool { return q.ending.Load() }

func (q *Queue[B]) at(n uint64) *slot[B] { return &q.ring[n%uint64(len(q.ring))] }

func (q *Queue[B]) handOver() {
	q.mu.Lock()
	q.filled++
	q.changed.Broadcast()
	q.mu.Unlock()
}

// ahead is a worker.
func (q *Queue[B]) ahead() {
	work := q.work()
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ending.Load() {
		if q.taken < q.filled {
			q.workOn(work)
		} else {
			q.changed.Wait()
		}
	}
}

// foldOldest folds the oldest batch and fails as its work did.
func (q *Queue[B]) foldOldest() error {
	q.await()
	s := q.at(q.folded)
	if err := q.fold(&s.batch); err != nil {
		return err
	}
	switch {
	case s.failed && s.value == nil:
		runtime.Goexit()
	case s.failed:
		panic(s.value)
	}
	s.done = false
	q.folded++
	return nil
}

// await returns when the work on the oldest batch is done. Meanwhile the caller works on others.
func (q *Queue[B]) await() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for oldest := q.at(q.folded); !oldest.done; {
		if q.taken < q.filled {
			q.workOn(q.own)
		} else {
			q.changed.Wait()
		}
	}
}

// workOn takes the next batch and works on it. It is called, and returns, with the lock held.
func (q *Queue[B]) workOn(work func(*B)) {
	s := q.at(q.taken)
	q.taken++
	q.mu.Unlock()
	failed := true
	defer func() {
		s.failed, s.value = failed, recover()
		q.mu.Lock()
		s.done = true
		q.changed.Broadcast()
	}()
	work(&s.batch)
	failed = false
}

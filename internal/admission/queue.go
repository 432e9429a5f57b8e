// Package admission bounds how much work is let in at once.
//
// Its Queue is a weighted semaphore. It differs from golang.org/x/sync/semaphore in three ways that
// a kernel needs: a wait ends by either of two channels without a goroutine of its own, a weight
// above the limit is admitted when nothing else is held, and the weights held and the callers
// waiting can be counted.
package admission

import (
	"container/list"
	"sync"
)

// A Queue admits callers while the weights they hold do not exceed its limit, first come, first
// served: nobody overtakes a caller that waits. A weight above the limit is admitted when nothing
// else is held, because it would wait for ever otherwise.
//
// A Queue is safe for concurrent use by multiple goroutines.
type Queue struct {
	mu      sync.Mutex // protects all below
	limit   int
	held    int
	waiting list.List // of waiter, first come first
}

// A waiter is a caller that waits for its turn.
type waiter struct {
	weight   int
	admitted chan struct{} // closed when its weight is held
}

// New returns a queue with that limit.
func New(limit int) *Queue { return &Queue{limit: limit} }

// TryAcquire holds weight and reports true if there is room for it and nobody waits.
func (q *Queue) TryAcquire(weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 || !q.fits(weight) {
		return false
	}
	q.held += weight
	return true
}

// Acquire waits for its turn, holds weight and reports true. If done or closed is closed before
// that, it holds nothing and reports false.
func (q *Queue) Acquire(weight int, done, closed <-chan struct{}) bool {
	admitted := make(chan struct{})
	q.mu.Lock()
	self := q.waiting.PushBack(waiter{weight, admitted})
	q.admit() // room may have been released since the caller looked
	q.mu.Unlock()
	select {
	case <-admitted:
		return true
	case <-done:
	case <-closed:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-admitted: // before the lock was taken
		return true
	default:
	}
	q.waiting.Remove(self)
	q.admit() // those who came later may need less
	return false
}

// Release returns a weight that was acquired.
func (q *Queue) Release(weight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= weight
	q.admit()
}

// Counts returns the sum of the weights held and the number of callers waiting.
func (q *Queue) Counts() (held, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held, q.waiting.Len()
}

// fits reports whether weight can be held now. The caller holds mu.
func (q *Queue) fits(weight int) bool { return q.held == 0 || q.held+weight <= q.limit }

// admit lets in those who came first, while there is room for them. The caller holds mu.
func (q *Queue) admit() {
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		w := e.Value.(waiter)
		if !q.fits(w.weight) {
			return
		}
		q.held += w.weight
		q.waiting.Remove(e)
		close(w.admitted)
	}
}

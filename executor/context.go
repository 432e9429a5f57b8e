package executor

import (
	"context"
	"sync"
	"time"

	"github.com/helmkernel/helm/internal/contain"
)

// A leash is the context of one run. It has the values of the caller's context and an end of its own: at the time limit, with the caller's
// context, or when the run is over. It stands in the run, so it costs no memory of its own, and unlike a context derived by package context it
// starts no goroutine that calls methods of the caller's context, in which a panic would end the process.
type leash struct {
	caller   context.Context
	deadline time.Time

	mu    sync.Mutex // protects the rest
	err   error      // not nil: it has ended
	done  chan struct{}
	after map[*func()]struct{} // to be called at the end
}

var _ context.Context = (*leash)(nil)

// Deadline is the earlier one of the time limit and the caller's deadline.
func (l *leash) Deadline() (time.Time, bool) {
	if d, ok := callersDeadline(l.caller); ok && d.Before(l.deadline) {
		return d, true
	}
	return l.deadline, true
}

// Done is made when it is asked for: most drivers never do.
func (l *leash) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

func (l *leash) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Value gives the caller's. It does not panic: package context asks it on goroutines that nobody could contain.
func (l *leash) Value(key any) (value any) {
	defer contain.Drop()
	return l.caller.Value(key)
}

// String keeps fmt from printing the call.
func (l *leash) String() string { return "executor.run" }

// AfterFunc is what package context looks for: contexts derived from this one then need no goroutine that waits for its end.
func (l *leash) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		go f()
		return func() bool { return false }
	}
	if l.after == nil {
		l.after = map[*func()]struct{}{}
	}
	l.after[&f] = struct{}{}
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, waiting := l.after[&f]
		delete(l.after, &f)
		return waiting
	}
}

// end ends the context. It is false where that had ended before.
func (l *leash) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	for f := range l.after {
		go (*f)()
	}
	l.after = nil
	return true
}

// over is Err as a driver may know it before await does: from the caller's context, or from a clock. A connection whose deadline is that of
// this context fails in the same moment in which the limit ends it, and that is no error of the tool's own.
func (l *leash) over() error {
	if err := l.Err(); err != nil {
		return err
	}
	first, _ := l.Deadline()
	switch {
	case callerEnded(l.caller):
		return context.Canceled
	case time.Now().Before(first):
		return nil
	case first.Before(l.deadline):
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// The caller's context may be of any type. One whose methods panic counts as ended: its driver is told to stop.

func callersDeadline(ctx context.Context) (t time.Time, ok bool) {
	defer contain.Drop()
	return ctx.Deadline()
}

// closed is the Done of a context that ended.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func callersDone(ctx context.Context) (done <-chan struct{}) {
	defer contain.Value(&done, closed)
	return ctx.Done()
}

func callerEnded(ctx context.Context) (ended bool) {
	defer contain.Value(&ended, true)
	return ctx.Err() != nil
}

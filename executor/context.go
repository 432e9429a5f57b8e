package executor

import (
	"context"
	"sync"
	"time"

	"github.com/helmkernel/helm/internal/contain"
)

// A runContext is the context of one run. It has the values of the caller's context and an end of
// its own: at the time limit, with the caller's context, or when the run ends. It is a field of the
// run, so that it needs no allocation. Unlike a context derived by package context, it starts no
// goroutine that calls methods of the caller's context, in which a panic would end the process.
type runContext struct {
	caller   context.Context
	deadline time.Time

	mu    sync.Mutex // protects the rest
	err   error      // not nil: it has ended
	done  chan struct{}
	after map[*func()]struct{} // functions to call at the end
}

var _ context.Context = (*runContext)(nil)

// Deadline returns the earlier of the time limit and the caller's deadline.
func (c *runContext) Deadline() (first time.Time, ok bool) {
	defer contain.Drop() // of the caller's context
	first, ok = c.deadline, true
	if d, limited := c.caller.Deadline(); limited && d.Before(first) {
		first = d
	}
	return first, ok
}

// Done returns a channel that is made at the first call, because most drivers never ask for it.
func (c *runContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *runContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value returns the caller's value, or nil if the caller's context panics: package context calls it
// on goroutines that nothing could contain.
func (c *runContext) Value(key any) (value any) {
	defer contain.Drop()
	return c.caller.Value(key)
}

// String keeps fmt from printing the call.
func (c *runContext) String() string { return "executor.run" }

// AfterFunc is the method by which package context waits for the end of a parent without a
// goroutine.
func (c *runContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = map[*func()]struct{}{}
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.after[&f]
		delete(c.after, &f)
		return waiting
	}
}

// end ends the context. It returns false if the context had ended before.
func (c *runContext) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
	return true
}

// endedBy is Err as a driver may know it before await does: from the caller's context, or from a
// clock. A connection with the deadline of this context fails at the moment at which the limit ends
// it, and that is no error of the tool's own.
func (c *runContext) endedBy() error {
	if err := c.Err(); err != nil {
		return err
	}
	first, _ := c.Deadline()
	switch {
	case callerEnded(c.caller):
		return context.Canceled
	case time.Now().Before(first):
		return nil
	case first.Before(c.deadline):
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// The caller's context may be of any type. One whose methods panic counts as ended, so that its
// driver is told to stop.
//
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

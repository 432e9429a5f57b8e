package handoff

import (
	"context"
	"sync/atomic"
	"time"
)

// A held is the context that a call is judged and waits under. Until the kernel asks the driver for
// its cell, it is the context of Begin; from then on it ends when the call is dropped. The kernel
// takes Done before it asks, and goes by that until the call is decided. The executor takes it
// again when the call runs.
type held struct {
	context.Context // of Begin
	held            atomic.Bool
	over            chan struct{}
}

var _ context.Context = (*held)(nil)

// Deadline says that there is none but the tool's time limit.
func (*held) Deadline() (none time.Time, ok bool) { return none, false }

func (h *held) Done() <-chan struct{} {
	if h.held.Load() {
		return h.over
	}
	return h.Context.Done()
}

func (h *held) Err() error {
	if !h.held.Load() {
		return h.Context.Err()
	}
	select {
	case <-h.over:
		return context.Canceled
	default:
		return nil
	}
}

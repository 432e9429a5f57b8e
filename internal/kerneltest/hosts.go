package kerneltest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// A HostileContext is a context whose methods panic after some calls.
type HostileContext struct {
	context.Context
	Left *atomic.Int64 // calls of its methods that do not panic
}

// Hostile returns ctx with methods that panic after n calls.
func Hostile(ctx context.Context, n int64) HostileContext {
	left := new(atomic.Int64)
	left.Store(n)
	return HostileContext{Context: ctx, Left: left}
}

func (h HostileContext) touch() {
	if h.Left.Add(-1) < 0 {
		panic("the context")
	}
}

// Deadline implements [context.Context].
func (h HostileContext) Deadline() (time.Time, bool) { h.touch(); return h.Context.Deadline() }

// Done implements [context.Context].
func (h HostileContext) Done() <-chan struct{} { h.touch(); return h.Context.Done() }

// Err implements [context.Context].
func (h HostileContext) Err() error { h.touch(); return h.Context.Err() }

// Value implements [context.Context].
func (h HostileContext) Value(key any) any { h.touch(); return h.Context.Value(key) }

// A PanickingSandbox is a driver that panics when the kernel asks for its sandbox.
type PanickingSandbox struct{ executor.Driver }

// Sandbox implements [executor.Sandboxed].
func (PanickingSandbox) Sandbox() contracts.SandboxInfo { panic("the sandbox") }

// Sandboxed is a driver in a sandbox. It returns no output.
type Sandboxed struct {
	*World
	Err error // what it fails with; nil: it does not
}

// Sandbox implements [executor.Sandboxed].
func (s Sandboxed) Sandbox() contracts.SandboxInfo { return contracts.SandboxInfo{Profile: "wasi"} }

// Run implements [executor.Driver].
func (s Sandboxed) Run(context.Context, contracts.Call) (executor.Result, error) {
	s.Runs.Add(1)
	return executor.Result{Gas: 7}, s.Err
}

package kerneltest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/stretchr/testify/assert"
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

// Cell implements [executor.Sandboxed].
func (PanickingSandbox) Cell() *cell.Cell { panic("the sandbox") }

// Sandboxed is a driver in a sandbox. Its own Run, which the kernel does not call, fails the test.
type Sandboxed struct {
	w    *World
	cell *cell.Cell
}

// Sandboxed returns a driver in a sandbox. What runs is the tool, or if that is nil, the World. The
// world counts the runs.
func (w *World) Sandboxed(info contracts.SandboxInfo, tool Tool) *Sandboxed {
	s := &Sandboxed{w: w}
	s.cell = cell.New(s, info, Module, func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if tool == nil {
			return w.Run(ctx, c)
		}
		w.Runs.Add(1)
		return tool(ctx, c)
	})
	return s
}

// Module is the code that runs in the sandboxes of tests.
var Module = []byte("\x00asm\x01\x00\x00\x00")

// Boxed returns a sandbox that grants nothing.
func Boxed(profile string) contracts.SandboxInfo {
	return contracts.SandboxInfo{Profile: profile, Module: crypto.Sum(Module), Meter: 1, Grants: new(contracts.Sandbox)}
}

// Cell implements [executor.Sandboxed].
func (s *Sandboxed) Cell() *cell.Cell { return s.cell }

// Run implements [executor.Driver].
func (s *Sandboxed) Run(context.Context, contracts.Call) (executor.Result, error) {
	assert.Fail(s.w.T, "the driver's own Run was called")
	return executor.Result{}, nil
}

package kerneltest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// hostile is a context whose methods panic from some call on.
type HostileContext struct {
	context.Context
	Left *atomic.Int64
}

func (h HostileContext) touch() {
	if h.Left.Add(-1) < 0 {
		panic("the context")
	}
}

func (h HostileContext) Deadline() (time.Time, bool) { h.touch(); return h.Context.Deadline() }

func (h HostileContext) Done() <-chan struct{} { h.touch(); return h.Context.Done() }

func (h HostileContext) Err() error { h.touch(); return h.Context.Err() }

func (h HostileContext) Value(key any) any { h.touch(); return h.Context.Value(key) }

type PanickingSandbox struct{ executor.Driver }

func (PanickingSandbox) Sandbox() contracts.SandboxInfo { panic("the sandbox") }

// sandboxed is a driver in a sandbox.
type Sandboxed struct {
	*World
	Err error
}

func (s Sandboxed) Sandbox() contracts.SandboxInfo { return contracts.SandboxInfo{Profile: "wasi"} }

func (s Sandboxed) Run(context.Context, contracts.Call) (executor.Result, error) {
	s.Runs.Add(1)
	return executor.Result{Gas: 7}, s.Err
}

// wrapped leaves echo without a driver, so that functions can be wrapped around it.
func NewUnbound(t *testing.T) *World {
	return New(t, func(o *helm.Options) { delete(o.Drivers, "echo"); delete(o.Drivers, "pinned") })
}

package otel

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// Driver returns a driver that runs d within a span, which the context of d has. If d is Defined,
// so is what it returns, with d's definition. What d returns, its panics and its time are the
// caller's as they are without a span. The span ends when d does, and so after the call if d
// ignores its context. Its error.type is TOOL_ERROR, TOOL_TIMEOUT, TOOL_CANCELED or TOOL_PANIC; a
// verdict on the output has only the event of the decision.
//
// It returns an error if d is nil, is wrapped already, or is Sandboxed: a kernel takes a sandbox
// from its own driver alone.
func (t *Telemetry) Driver(d executor.Driver) (executor.Driver, error) {
	switch x := d.(type) {
	case nil:
		return nil, errors.New("otel: Driver: the driver is nil")
	case interface{ wrapped() }:
		return nil, errors.New("otel: Driver: the driver is wrapped already")
	case executor.Sandboxed:
		return nil, fmt.Errorf("otel: Driver: a %T is sandboxed, and wrapped it would be no driver: "+
			"bind the driver itself, and give the kernel Observe, which measures its runs", x)
	}
	switch v := reflect.ValueOf(d); v.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Map:
		if v.IsNil() {
			return nil, fmt.Errorf("otel: Driver: the %T is nil", d)
		}
	}
	plain := &driver{t, d}
	if x, ok := d.(executor.Defined); ok {
		return &defined{plain, x}, nil
	}
	return plain, nil
}

// A driver runs another within a span.
type driver struct {
	t    *Telemetry
	tool executor.Driver
}

func (*driver) wrapped() {}

// A defined driver has the definition of the one that it runs.
type defined struct {
	*driver
	of executor.Defined
}

var _ executor.Defined = (*defined)(nil)

func (d *defined) Definition() contracts.Digest { return d.of.Definition() }

// Run runs the other driver.
func (d *driver) Run(ctx context.Context, c contracts.Call) (r executor.Result, err error) {
	within, span, run := d.t.begin(ctx, &c)
	kind := string(contracts.ReasonToolPanic) // or the end of the goroutine
	defer func() { late(span, run); end(span, kind) }()
	r, err = d.tool.Run(within, c)
	kind = kindOf(ctx, &r, err)
	return r, err
}

// begin begins the span of a run. If the provider fails there is none.
func (t *Telemetry) begin(ctx context.Context, c *contracts.Call) (within context.Context, span trace.Span, r *run) {
	within = ctx
	if !t.traces {
		return within, nil, nil
	}
	defer drop()
	begun, s := t.tracer.Start(ctx, executeTool+" "+c.Tool, internal,
		trace.WithAttributes(runOf(c.Tool, c.Session, c.Permit.DecisionID)...))
	return begun, s, t.live.begin(c.Permit.DecisionID)
}

// late puts an event on the span of a run that ends after its call.
func late(span trace.Span, r *run) {
	if span == nil || r == nil || !r.observed.Load() {
		return
	}
	defer drop()
	span.AddEvent(eventDecision, trace.WithAttributes(keyDecision.String(r.decision), keyLate.Bool(true)))
}

// kindOf returns the error.type of a run that returned; "" if it went well.
func kindOf(ctx context.Context, r *executor.Result, err error) string {
	switch {
	case err == nil && !r.Failed:
		return ""
	case err == nil:
		return string(contracts.ReasonToolError)
	}
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return string(contracts.ReasonToolTimeout)
	case nil:
		return string(contracts.ReasonToolError)
	}
	return string(contracts.ReasonToolCanceled)
}

// end ends a span.
func end(span trace.Span, kind string) {
	if span == nil {
		return
	}
	defer drop()
	if kind != "" {
		failed(span, kind)
	}
	span.End()
}

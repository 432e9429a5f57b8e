package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

var _ state.Telemetry = (*Telemetry)(nil)

// Tell counts what a face tells.
func (t *Telemetry) Tell(f state.Fact) {
	defer drop()
	ctx, n := context.Background(), 1+int64(f.More)
	switch f.Kind {
	case state.Refused:
		t.refused.Add(ctx, n, one(keyCode, f.Name))
	case state.Unknown:
		t.unknown.Add(ctx, n)
	case state.Opened:
		t.open.Add(ctx, n)
	case state.Settled:
		t.open.Add(ctx, -n)
		t.settled.Add(ctx, n, one(keyOutcome, f.Name))
	case state.Judged:
		t.judged.Record(ctx, f.Took.Seconds())
	case state.Drifted:
		t.drifted.Add(ctx, n, one(keyServer, f.Name))
	}
}

func one(k attribute.Key, v string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(k.String(v)))
}

// Call begins the span of a call that came to a gateway: below the span that the client's trace
// context names or, if it names none, the current one of ctx.
func (t *Telemetry) Call(ctx context.Context, c state.ToolCall) (within context.Context, done func(failure string)) {
	within, done = ctx, func(string) {}
	if !t.traces {
		return within, done
	}
	defer drop()
	tool := c.Tool
	if !contracts.IsTool(tool) {
		tool = contracts.Hashed(tool)
	}
	list := []attribute.KeyValue{keyMethod.String(callTool)}
	for _, a := range [...]attribute.KeyValue{
		keySession.String(c.Session), keyProtocol.String(c.Protocol), keyRequestID.String(c.Request),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(list...)}
	from := propagator.Extract(context.Background(), propagation.MapCarrier(c.Carried))
	if remote := trace.SpanContextFromContext(from); remote.IsValid() {
		if here := trace.SpanContextFromContext(ctx); here.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: here}))
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	begun, span := t.tracer.Start(ctx, callTool+" "+tool, options...)
	return begun, func(failure string) { end(span, failure) }
}

// Carry returns the trace context of the current span of ctx; nil if there is none.
func (t *Telemetry) Carry(ctx context.Context) (carried map[string]string) {
	defer drop()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier
}

// Answered says of the server's span of a request what a proxy knows of its answer.
func (t *Telemetry) Answered(ctx context.Context, a state.ModelAnswer) {
	defer drop()
	span, ok := ctx.Value(serverKey{}).(trace.Span)
	if !ok || !span.IsRecording() {
		return
	}
	list := []attribute.KeyValue{
		keyOperation.String(chat), keyCalls.Int(a.Calls), keyDenied.Int(a.Denied), keyHeld.Float64(a.Held.Seconds()),
	}
	name := chat
	if model := clipped(a.Model); model != "" {
		name += " " + model
		list = append(list, keyModel.String(model))
	}
	if a.FirstByte > 0 {
		list = append(list, keyFirstByte.Float64(a.FirstByte.Seconds()))
	}
	if a.Input > 0 || a.Output > 0 {
		list = append(list, keyTokensIn.Int64(a.Input), keyTokensOut.Int64(a.Output))
	}
	span.SetName(name)
	span.SetAttributes(list...)
}

// clipped returns a model's name as a span may have it: what an app sends there may be any text.
func clipped(s string) string {
	for i, r := range s {
		if i >= 128 || r < '!' || r > '~' {
			return s[:i]
		}
	}
	return s
}

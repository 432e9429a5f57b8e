package otel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Observe is for helm.Options.Observe. It puts an event on the current span of ctx, counts the
// decision unless it is a repeat of one, and records the time of the run, if there was one. If the
// run has no span by Driver it makes one, which is as long as the run was, and ends now. If the
// span of ctx has ended, as that of a request which handed the call over, the event is on the span
// of the run.
//
// It returns when the providers do, and contains their panics.
func (t *Telemetry) Observe(ctx context.Context, e helm.Event) {
	if e.Tool == "" { // a checkpoint that failed is no call
		return
	}
	ran := e.Took > 0 && !e.Repeat && !e.Late
	t.trace(ctx, &e, t.traces && ran && !t.live.observe(e.ID))
	t.measure(ctx, &e, ran)
}

// trace puts a decision on the current span, and makes the span of its run, if that has none.
func (t *Telemetry) trace(ctx context.Context, e *helm.Event, run bool) {
	defer drop()
	current := trace.SpanFromContext(ctx)
	recording := current.IsRecording()
	if recording {
		current.AddEvent(eventDecision, trace.WithAttributes(decisionOf(e)...))
	}
	if run {
		t.after(ctx, e, recording)
	}
}

// measure counts a decision and records the time of its run. A repeat is no decision.
func (t *Telemetry) measure(ctx context.Context, e *helm.Event, ran bool) {
	defer drop()
	if e.Late || e.Repeat {
		return
	}
	tool := e.Tool
	if !e.Declared {
		tool = other
	}
	x := labelled{tool: tool, reason: e.Reason, allow: bool(e.Verdict)}
	if t.decisions.Enabled(ctx) {
		t.decisions.Add(ctx, 1, t.labels.of(x).add...)
	}
	if x.allow, x.run = false, true; ran && t.runs.Enabled(ctx) {
		t.runs.Record(ctx, e.Took.Seconds(), t.labels.of(x).record...)
	}
}

// decisionOf returns the attributes of the event of a decision: those that are known. An abandoned
// driver that ended has no span here; it is on the driver's own.
func decisionOf(e *helm.Event) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, 7)
	if !e.Late {
		list = append(list, keyVerdict.String(e.Verdict.String()), keyReason.String(string(e.Reason)))
	}
	if e.Rule != "" {
		list = append(list, keyRule.String(e.Rule))
	}
	if e.ID != "" {
		list = append(list, keyDecision.String(e.ID))
	}
	if e.ID != "" && e.Err == nil && !e.Late {
		list = append(list, keyReceipt.Int64(int64(e.Index)))
	}
	if e.Repeat {
		list = append(list, keyRepeat.Bool(true))
	}
	if e.Late {
		list = append(list, keyLate.Bool(true))
	}
	return list
}

// after makes the span of a run that has ended.
func (t *Telemetry) after(ctx context.Context, e *helm.Event, told bool) {
	end := time.Now()
	_, span := t.tracer.Start(ctx, executeTool+" "+e.Tool, internal, trace.WithTimestamp(end.Add(-e.Took)),
		trace.WithAttributes(runOf(e.Tool, e.Session, e.ID)...))
	if !told && span.IsRecording() {
		span.AddEvent(eventDecision, trace.WithAttributes(decisionOf(e)...))
	}
	if e.Reason != contracts.ReasonAllow {
		failed(span, string(e.Reason))
	}
	span.End(trace.WithTimestamp(end))
}

var internal = trace.WithSpanKind(trace.SpanKindInternal)

// runOf returns the attributes of the span of a run.
func runOf(tool, session, decision string) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyOperation.String(executeTool), keyTool.String(tool),
		keyConversation.String(session), keyDecision.String(decision),
	}
}

// failed says what went wrong in a span.
func failed(span trace.Span, kind string) {
	span.SetAttributes(keyError.String(kind))
	span.SetStatus(codes.Error, "")
}

// drop recovers from a panic of a provider. It is called by defer.
func drop() { _ = recover() }

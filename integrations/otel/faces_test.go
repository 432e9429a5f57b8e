package otel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm/faces/state"
)

func TestTell(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	for _, f := range []state.Fact{
		{Kind: state.Refused, Name: "helm_forbidden"}, {Kind: state.Refused, Name: "helm_forbidden"},
		{Kind: state.Refused, Name: "helm_upstream"}, {Kind: state.Unknown},
		{Kind: state.Opened}, {Kind: state.Opened}, {Kind: state.Opened},
		{Kind: state.Settled, Name: "EXECUTED"}, {Kind: state.Settled, Name: "INDETERMINATE"},
		{Kind: state.Judged, Took: time.Millisecond}, {Kind: state.Drifted, Name: "files"}, {Kind: 0}, {Kind: 99},
	} {
		tell.Tell(f)
	}
	golden(t, "facts.txt", c.text())
}

func TestCallIsBelowTheClient(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	ctx, host := c.traces.Tracer("host").Start(t.Context(), "host")
	for _, call := range []state.ToolCall{
		{Tool: "pay", Session: "m1", Protocol: "2025-11-25", Request: "7",
			Carried: map[string]string{"traceparent": traceparent, "tracestate": "a=b"}},
		{Tool: "pay"},
		{Tool: "no name\x00", Carried: map[string]string{"traceparent": "00-" + secret}},
	} {
		within, done := tell.Call(ctx, call)
		carried := tell.Carry(within)
		assert.Contains(t, carried["traceparent"], trace.SpanContextFromContext(within).SpanID().String())
		done("")
	}
	within, done := tell.Call(ctx, state.ToolCall{Tool: "pay"})
	done("TOOL_ERROR")
	assert.NotNil(t, within)
	host.End()
	spans := c.named("tools/call pay")
	require.Len(t, spans, 3)
	assert.Equal(t, remoteTrace, spans[0].SpanContext.TraceID().String())
	assert.Equal(t, remoteSpan, spans[0].Parent.SpanID().String())
	assert.Equal(t, "a=b", spans[0].SpanContext.TraceState().String())
	require.Len(t, spans[0].Links, 1, "of the request that it came by")
	assert.Equal(t, host.SpanContext().SpanID(), spans[0].Links[0].SpanContext.SpanID())
	assert.Nil(t, tell.Carry(t.Context()))
	golden(t, "calls.txt", c.text())
}

func TestFacesOfBrokenProviders(t *testing.T) {
	t.Parallel()
	for name, o := range failing(t) {
		tell, err := New(o)
		require.NoError(t, err)
		assert.NotPanics(t, func() {
			for k := state.Refused; k <= state.Drifted; k++ {
				tell.Tell(state.Fact{Kind: k, Name: "x"})
			}
			within, done := tell.Call(t.Context(), state.ToolCall{Tool: "pay"})
			require.NotNil(t, within)
			tell.Carry(within)
			tell.Answered(within, state.ModelAnswer{})
			done("x")
		}, name)
	}
}

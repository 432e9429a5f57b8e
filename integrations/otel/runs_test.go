package otel

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

func attr(list []attribute.KeyValue, key attribute.Key) string {
	for _, a := range list {
		if a.Key == key {
			return a.Value.Emit()
		}
	}
	return ""
}

// TestSpansAreRuns makes calls of all kinds at once, and compares the spans with what the tools
// counted: one span for each run and none without, one event for each call, on its own span.
func TestSpansAreRuns(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	var runs atomic.Int64
	var mu sync.Mutex
	ran := map[string]int{} // by decision
	counts := func(then tool) tool {
		return func(ctx context.Context, call contracts.Call) (executor.Result, error) {
			runs.Add(1)
			mu.Lock()
			ran[call.Permit.DecisionID]++
			mu.Unlock()
			return then(ctx, call)
		}
	}
	endings := []tool{echo, fails, crashes}
	const callers, each = 32, 20
	seeds := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
		all.Go(func() {
			for n := range each {
				ctx, span := c.traces.Tracer("agent").Start(t.Context(), fmt.Sprintf("call %d %d", i, n))
				name := []string{"look", "find", "never", "none", "boxed"}[r.IntN(5)]
				in := helm.Intent{Tool: name, Args: json.RawMessage(args), Session: fmt.Sprintf("s%d", r.IntN(4))}
				switch end := endings[r.IntN(3)]; {
				case name == "boxed":
					in.Driver = w.Sandboxed(kerneltest.Boxed("box"), counts(end))
				case r.IntN(2) == 0:
					w.does(counts(end), true)(&in)
				default:
					in.Driver = counts(end)
				}
				if r.IntN(3) == 0 {
					in.Idempotency = fmt.Sprintf("k%d", r.IntN(8))
				}
				if r.IntN(5) == 0 {
					in.Args = json.RawMessage(`{"` + secret + `": 1}`)
				}
				w.Kernel.Guard(ctx, in)
				span.End()
			}
		})
	}
	all.Wait()
	require.Positive(t, runs.Load())
	spans, events := map[string]int{}, 0
	for _, s := range c.spans.GetSpans() {
		events += len(s.Events)
		if strings.HasPrefix(s.Name, executeTool) {
			assert.Empty(t, s.Events)
			spans[attr(s.Attributes, keyDecision)]++
			continue
		}
		assert.Len(t, s.Events, 1, s.Name)
	}
	assert.Equal(t, ran, spans)
	for id, n := range spans {
		assert.Equal(t, 1, n, id)
	}
	assert.Equal(t, callers*each, events)
	assert.Empty(t, w.tell.live.known)
	assert.NotContains(t, c.text(), secret)
}

// TestNestedCalls: the decision on a call that a wrapped tool makes is on the span of the tool's
// run, and its run is below.
func TestNestedCalls(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	outer := func(ctx context.Context, call contracts.Call) (executor.Result, error) {
		in := helm.Intent{Tool: "look", Args: json.RawMessage(args), Driver: w.drivers["look"]}
		d, r := w.Kernel.Guard(ctx, in)
		assert.Equal(t, contracts.ReasonAllow, d.Reason)
		assert.Regexp(t, "^s/", d.Record.ID, "the session of the call goes through the span")
		return executor.Result{Output: r.Output}, nil
	}
	ctx, agent := c.traces.Tracer("agent").Start(t.Context(), "agent")
	assert.Equal(t, contracts.ReasonAllow, w.guard(ctx, "find", args, w.does(outer, true)))
	agent.End()
	golden(t, "nested.txt", c.text())
}

// TestUnrecordedRuns: a run whose receipt could not be stored has a span, and its event no receipt.
// Calls of the kernel that is sealed then are events without a run.
func TestUnrecordedRuns(t *testing.T) {
	t.Parallel()
	for _, wrap := range []bool{false, true} {
		c := newCollector(t)
		w := newWorld(t, c.telemetry(), c)
		breaks := func(ctx context.Context, call contracts.Call) (executor.Result, error) {
			w.Store.FailIn(1)
			return echo(ctx, call)
		}
		ctx, agent := c.traces.Tracer("agent").Start(t.Context(), "agent")
		assert.Equal(t, contracts.ReasonReceiptNotStored, w.guard(ctx, "look", args, w.does(breaks, wrap)))
		assert.Equal(t, contracts.ReasonKernelSealed, w.guard(ctx, "look", args))
		agent.End()
		require.Len(t, c.named("execute_tool look"), 1)
		var spans tracetest.SpanStubs = c.named("agent")
		require.Len(t, spans[0].Events, 2)
		run, sealed := spans[0].Events[0].Attributes, spans[0].Events[1].Attributes
		assert.Equal(t, "s/0", attr(run, keyDecision))
		assert.Empty(t, attr(run, keyReceipt))
		assert.Equal(t, "KERNEL_SEALED", attr(sealed, keyReason))
		assert.Empty(t, attr(sealed, keyDecision)+attr(sealed, keyReceipt))
	}
}

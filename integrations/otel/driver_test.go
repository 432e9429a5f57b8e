package otel

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

func TestDriverKeepsADefinition(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	d, err := tell.Driver(definedTool{echo, contracts.Digest{7}})
	require.NoError(t, err)
	require.Implements(t, (*executor.Defined)(nil), d)
	assert.Equal(t, contracts.Digest{7}, d.(executor.Defined).Definition())
	d, err = tell.Driver(tool(echo))
	require.NoError(t, err)
	_, isDefined := d.(executor.Defined)
	assert.False(t, isDefined, "a definition out of nothing")

	w := newWorld(t, tell, c)
	other := func(in *helm.Intent) {
		in.Driver, err = tell.Driver(definedTool{echo, contracts.Digest{7}})
		require.NoError(t, err)
	}
	assert.Equal(t, contracts.ReasonAllow, w.guard(t.Context(), "known", `{}`))
	assert.Equal(t, contracts.ReasonDriverNotBound, w.guard(t.Context(), "known", `{}`, other), "another definition")
	assert.Len(t, c.named("execute_tool known"), 1)
}

func TestDriverRefuses(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	w := newWorld(t, tell, c)
	wrapped, err := tell.Driver(tool(echo))
	require.NoError(t, err)
	again, err := tell.Driver(definedTool{echo, contracts.Digest{1}})
	require.NoError(t, err)
	for name, d := range map[string]executor.Driver{
		"is nil":                 nil,
		"otel.tool is nil":       tool(nil),
		"executor.Func is nil":   executor.Func(nil),
		"World is nil":           (*kerneltest.World)(nil),
		"wrapped already":        wrapped,
		"is wrapped already":     again,
		"bind the driver itself": w.Sandboxed(kerneltest.Boxed("box"), echo),
	} {
		got, err := tell.Driver(d)
		assert.ErrorContains(t, err, name)
		assert.Nil(t, got)
	}
}

// TestDriverOfASandboxIsMeasured binds the driver itself, as the refusal says.
func TestDriverOfASandboxIsMeasured(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	slow := func(ctx context.Context, call contracts.Call) (executor.Result, error) {
		time.Sleep(20 * time.Millisecond)
		return echo(ctx, call)
	}
	box := func(in *helm.Intent) { in.Driver = w.Sandboxed(kerneltest.Boxed("box"), slow) }
	assert.Equal(t, contracts.ReasonAllow, w.guard(t.Context(), "boxed", args, box))
	spans := c.named("execute_tool boxed")
	require.Len(t, spans, 1)
	assert.GreaterOrEqual(t, spans[0].EndTime.Sub(spans[0].StartTime), 20*time.Millisecond)
}

// TestDriverIsTheSameTool compares what a call comes to with and without a span.
func TestDriverIsTheSameTool(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	ended := func(context.Context, contracts.Call) (executor.Result, error) { runtime.Goexit(); panic("unreachable") }
	for name, f := range map[string]tool{
		"echo": echo, "fails": fails, "ended": ended,
		"panics":   func(context.Context, contracts.Call) (executor.Result, error) { panic(secret) },
		"no error": func(context.Context, contracts.Call) (executor.Result, error) { panic(error(nil)) },
		"told": func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: []byte(`1`), Failed: true}, nil
		},
	} {
		outcome := func(wrap bool) contracts.Outcome {
			in := helm.Intent{Tool: "look", Args: []byte(args), Session: "s"}
			w.does(f, wrap)(&in)
			_, r := w.Kernel.Guard(t.Context(), in)
			return r.Record.Outcome
		}
		assert.Equal(t, outcome(false), outcome(true), name)
	}
	assert.Len(t, c.named("execute_tool look"), 12)
}

// TestDriverThatIsAbandoned has one span, which ends with the driver, and says that it is late.
func TestDriverThatIsAbandoned(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	release := make(chan struct{})
	hangs := func(context.Context, contracts.Call) (executor.Result, error) {
		<-release
		return executor.Result{}, errors.New("late")
	}
	assert.Equal(t, contracts.ReasonToolTimeout, w.guard(t.Context(), "slow", args, w.does(hangs, true)))
	assert.Empty(t, c.named("execute_tool slow"), "it still runs")
	close(release)
	over := func() bool { return len(c.named("execute_tool slow")) == 1 }
	require.Eventually(t, over, 5*time.Second, time.Millisecond)
	assert.Equal(t, "span execute_tool slow, internal gen_ai.operation.name=execute_tool gen_ai.tool.name=slow "+
		"gen_ai.conversation.id=s helm.decision.id=s/0 error.type=TOOL_TIMEOUT\n"+
		"  status Error\n"+
		"  event helm.decision helm.decision.id=s/0 helm.late=true\n"+
		"counter helm.decisions, {decision} gen_ai.tool.name=slow helm.reason=TOOL_TIMEOUT helm.verdict=DENY = 1\n"+
		"histogram gen_ai.execute_tool.duration, s error.type=TOOL_TIMEOUT gen_ai.tool.name=slow = 1 times\n", c.text())

	assert.Equal(t, contracts.ReasonToolTimeout, w.guard(t.Context(), "slow", args, w.does(hangsUntilItsEnd, true)))
	spans := c.named("execute_tool slow")
	require.Len(t, spans, 2)
	assert.Empty(t, spans[1].Events, "it went in time")
}

func hangsUntilItsEnd(ctx context.Context, _ contracts.Call) (executor.Result, error) {
	<-ctx.Done()
	return executor.Result{}, ctx.Err()
}

// TestDriverWithoutObserve remembers no more runs than it may.
func TestDriverWithoutObserve(t *testing.T) {
	t.Parallel()
	var l live
	for i := range 3 * mostLive {
		l.begin(trace.SpanID{byte(i), byte(i >> 8), byte(i >> 16)}.String())
		assert.LessOrEqual(t, len(l.known), mostLive)
		assert.LessOrEqual(t, len(l.order), mostLive)
	}
	assert.True(t, l.observe(l.order[len(l.order)-1]))
	assert.False(t, l.observe(l.order[len(l.order)-1]))
	var heard live
	for i := range 3 * mostLive {
		id := trace.SpanID{byte(i), byte(i >> 8), byte(i >> 16)}.String()
		heard.begin(id)
		require.True(t, heard.observe(id))
	}
	assert.Empty(t, heard.known)
}

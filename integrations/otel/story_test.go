package otel

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/internal/kerneltest"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "go test -run %s -update writes it", t.Name())
	assert.NotContains(t, text, secret)
}

const args = `{"a": "` + secret + `"}`

// TestStory is what operators see of an agent's calls: each kind of driver, each kind of ending.
func TestStory(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	tracer := c.traces.Tracer("agent")
	ctx, agent := tracer.Start(t.Context(), "agent")
	step := func(name string, want contracts.ReasonCode, tool, args string, change ...func(*helm.Intent)) {
		t.Helper()
		within, span := tracer.Start(ctx, name)
		assert.Equal(t, want, w.guard(within, tool, args, change...), name)
		span.End()
	}
	once := func(in *helm.Intent) { in.Idempotency = "once" }
	inner := func(ctx context.Context, call contracts.Call) (executor.Result, error) {
		_, span := tracer.Start(ctx, "what the tool does")
		span.End()
		return echo(ctx, call)
	}
	answers := func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(`{"ok": "` + secret + `"}`)}, nil
	}
	boxed := func(in *helm.Intent) { in.Driver = w.Sandboxed(kerneltest.Boxed("box"), echo) }

	step("01 a driver as it is", contracts.ReasonAllow, "look", args)
	step("02 a wrapped driver", contracts.ReasonAllow, "find", args)
	step("03 spans of the tool", contracts.ReasonAllow, "find", args, w.does(inner, true))
	step("04 a driver with a definition", contracts.ReasonAllow, "known", `{}`)
	step("05 a key", contracts.ReasonAllow, "find", args, once)
	step("06 its repeat", contracts.ReasonAllow, "find", args, once)
	step("07 another call under it", contracts.ReasonIdempotencyConflict, "look", args, once)
	step("08 arguments outside the schema", contracts.ReasonSchemaViolation, "look", `{"`+secret+`": 1}`)
	step("09 no rule allows it", contracts.ReasonNoPolicyDefined, "never", args, w.does(echo, true))
	step("10 nobody declares it", contracts.ReasonToolNotFound, "no_such_tool", args)
	step("11 a tool fails", contracts.ReasonToolError, "look", args, w.does(fails, false))
	step("12 a wrapped tool fails", contracts.ReasonToolError, "find", args, w.does(fails, true))
	step("13 a tool panics", contracts.ReasonToolPanic, "look", args, w.does(crashes, false))
	step("14 a wrapped tool panics", contracts.ReasonToolPanic, "find", args, w.does(crashes, true))
	step("15 another output than the pinned", contracts.ReasonContractDrift, "typed", `{}`, w.does(answers, false))
	step("16 a driver in a sandbox", contracts.ReasonAllow, "boxed", args, boxed)

	desk := handoff.New(w.Kernel, 0)
	desk.Watch(state.WatchOf(w.tell))
	within, request := tracer.Start(ctx, "17 handed over")
	in := helm.Intent{Tool: "mail", Args: []byte(args), Session: "s"}
	_, _, ticket := desk.Begin(within, in, contracts.Digest{})
	require.NotNil(t, ticket)
	request.End() // the answer with the permission is out
	_, _, recorded := ticket.Settle(handoff.Outcome{Output: []byte(secret), Raw: true})
	assert.True(t, recorded)
	agent.End()
	golden(t, "story.txt", c.text())
}

package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/geminitool"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/integrations/adk"
	"github.com/helmkernel/helm/integrations/adk/internal/script"
)

// A call is judged, and run with the bytes that were judged; the model gets what was released.
func TestCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := newChat(t, llmagent.Config{Tools: w.guard(w.plain("note"), w.streaming("slow"), w.plain("vault"))}, nil,
		script.Call{Tool: "note", Args: `{"text":"<a>","n":5}`}, script.Call{Tool: "vault", Args: `{"text":"a"}`},
		script.Call{Tool: "slow"}, script.Call{Tool: "note", Args: `{"text":"a","n":51}`})
	told := x.say(hello())
	require.Len(t, told, 4)
	assert.Equal(t, map[string]any{"did": "note done"}, told[0])
	assert.Contains(t, told[1]["error"], "vault was denied: NO_POLICY_DEFINED")
	assert.Equal(t, map[string]any{"result": "slow done"}, told[2])
	assert.Contains(t, told[3]["error"], "SCHEMA_VIOLATION")
	assert.Equal(t, []string{"note ALLOW", "vault NO_POLICY_DEFINED", "slow ALLOW", "note SCHEMA_VIOLATION"}, w.seen())
	assert.Equal(t, []string{"note", "slow"}, w.effects())
	assert.JSONEq(t, `{"text":"<a>","n":5}`, w.args[0])
	for _, e := range w.events {
		assert.Equal(t, "chat-1", e.Session)
	}
}

// Of odd arguments those are judged that ADK has, and those run.
func TestArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ok := `{"text":"\u00e9<&>","n":-9007199254740991}`
	x := newChat(t, llmagent.Config{Tools: w.guard(w.plain("note"))}, nil, script.Call{Tool: "note", Args: ok},
		script.Call{Tool: "note", Args: `{"text":"a","extra":1}`}, script.Call{Tool: "note", Args: `{"text":"a","Text":"b"}`},
		script.Call{Tool: "note", Args: `{"TEXT":"a"}`}, script.Call{Tool: "note"},
		script.Call{Tool: "note", Args: `{"text":"a","n":51,"n":5}`})
	x.say(hello())
	assert.Equal(t, []string{"note ALLOW", "note SCHEMA_VIOLATION", "note ERR_TOOL_ARGS_CANONICALIZATION_FAILED",
		"note SCHEMA_VIOLATION", "note SCHEMA_VIOLATION", "note ALLOW"}, w.seen())
	require.Len(t, w.args, 2)
	assert.JSONEq(t, ok, w.args[0])
	assert.JSONEq(t, `{"text":"a","n":5}`, w.args[1], "the model's client has dropped the first n")
}

// The text of a stream is text, even if it looks like a denial.
func TestStreamOfJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	says := w.streams("slow", func(_ agent.Context, yield func(string, error) bool) { yield(`{"error":"none"}`, nil) })
	told := newChat(t, llmagent.Config{Tools: w.guard(says)}, nil, script.Call{Tool: "slow"}).say(hello())
	assert.Equal(t, []map[string]any{{"result": `{"error":"none"}`}}, told)
}

// A denial, a failure and an unknown tool leave the results of the calls next to them alone.
func TestSiblings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fails := w.does("slow", func(agent.Context, map[string]any) (string, error) { return "", errors.New("out of ink") })
	step := script.Step{}
	for range 8 {
		step = append(step, script.Call{Tool: "note", Args: `{"text":"a"}`}, script.Call{Tool: "vault", Args: `{"text":"a"}`},
			script.Call{Tool: "slow"}, script.Call{Tool: "ghost"})
	}
	for i := range step {
		step[i].ID = string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	x := newSteps(t, llmagent.Config{Tools: w.guard(w.plain("note"), w.plain("vault"), fails)},
		[]*plugin.Plugin{w.plugin()}, step)
	x.say(hello())
	told := x.model.Told()
	require.Len(t, told, 32)
	for i, c := range step {
		require.Equal(t, c.ID, told[i].ID)
		text, _ := told[i].Result["error"].(string)
		switch c.Tool {
		case "note":
			assert.Equal(t, map[string]any{"did": "note done"}, told[i].Result)
		case "slow":
			assert.Equal(t, "out of ink", text)
		case "vault":
			assert.Contains(t, text, "NO_POLICY_DEFINED")
		case "ghost":
			assert.Contains(t, text, "DENY_TOOL_NOT_FOUND")
		}
	}
	assert.Len(t, w.seen(), 32)
	assert.Len(t, w.effects(), 16)
}

// What a tool does to the event counts only with its outcome. A tool that outlives its call does
// not reach the event.
func TestActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := func(ctx agent.Context, _ map[string]any) (string, error) {
		ctx.Actions().StateDelta["mark"] = "made"
		return "", nil
	}
	stays := func(ctx agent.Context, _ map[string]any) (string, error) {
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
		ctx.Actions().Escalate = true
		ctx.Actions().StateDelta["late"] = "made"
		return "", nil
	}
	x := newChat(t, llmagent.Config{Tools: w.guard(w.does("note", mark), w.does("strict", mark), w.does("slow", stays))},
		nil, script.Call{Tool: "strict"}, script.Call{Tool: "slow"}, script.Call{Tool: "note", Args: `{"text":"a"}`})
	told := x.say(hello())
	<-w.late
	require.Len(t, told, 3)
	assert.Contains(t, told[0]["error"], "ERR_CONNECTOR_CONTRACT_DRIFT")
	assert.Contains(t, told[1]["error"], "TOOL_TIMEOUT")
	var deltas []map[string]any
	for _, e := range x.events {
		if e.Content != nil && e.Content.Parts[0].FunctionResponse != nil {
			deltas = append(deltas, e.Actions.StateDelta)
			assert.False(t, e.Actions.Escalate)
		}
	}
	assert.Equal(t, []map[string]any{{}, {}, {"mark": "made"}}, deltas)
}

// Inside a tool the context is ADK's, with the kernel's limits on it, and calls are chained.
func TestContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	looks := func(ctx agent.Context, _ map[string]any) (string, error) {
		_, limited := ctx.Deadline()
		assert.True(t, limited)
		assert.NotEmpty(t, ctx.FunctionCallID())
		assert.Equal(t, []string{"ann", "chat", "office", "clerk"},
			[]string{ctx.UserID(), ctx.SessionID(), ctx.AppName(), ctx.AgentName()})
		assert.NoError(t, ctx.State().Set("seen", true))
		seen, err := ctx.State().Get("seen")
		assert.NoError(t, err)
		assert.Equal(t, true, seen)
		d, r := w.kernel.Guard(ctx, helm.Intent{Tool: "note", Args: []byte(`{"text":"inner"}`),
			Driver: helm.Text(func(c context.Context, _ json.RawMessage) (string, error) { return "inner", c.Err() })})
		assert.True(t, d.Allowed())
		return string(r.Output), nil
	}
	x := newChat(t, llmagent.Config{Tools: w.guard(w.does("slow", looks))}, nil, script.Call{Tool: "slow"})
	assert.Equal(t, []map[string]any{{"did": "inner"}}, x.say(hello()))
	assert.Equal(t, []string{"note ALLOW", "slow ALLOW"}, w.seen())
	assert.Equal(t, "chat-1", w.events[0].Session)
}

// A stream that does not end as it should is no result.
func TestStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	breaks := w.streams("note", func(_ agent.Context, yield func(string, error) bool) {
		_ = yield("half", nil) && yield("", errors.New("the line broke"))
	})
	quiet := w.streams("slow", func(ctx agent.Context, yield func(string, error) bool) {
		if yield("half", nil) {
			<-ctx.Done()
		}
	})
	panics := w.streams("helper", func(agent.Context, func(string, error) bool) { panic("hunter2") })
	x := newChat(t, llmagent.Config{Tools: w.guard(breaks, quiet, panics)}, nil,
		script.Call{Tool: "note", Args: `{"text":"a"}`}, script.Call{Tool: "slow"},
		script.Call{Tool: "helper", Args: `{"request":"a"}`})
	told := x.say(hello())
	require.Len(t, told, 3)
	assert.Equal(t, map[string]any{"error": "the line broke"}, told[0])
	assert.Contains(t, told[1]["error"], "slow has no result: TOOL_TIMEOUT")
	assert.Contains(t, told[2]["error"], "helper has no result: TOOL_PANIC")
	assert.NotContains(t, told[2]["error"], "hunter2")
	assert.Equal(t, []string{"note TOOL_ERROR", "slow TOOL_TIMEOUT", "helper TOOL_PANIC"}, w.seen())
}

type deferring struct{ tool.Tool }

func (deferring) DefersResponse() bool { return true }

// Tools that cannot be guarded are errors, and so are those of other tools' names.
func TestRefusedTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	named := func(name string) tool.Tool { return w.plain(name) }
	long := w.plain("note", func(c *functiontool.Config) { c.IsLongRunning = true })
	for want, tl := range map[string]tool.Tool{
		"no tool":                      nil,
		"guarded already":              w.guard(w.plain("note"))[0],
		"is no name of a tool":         named("two words"),
		`"" is no name of a tool`:      named(""),
		"ADK answers calls":            named("stop_streaming"),
		"ADK answers calls of this":    named("adk_request_confirmation"),
		"long-running":                 long,
		"defers its response":          deferring{w.plain("note")},
		"not run by ADK as a function": geminitool.New("search", "", &genai.Tool{GoogleSearch: &genai.GoogleSearch{}}),
		`is declared as "vault"`:       renamed{w.plain("vault"), "note"},
	} {
		g, err := adk.Tool(w.kernel, tl)
		require.ErrorContains(t, err, want)
		assert.Nil(t, g, want)
	}
	_, err := adk.Tool(nil, w.plain("note"))
	require.ErrorContains(t, err, "no kernel")
	_, err = adk.Toolset(nil, &set{})
	require.ErrorContains(t, err, "no kernel")
	_, err = adk.Toolset(w.kernel, nil)
	require.ErrorContains(t, err, "no toolset")
	_, err = adk.Plugin(nil)
	require.ErrorContains(t, err, "no kernel")
	ts, err := adk.Toolset(w.kernel, &set{})
	require.NoError(t, err)
	_, err = adk.Toolset(w.kernel, ts)
	require.ErrorContains(t, err, "guarded already")
}

// Odd names of a model's calls are denied like any other.
func TestUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 200)
	x := newChat(t, llmagent.Config{Tools: w.guard(w.plain("note"))}, []*plugin.Plugin{w.plugin()},
		script.Call{Tool: "ghost"}, script.Call{Tool: "two words"}, script.Call{Tool: long},
		script.Call{Tool: "vault", Args: `{"text":"a"}`})
	told := x.say(hello())
	require.Len(t, told, 4)
	for _, one := range told {
		assert.Contains(t, one["error"], "denied")
	}
	assert.Len(t, w.seen(), 4)
	assert.Equal(t, string(contracts.ReasonToolNotFound), strings.Fields(w.seen()[0])[1])
}

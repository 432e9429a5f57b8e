package eino_test

import (
	"context"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	helmeino "github.com/helmkernel/helm/integrations/eino"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// chat makes an agent of package adk.
func chat(
	t *testing.T, name string, c compose.ToolsNodeConfig, m *script.Model, handlers ...adk.ChatModelAgentMiddleware,
) adk.Agent {
	t.Helper()
	a, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{Name: name, Description: "Agent " + name + ".",
		Model: m, ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: c}, Handlers: handlers})
	require.NoError(t, err)
	return a
}

// drain returns the last text of a run and the point at which it was interrupted.
func drain(t *testing.T, events *adk.AsyncIterator[*adk.AgentEvent]) (text string, at *adk.InterruptCtx) {
	t.Helper()
	for {
		e, ok := events.Next()
		if !ok {
			return text, at
		}
		require.NoError(t, e.Err)
		if e.Action != nil && e.Action.Interrupted != nil {
			require.Len(t, e.Action.Interrupted.InterruptContexts, 1)
			at = e.Action.Interrupted.InterruptContexts[0]
		}
		if e.Output != nil && e.Output.MessageOutput != nil && e.Output.MessageOutput.Message != nil {
			text = e.Output.MessageOutput.Message.Content
		}
	}
}

// An agent in a tool: its own calls are judged, and one that waits for an approver interrupts both
// agents, and resumes both.
func TestAgentInTool(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	clerk := chat(t, "clerk", governed(t, w.Kernel, makeTool(&e, plain, "pay", says("paid")),
		makeTool(&e, plain, "vault", says("gold"))),
		script.New("Ann has her money.", script.Calls("vault", `{}`), script.Calls("pay", `{"to":"ann"}`)))
	m := script.New("done", script.Calls("clerk", `{"request":"pay Ann"}`))
	boss := chat(t, "boss", governed(t, w.Kernel, adk.NewAgentTool(t.Context(), clerk)), m)
	runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: boss,
		CheckPointStore: &checkpoints{m: map[string][]byte{}}})
	_, at := drain(t, runner.Query(host(t), "please", adk.WithCheckPointID("one")))
	require.NotNil(t, at, "it was not interrupted")
	assert.Empty(t, e.all())
	yes, err := request(t, at.Info).Approve(kerneltest.SeedKey(t, owner))
	require.NoError(t, err)
	events, err := runner.ResumeWithParams(host(t), "one", &adk.ResumeParams{
		Targets: map[string]any{at.ID: `{"approvals":[` + string(yes) + `]}`}})
	require.NoError(t, err)
	text, at := drain(t, events)
	assert.Nil(t, at)
	assert.Equal(t, "done", text)
	require.Len(t, m.Shown(), 1)
	assert.Equal(t, "Ann has her money.", m.Shown()[0].Content)
	assert.Equal(t, []string{`pay{"to":"ann"}`}, e.all())
	assert.Equal(t, []string{"vault POLICY_VIOLATION", "pay APPROVAL_REQUIRED", "clerk TOOL_ERROR",
		"pay ALLOW", "clerk ALLOW"}, receipts(w))
}

// A brings is a middleware of an agent that brings a tool of its own.
type brings struct {
	adk.BaseChatModelAgentMiddleware
	tool tool.BaseTool
}

func (b *brings) BeforeAgent(ctx context.Context, c *adk.ChatModelAgentContext) (
	context.Context, *adk.ChatModelAgentContext, error,
) {
	c.Tools = append(c.Tools, b.tool)
	return ctx, c, nil
}

// A middleware of the agent brings a tool that nothing wrapped.
func TestBypassBeforeAgent(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		vault := &brings{tool: makeTool(&e, kind, "vault", says("gold"))}
		wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "note", says("ok")))
		require.NoError(t, err)
		run := func(c compose.ToolsNodeConfig) []*schema.Message {
			m := script.New("done", script.Calls("vault", `{}`))
			runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: chat(t, "boss", c, m, vault)})
			text, _ := drain(t, runner.Query(host(t), "please"))
			require.Equal(t, "done", text)
			require.Len(t, m.Shown(), 1)
			return m.Shown()
		}
		run(compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped}})
		require.Len(t, e.all(), 1, closed)
		require.Empty(t, receipts(w), closed)

		run(governed(t, w.Kernel, wrapped))
		assert.Len(t, e.all(), 1, kind)
		assert.Equal(t, []string{"vault POLICY_VIOLATION"}, receipts(w), kind)
	}
}

// The framework's own tools are judged too, and do what they do if the policy permits them.
func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, permitted := range []bool{false, true} {
		w := desk(t, func(o *helm.Options) {
			if permitted {
				o.Policy = kerneltest.Compile(t, kerneltest.Edit(t, deskPolicy, "\nrules:", `
  transfer_to_agent:
    effect: read
    input: {type: object, required: [agent_name], properties: {agent_name: {type: string}}}
rules:`, "[note,", "[transfer_to_agent, note,"))
			}
		})
		clerk := chat(t, "helper", governed(t, w.Kernel), script.New("I am the helper."))
		boss := chat(t, "boss", governed(t, w.Kernel),
			script.New("I go on alone.", script.Calls(adk.TransferToAgentToolName, `{"agent_name":"helper"}`)))
		both, err := adk.SetSubAgents(t.Context(), boss, []adk.Agent{clerk})
		require.NoError(t, err)
		text, _ := drain(t, adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: both}).Query(host(t), "please"))
		if permitted {
			assert.Equal(t, "I am the helper.", text)
			assert.Equal(t, []string{"transfer_to_agent ALLOW"}, receipts(w))
		} else {
			assert.NotEqual(t, "I am the helper.", text)
			assert.Equal(t, []string{"transfer_to_agent DENY_TOOL_NOT_FOUND"}, receipts(w))
		}
	}
	list, err := helmeino.List(adk.ToolInfoExit)
	require.NoError(t, err)
	assert.Contains(t, string(list), `"name":"exit"`)
}

// A tool's context is the framework's own, with the deadline of the policy and the session of the
// call.
func TestContext(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		type key struct{}
		seen := false
		looks := makeTool(&e, kind, "jot", func(ctx context.Context, _ string) ([]string, error) {
			_, limited := ctx.Deadline()
			d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "vault", Args: []byte(`{}`)})
			seen = limited && compose.GetToolCallID(ctx) == "7" && ctx.Value(key{}) == "mine" &&
				d.Record.Caller.ID == "bob" && len(compose.GetCurrentAddress(ctx)) > 0
			return []string{"ok"}, nil
		})
		a := newAgent(t, governed(t, w.Kernel, looks), calls(script.Call("7", "jot", `{}`)))
		_, err := a.run(context.WithValue(host(t), key{}, "mine"), false)
		require.NoError(t, err)
		assert.True(t, seen, kind)
	}
}

// A run that is canceled at once cuts the stream of a tool: the call has a receipt, is not
// EXECUTED, and is not run a second time by the resume.
func TestCanceledRun(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	began := make(chan struct{})
	slow := struct {
		*info
		streams
	}{&info{schema.ToolInfo{Name: "jot", Desc: "Jots."}}, streams{
		func(ctx context.Context, args string) (*schema.StreamReader[string], error) {
			e.add("jot", args)
			r, w := schema.Pipe[string](0)
			go func() {
				defer w.Close()
				w.Send("half", nil)
				close(began)
				<-ctx.Done()
			}()
			return r, nil
		}}}
	m := script.New("done", script.Calls("jot", `{}`))
	runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: chat(t, "boss", governed(t, w.Kernel, slow), m),
		CheckPointStore: &checkpoints{m: map[string][]byte{}}, EnableStreaming: true})
	option, cancel := adk.WithCancel()
	events := runner.Query(host(t), "please", adk.WithCheckPointID("one"), option)
	<-began
	handle, ok := cancel()
	require.True(t, ok)
	var last error
	for event, more := events.Next(); more; event, more = events.Next() {
		last = event.Err
	}
	require.NoError(t, handle.Wait())
	var canceled *adk.CancelError
	require.ErrorAs(t, last, &canceled)
	for range 1000 { // the run does not wait for the tool, which is about to end
		if len(receipts(w)) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	assert.Equal(t, []string{"jot TOOL_ERROR"}, receipts(w))
	events, err := runner.Resume(host(t), "one")
	require.NoError(t, err)
	drain(t, events)
	assert.Equal(t, []string{"jot{}"}, e.all())
	assert.Equal(t, []string{"jot TOOL_ERROR"}, receipts(w))
}

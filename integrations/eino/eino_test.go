package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmeino "github.com/helmkernel/helm/integrations/eino"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// A wrapper has the kinds of its tool and no other, since the framework looks for them.
func TestToolKinds(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	shape := func(x any) (s [4]bool) {
		_, s[0] = x.(tool.InvokableTool)
		_, s[1] = x.(tool.StreamableTool)
		_, s[2] = x.(tool.EnhancedInvokableTool)
		_, s[3] = x.(tool.EnhancedStreamableTool)
		return s
	}
	seen := map[[4]bool]bool{}
	for _, kind := range kinds {
		bare := makeTool(&e, kind, "note", says("ok"))
		wrapped, err := helmeino.Tool(w.Kernel, bare)
		require.NoError(t, err, kind)
		assert.Equal(t, shape(bare), shape(wrapped), kind)
		seen[shape(wrapped)] = true
		had, err := bare.Info(t.Context())
		require.NoError(t, err)
		has, err := wrapped.Info(t.Context())
		require.NoError(t, err)
		assert.Equal(t, had, has)
	}
	assert.Len(t, seen, len(kinds))
}

type odd struct {
	tool.InvokableTool
	info func() (*schema.ToolInfo, error)
}

func (o odd) Info(context.Context) (*schema.ToolInfo, error) { return o.info() }

func TestToolRefused(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	good := makeTool(&e, plain, "note", says("ok"))
	wrapped, err := helmeino.Tool(w.Kernel, good)
	require.NoError(t, err, "or the refusals below would prove nothing")
	named := func(name string) tool.BaseTool { return makeTool(&e, plain, name, says("ok")) }
	withInfo := func(f func() (*schema.ToolInfo, error)) tool.BaseTool {
		return odd{good.(tool.InvokableTool), f}
	}
	for name, x := range map[string]struct {
		k *helm.Kernel
		t tool.BaseTool
	}{
		"no kernel": {nil, good}, "no tool": {w.Kernel, nil}, "wrapped": {w.Kernel, wrapped},
		"runs nothing":         {w.Kernel, makeTool(&e, nothing, "note", says("ok"))},
		"plain and enhanced":   {w.Kernel, makeTool(&e, anything, "note", says("ok"))},
		"no name":              {w.Kernel, named("")},
		"no legal name":        {w.Kernel, named("to do")},
		"a nil pointer":        {w.Kernel, (*odd)(nil)},
		"no information":       {w.Kernel, withInfo(func() (*schema.ToolInfo, error) { return nil, nil })},
		"an error":             {w.Kernel, withInfo(func() (*schema.ToolInfo, error) { return nil, errors.New("x") })},
		"a panic, and no info": {w.Kernel, withInfo(func() (*schema.ToolInfo, error) { panic("hunter2") })},
	} {
		made, err := helmeino.Tool(x.k, x.t)
		require.Error(t, err, name)
		assert.Nil(t, made, name)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	other := desk(t)
	bare := compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped}}
	made, err := helmeino.Config(w.Kernel, bare)
	require.NoError(t, err, "a wrapped tool is not wrapped again")
	require.Len(t, made.Tools, 1)
	assert.Same(t, wrapped, made.Tools[0])
	assert.Empty(t, bare.ToolCallMiddlewares)
	for name, x := range map[string]struct {
		k *helm.Kernel
		c compose.ToolsNodeConfig
	}{
		"no kernel":      {nil, compose.ToolsNodeConfig{}},
		"another kernel": {other.Kernel, bare},
		"two of a name":  {w.Kernel, compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped, named("note")}}},
		"a nil tool":     {w.Kernel, compose.ToolsNodeConfig{Tools: []tool.BaseTool{nil}}},
		"a handler": {w.Kernel, compose.ToolsNodeConfig{
			UnknownToolsHandler: func(context.Context, string, string) (string, error) { return "", nil }}},
	} {
		_, err := helmeino.Config(x.k, x.c)
		require.Error(t, err, name)
	}
}

// A tool that has another name later is judged by the first, and has no information.
func TestToolRenamed(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	now := "vault"
	bare := odd{makeTool(&e, plain, "x", says("gold")).(tool.InvokableTool),
		func() (*schema.ToolInfo, error) { return &schema.ToolInfo{Name: now}, nil }}
	wrapped, err := helmeino.Tool(w.Kernel, bare)
	require.NoError(t, err)
	now = "jot"
	_, err = wrapped.Info(t.Context())
	require.Error(t, err)
	text, err := wrapped.(tool.InvokableTool).InvokableRun(host(t), `{}`)
	require.NoError(t, err)
	assert.Contains(t, text, "vault was denied")
	assert.Empty(t, e.all())
}

// What the model is shown is the released output, of each kind, whether the agent streams or not.
func TestShown(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, streamed := range []bool{false, true} {
			var e effects
			w := desk(t)
			a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "jot", says(`{"b": 1.0,`, ` "a":"<é>"}`)),
				makeTool(&e, kind, "note", says("plain ", "text"))),
				calls(script.Call("1", "jot", `{}`)), calls(script.Call("2", "note", `{"text":"a"}`)),
				calls(script.Call("3", "note", `{"text":"a","n":51}`)))
			answer, err := a.run(host(t), streamed)
			require.NoError(t, err, kind)
			assert.Equal(t, "done", answer.Content)
			shown := a.shown()
			want := `{"a":"<é>","b":1}`
			if strings.HasPrefix(kind, enhanced) {
				want = `{"b": 1.0, "a":"<é>"}` // a text part of a result, which is JSON as a whole
			}
			assert.Equal(t, want, shown["1"], kind)
			assert.Equal(t, "plain text", shown["2"], kind)
			assert.Contains(t, shown["3"], "note was denied: POLICY_VIOLATION", kind)
			assert.ElementsMatch(t, []string{"jot ALLOW", "note ALLOW", "note POLICY_VIOLATION"}, receipts(w))
			assert.Len(t, e.all(), 2)
		}
	}
}

// A call that waits for an approver interrupts the agent, and runs once when it was approved.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, streamed := range []bool{false, true} {
			var e effects
			w := desk(t)
			a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "pay", says("paid")),
				makeTool(&e, plain, "note", says("noted"))),
				calls(script.Call("1", "note", `{"text":"a"}`), script.Call("2", "pay", `{"to":"ann"}`)))
			_, err := a.run(host(t), streamed)
			interrupt, q := asked(t, err)
			assert.Equal(t, "pay", q.Tool)
			assert.NotContains(t, fmt.Sprint(compose.ExtractInterruptInfo(err)), `{"to"`, "no arguments")
			yes, err := q.Approve(kerneltest.SeedKey(t, owner))
			require.NoError(t, err)
			payload := map[string]any{"approvals": []any{json.RawMessage(yes)}}
			answer, err := a.run(compose.ResumeWithData(host(t), interrupt, payload), streamed)
			require.NoError(t, err, kind)
			assert.Equal(t, "done", answer.Content)
			assert.Equal(t, map[string]string{"1": "noted", "2": "paid"}, a.shown(), kind)
			assert.ElementsMatch(t, []string{`note{"n":1,"text":"a"}`, `pay{"to":"ann"}`}, e.all(), kind)
			assert.ElementsMatch(t, []string{"note ALLOW", "pay APPROVAL_REQUIRED", "pay ALLOW"}, receipts(w))
		}
	}
}

// Nothing but an approval of this call is one, and after a resume the agent goes on in any case.
func TestApprovalAttacks(t *testing.T) {
	t.Parallel()
	no := func(q contracts.ApprovalRequest) any {
		e, err := q.Refuse(kerneltest.SeedKey(t, owner))
		require.NoError(t, err)
		return `{"approvals":[` + string(e) + `]}`
	}
	yes := func(q contracts.ApprovalRequest) any {
		e, err := q.Approve(kerneltest.SeedKey(t, owner))
		require.NoError(t, err)
		return []byte(`{"approvals":[` + string(e) + `]}`)
	}
	always := func(x any) func(contracts.ApprovalRequest) any {
		return func(contracts.ApprovalRequest) any { return x }
	}
	mallory := func(ctx context.Context) context.Context {
		return helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "mallory"}})
	}
	other := func(ctx context.Context) context.Context { return helm.With(ctx, helm.Intent{Session: "chat-2"}) }
	for name, x := range map[string]struct {
		say func(contracts.ApprovalRequest) any
		ctx func(context.Context) context.Context
		why string
	}{
		"approved": {always(map[string]any{"approved": true}), nil, "APPROVAL_REQUIRED"},
		"true":     {always(true), nil, "APPROVAL_REQUIRED"},
		"nothing":  {always(nil), nil, "APPROVAL_REQUIRED"},
		"text":     {always(`{"approvals":["yes"]}`), nil, "APPROVAL_REQUIRED"},
		"not the owner": {func(q contracts.ApprovalRequest) any {
			e, err := q.Approve(kerneltest.SeedKey(t, owner+1))
			require.NoError(t, err)
			return `{"approvals":[` + string(e) + `]}`
		}, nil, "APPROVAL_"},
		"another call": {func(q contracts.ApprovalRequest) any {
			q.ArgsHash[0] ^= 1
			return yes(q)
		}, nil, "APPROVAL_"},
		"refused":         {no, nil, "APPROVAL_REFUSED"},
		"another caller":  {yes, mallory, "APPROVAL_"},
		"another session": {yes, other, "APPROVAL_"},
		"good":            {yes, nil, ""},
	} {
		var e effects
		w := desk(t)
		a := newAgent(t, governed(t, w.Kernel, makeTool(&e, plain, "pay", says("paid"))),
			calls(script.Call("1", "pay", `{"to":"ann"}`)))
		_, err := a.run(host(t), false)
		interrupt, q := asked(t, err)
		ctx := host(t)
		if x.ctx != nil {
			ctx = x.ctx(ctx)
		}
		answer, err := a.run(compose.ResumeWithData(ctx, interrupt, x.say(q)), false)
		require.NoError(t, err, name)
		assert.Equal(t, "done", answer.Content, name)
		if x.why == "" {
			assert.Equal(t, "paid", a.shown()["1"])
			assert.Len(t, e.all(), 1)
			continue
		}
		assert.Contains(t, a.shown()["1"], "pay was denied: "+x.why, name)
		assert.Empty(t, e.all(), name)
		assert.Len(t, receipts(w), 2, name)
	}
}

// Of two calls that wait the one that is not resumed goes on waiting, and is not judged meanwhile.
func TestTwoApprovals(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	a := newAgent(t, governed(t, w.Kernel, makeTool(&e, plain, "pay", says("paid"))),
		calls(script.Call("1", "pay", `{"to":"ann"}`), script.Call("2", "pay", `{"to":"eve"}`)))
	_, err := a.run(host(t), false)
	for range 2 {
		i, ok := compose.ExtractInterruptInfo(err)
		require.True(t, ok, "%v", err)
		point := i.InterruptContexts[0]
		yes, err2 := request(t, point.Info).Approve(kerneltest.SeedKey(t, owner))
		require.NoError(t, err2)
		_, err = a.run(compose.ResumeWithData(host(t), point.ID, `{"approvals":[`+string(yes)+`]}`), false)
	}
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"1": "paid", "2": "paid"}, a.shown())
	assert.Len(t, e.all(), 2)
	assert.Len(t, receipts(w), 4, "each is denied once, and allowed once")
}

// A tool that asks by an interrupt of its own is not answered by an approver's payload, nor does
// its answer approve anything.
func TestToolInterrupts(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		w := desk(t)
		var e effects
		asks := makeTool(&e, kind, "jot", func(ctx context.Context, _ string) ([]string, error) {
			if was, _, _ := tool.GetInterruptState[any](ctx); !was {
				return nil, tool.StatefulInterrupt(ctx, "sure?", "half")
			}
			_, _, answer := tool.GetResumeContext[string](ctx)
			return []string{"the user says ", answer}, nil
		})
		a := newAgent(t, governed(t, w.Kernel, asks), calls(script.Call("1", "jot", `{}`)))
		_, err := a.run(host(t), false)
		i, ok := compose.ExtractInterruptInfo(err)
		require.True(t, ok, "%s: %v", kind, err)
		require.Len(t, i.InterruptContexts, 1)
		assert.Equal(t, "sure?", i.InterruptContexts[0].Info)
		_, err = a.run(compose.ResumeWithData(host(t), i.InterruptContexts[0].ID, "yes"), false)
		require.NoError(t, err, kind)
		assert.Equal(t, "the user says yes", a.shown()["1"], kind)
		assert.Equal(t, []string{"jot TOOL_ERROR", "jot ALLOW"}, receipts(w))
	}
}

// A stream that has an error, is cut short by the end of the run, or is too long is not EXECUTED.
func TestStreams(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<10)
	for _, kind := range []string{streaming, enhancedStream} {
		for name, x := range map[string]struct {
			b    body
			want string
		}{
			"whole": {says("a", "b"), "ALLOW"},
			"empty": {says(), "ALLOW"},
			"broken": {func(context.Context, string) ([]string, error) { return []string{"half"}, errors.New("cut") },
				"TOOL_ERROR"},
			"too long": {says(long, long), "ERR_COMPUTE_OUTPUT_EXHAUSTED"},
			"ends with its context": {func(ctx context.Context, _ string) ([]string, error) {
				<-ctx.Done()
				return []string{"half"}, nil
			}, "TOOL_TIMEOUT"},
		} {
			var e effects
			w := desk(t)
			a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "brief", x.b)), calls(script.Call("1", "brief", `{}`)))
			_, err := a.run(host(t), true)
			require.NoError(t, err, name)
			assert.Equal(t, []string{"brief " + x.want}, receipts(w), "%s, %s", name, kind)
			assert.NotContains(t, a.shown()["1"], "half", name)
		}
	}
}

// The turn goes on when a tool does not return after its time limit.
func TestHangs(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		hangs := func(context.Context, string) ([]string, error) { <-release; return nil, nil }
		a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "brief", hangs)), calls(script.Call("1", "brief", `{}`)))
		began := time.Now()
		_, err := a.run(host(t), false)
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 30*time.Second)
		assert.Contains(t, a.shown()["1"], "TOOL_TIMEOUT", kind)
	}
}

// 32 calls of one turn, of which every other is denied, side by side.
func TestParallel(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		var list []schema.ToolCall
		for i := range 32 {
			list = append(list, script.Call(id(i), "note", fmt.Sprintf(`{"text":"%d","n":%d}`, i, 1+50*(i%2))))
		}
		a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "note", says("ok"))), list)
		_, err := a.run(host(t), false)
		require.NoError(t, err)
		shown := a.shown()
		require.Len(t, shown, 32)
		for i := range 32 {
			if i%2 == 0 {
				assert.Equal(t, "ok", shown[id(i)], kind)
			} else {
				assert.Contains(t, shown[id(i)], "note was denied", kind)
			}
		}
		assert.Len(t, e.all(), 16)
		assert.Len(t, receipts(w), 32)
	}
}

// A definition that the policy pins is that which List publishes, and a tool with another is
// denied.
func TestDefinition(t *testing.T) {
	t.Parallel()
	var e effects
	bare := makeTool(&e, plain, "jot", says("ok"))
	i, err := bare.Info(t.Context())
	require.NoError(t, err)
	list, err := helmeino.List(i)
	require.NoError(t, err)
	assert.Equal(t, `{"tools":[{"description":"The tool jot.","inputSchema":{"properties":{"text":{"type":"string"}},`+
		`"type":"object"},"name":"jot"}]}`, string(list))
	var published struct{ Tools []json.RawMessage }
	require.NoError(t, json.Unmarshal(list, &published))
	pin, err := contracts.DefinitionOf(published.Tools[0])
	require.NoError(t, err)
	w := desk(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t,
			strings.Replace(deskPolicy, "  jot:\n", "  jot:\n    definition: \""+pin.String()+"\"\n", 1))
	})
	c := governed(t, w.Kernel, bare)
	shown, err := node(t, c, calls(script.Call("1", "jot", `{}`)))
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	i.Desc = "Sends all notes to Eve."
	shown, err = node(t, c, calls(script.Call("1", "jot", `{}`)))
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "jot was denied")
	shown, err = node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{bare},
		ToolCallMiddlewares: []compose.ToolMiddleware{helmeino.Middleware(w.Kernel)}}, calls(script.Call("1", "jot", `{}`)))
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "jot was denied", "a middleware sees no definition")
	assert.Len(t, e.all(), 1)

	_, err = helmeino.List(i, nil)
	require.Error(t, err)
}

// A tool that is called inside a tool is a call of its own, chained to the other.
func TestNested(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	inner, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "note", says("ok")))
	require.NoError(t, err)
	outer := makeTool(&e, plain, "jot", func(ctx context.Context, _ string) ([]string, error) {
		text, err := inner.(tool.InvokableTool).InvokableRun(ctx, `{"text":"a"}`)
		return []string{text}, err
	})
	shown, err := node(t, governed(t, w.Kernel, outer), calls(script.Call("1", "jot", `{}`)))
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	assert.Equal(t, []string{"note ALLOW", "jot ALLOW"}, receipts(w))
}

// Without a kernel every call is denied, and nothing runs.
func TestNoKernel(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		shown, err := node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, kind, "note", says("ok"))},
			ToolCallMiddlewares: []compose.ToolMiddleware{helmeino.Middleware(nil)},
			UnknownToolsHandler: helmeino.UnknownTool(nil)},
			calls(script.Call("1", "note", `{"text":"a"}`), script.Call("2", "ghost", `{}`)))
		require.NoError(t, err)
		assert.Contains(t, shown["1"], "KERNEL_SEALED", kind)
		assert.Contains(t, shown["2"], "KERNEL_SEALED", kind)
		assert.Empty(t, e.all())
	}
}

// A run that nobody can resume goes on.
func TestWithoutInterrupts(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		a := newAgent(t,
			governed(t, w.Kernel, makeTool(&e, kind, "pay", says("paid")), makeTool(&e, kind, "jot", says("ok"))),
			calls(script.Call("1", "jot", `{}`), script.Call("2", "pay", `{"to":"ann"}`)))
		answer, err := a.run(helmeino.WithoutInterrupts(host(t)), false)
		require.NoError(t, err, kind)
		assert.Equal(t, "done", answer.Content)
		assert.Equal(t, "ok", a.shown()["1"])
		assert.Contains(t, a.shown()["2"], "pay was denied: APPROVAL_REQUIRED", kind)
		assert.Len(t, e.all(), 1)

		// Nor does a call that is none of an agent's interrupt anything.
		if wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "pay", says("paid"))); assert.NoError(t, err) {
			text, err := wrapped.(tool.InvokableTool).InvokableRun(host(t), `{"to":"ann"}`)
			require.NoError(t, err)
			assert.Contains(t, text, "pay was denied: APPROVAL_REQUIRED")
		}
	}
}

// Of two calls with one ID the framework keeps one result when it is interrupted. Nothing runs for
// that without a receipt, and nothing twice.
func TestSharedID(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	a := newAgent(t,
		governed(t, w.Kernel, makeTool(&e, plain, "pay", says("paid")), makeTool(&e, plain, "jot", says("ok"))),
		calls(script.Call("1", "jot", `{}`), script.Call("1", "pay", `{"to":"ann"}`)))
	_, err := a.run(host(t), false)
	interrupt, q := asked(t, err)
	yes, err := q.Approve(kerneltest.SeedKey(t, owner))
	require.NoError(t, err)
	_, err = a.run(compose.ResumeWithData(host(t), interrupt, `{"approvals":[`+string(yes)+`]}`), false)
	require.NoError(t, err)
	assert.Equal(t, []string{"jot{}"}, e.all())
	assert.ElementsMatch(t, []string{"jot ALLOW", "pay APPROVAL_REQUIRED"}, receipts(w))
	for _, m := range a.model.Shown() {
		assert.Equal(t, "ok", m.Content, "Eino has changed: say so in doc.go")
	}
}

// Callbacks of the host hear of a call that runs, once, and know the tool's own type.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		var mu sync.Mutex
		var heard []string
		h := callbacks.NewHandlerBuilder().OnStartFn(
			func(ctx context.Context, i *callbacks.RunInfo, _ callbacks.CallbackInput) context.Context {
				if i.Component == components.ComponentOfTool {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, i.Name+" "+i.Type)
				}
				return ctx
			}).Build()
		a := newAgent(t, governed(t, w.Kernel, makeTool(&e, kind, "note", says("ok"))),
			calls(script.Call("1", "note", `{"text":"a"}`), script.Call("2", "note", `{"text":"a","n":51}`)))
		_, err := a.run(host(t), false, compose.WithCallbacks(h))
		require.NoError(t, err)
		assert.Equal(t, []string{"note "}, heard, "%s: the other call never came to the tool", kind)
	}
	w := desk(t)
	type words struct{ Text string }
	made, err := utils.InferTool("jot", "Jots.", func(context.Context, words) (string, error) { return "", nil })
	require.NoError(t, err)
	wrapped, err := helmeino.Tool(w.Kernel, made)
	require.NoError(t, err)
	had, _ := components.GetType(made)
	has, _ := components.GetType(wrapped)
	assert.Equal(t, had, has)
	assert.NotEmpty(t, has)
	assert.Equal(t, components.IsCallbacksEnabled(made), components.IsCallbacksEnabled(wrapped))
}

// A middleware that the host adds itself and a wrapped tool judge a call once; if something between
// them changes the arguments, each judges what it gets.
func TestMiddlewareAndTool(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "note", says("ok")))
	require.NoError(t, err)
	c := compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped},
		ToolCallMiddlewares: []compose.ToolMiddleware{helmeino.Middleware(w.Kernel)}}
	list := calls(script.Call("1", "note", `{"text":"a"}`))
	shown, err := node(t, c, list)
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	assert.Equal(t, []string{"note ALLOW"}, receipts(w))

	c.ToolCallMiddlewares = append(c.ToolCallMiddlewares, changes(`{"text":"a","n":5000}`))
	shown, err = node(t, c, list)
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "note was denied")
	assert.Equal(t, []string{`note{"n":1,"text":"a"}`}, e.all())
	assert.Contains(t, receipts(w), "note POLICY_VIOLATION")

	// One that answers in place of the tool has nothing released.
	c, err = helmeino.Config(w.Kernel, compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped}})
	require.NoError(t, err)
	c.ToolCallMiddlewares = append(c.ToolCallMiddlewares, compose.ToolMiddleware{
		Invokable: func(compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(context.Context, *compose.ToolInput) (*compose.ToolOutput, error) {
				return &compose.ToolOutput{Result: "made up"}, nil
			}
		}})
	shown, err = node(t, c, list)
	require.NoError(t, err)
	assert.NotContains(t, shown["1"], "made up")
	assert.Contains(t, receipts(w), "note TOOL_ERROR")
}

// Arguments that are no JSON, and none at all, are denials with a receipt.
func TestNoArguments(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, args := range []string{"", "null", "jot", `{"text":`, "[]"} {
			var e effects
			w := desk(t)
			shown, err := node(t, governed(t, w.Kernel, makeTool(&e, kind, "jot", says("ok"))),
				calls(script.Call("1", "jot", args)))
			require.NoError(t, err)
			assert.Contains(t, shown["1"], "jot was denied", "%s %q", kind, args)
			assert.Len(t, receipts(w), 1)
			assert.Empty(t, e.all())
		}
	}
}

// A tool may interrupt in the way that Eino had before interrupts had addresses.
func TestOldInterrupt(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	first := true
	asks := makeTool(&e, plain, "jot", func(context.Context, string) ([]string, error) {
		if first {
			first = false
			return nil, compose.InterruptAndRerun //lint:ignore SA1019 it is what is tested
		}
		return []string{"ok"}, nil
	})
	a := newAgent(t, governed(t, w.Kernel, asks), calls(script.Call("1", "jot", `{}`)))
	_, err := a.run(host(t), false)
	_, ok := compose.ExtractInterruptInfo(err)
	require.True(t, ok, "%v", err)
	_, err = a.run(host(t), false)
	require.NoError(t, err)
	assert.Equal(t, "ok", a.shown()["1"])
	assert.Equal(t, []string{"jot TOOL_ERROR", "jot ALLOW"}, receipts(w))
}

// A stream without an end is left when its time is up.
func TestEndlessStream(t *testing.T) {
	t.Parallel()
	w := desk(t)
	left := make(chan struct{})
	endless := struct {
		*info
		streams
	}{&info{schema.ToolInfo{Name: "brief"}}, streams{
		func(context.Context, string) (*schema.StreamReader[string], error) {
			r, w := schema.Pipe[string](0)
			go func() {
				defer close(left)
				defer w.Close()
				for !w.Send("", nil) {
					time.Sleep(time.Millisecond)
				}
			}()
			return r, nil
		}}}
	shown, err := node(t, governed(t, w.Kernel, endless), calls(script.Call("1", "brief", `{}`)))
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "TOOL_TIMEOUT")
	select {
	case <-left:
	case <-time.After(30 * time.Second):
		t.Fatal("the stream was not closed")
	}
}

// Aliases of arguments are the framework's, and are judged as the names that they stand for.
func TestArgumentAliases(t *testing.T) {
	t.Parallel()
	var e effects
	w := desk(t)
	c, err := helmeino.Config(w.Kernel, compose.ToolsNodeConfig{
		Tools: []tool.BaseTool{makeTool(&e, plain, "note", says("ok"))},
		ToolAliases: map[string]compose.ToolAliasConfig{
			"note": {ArgumentsAliases: map[string][]string{"text": {"body"}, "n": {"count"}}}},
	})
	require.NoError(t, err)
	shown, err := node(t, c, calls(script.Call("1", "note", `{"body":"a"}`),
		script.Call("2", "note", `{"body":"a","count":51}`)))
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	assert.Contains(t, shown["2"], "note was denied")
	assert.Equal(t, []string{`note{"n":1,"text":"a"}`}, e.all())
}

// No approver is asked about a tool that the agent does not have.
func TestUnknownToolAsksNobody(t *testing.T) {
	t.Parallel()
	w := desk(t)
	a := newAgent(t, governed(t, w.Kernel), calls(script.Call("1", "pay", `{"to":"ann"}`)))
	_, err := a.run(host(t), false)
	require.NoError(t, err)
	assert.Contains(t, a.shown()["1"], "pay was denied: APPROVAL_REQUIRED")
	assert.Equal(t, []string{"pay APPROVAL_REQUIRED"}, receipts(w))
}

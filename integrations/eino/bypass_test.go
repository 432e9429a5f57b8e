package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	helmeino "github.com/helmkernel/helm/integrations/eino"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
)

// Each test below first shows a way round a guard on the bare framework, and then that there is
// none round the adapter.

const closed = "Eino has closed this way: take it out of doc.go if nothing else needs the words, and this test out"

// node runs the calls of one answer by a ToolsNode alone.
func node(
	t *testing.T, c compose.ToolsNodeConfig, list []schema.ToolCall, options ...compose.ToolsNodeOption,
) (map[string]string, error) {
	t.Helper()
	n, err := compose.NewToolNode(t.Context(), &c)
	require.NoError(t, err)
	messages, err := n.Invoke(host(t), schema.AssistantMessage("", list), options...)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, m := range messages {
		text := m.Content
		for _, p := range m.UserInputMultiContent {
			text += p.Text
		}
		all[m.ToolCallID] = text
	}
	return all, nil
}

func governed(t *testing.T, k *helm.Kernel, tools ...tool.BaseTool) compose.ToolsNodeConfig {
	t.Helper()
	c, err := helmeino.Config(k, compose.ToolsNodeConfig{Tools: tools})
	require.NoError(t, err)
	return c
}

// A guard that is a middleware for invokable tools, the one that every example has, never hears of
// streaming and enhanced ones.
func TestBypassKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{streaming, enhanced, enhancedStream} {
		var e effects
		asked := 0
		guard := compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(context.Context, *compose.ToolInput) (*compose.ToolOutput, error) {
				asked++
				return nil, errors.New("denied")
			}
		}}
		bare := compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, kind, "vault", says("gold"))},
			ToolCallMiddlewares: []compose.ToolMiddleware{guard}}
		list := calls(script.Call("1", "vault", `{}`))
		shown, err := node(t, bare, list)
		require.NoError(t, err, closed)
		require.Equal(t, "gold", shown["1"], closed)
		require.Zero(t, asked, closed)

		w := desk(t)
		shown, err = node(t, governed(t, w.Kernel, makeTool(&e, kind, "vault", says("gold"))), list)
		require.NoError(t, err)
		assert.Contains(t, shown["1"], "vault was denied", kind)
		assert.Len(t, e.all(), 1, "the bare one's")
		assert.Equal(t, []string{"vault POLICY_VIOLATION"}, receipts(w))
	}
}

// changes is a middleware that changes arguments.
func changes(to string) compose.ToolMiddleware {
	return compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			in.Arguments = to
			return next(ctx, in)
		}
	}}
}

// A middleware that comes after the guard changes what the guard has seen.
func TestBypassLaterMiddleware(t *testing.T) {
	t.Parallel()
	var e effects
	var seen string
	guard := compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			seen = in.Arguments
			return next(ctx, in)
		}
	}}
	list := calls(script.Call("1", "note", `{"text":"a"}`))
	bare := compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, plain, "note", says("ok"))},
		ToolCallMiddlewares: []compose.ToolMiddleware{guard, changes(`{"text":"a","n":5000}`)}}
	_, err := node(t, bare, list)
	require.NoError(t, err)
	require.Equal(t, `{"text":"a"}`, seen, closed)
	require.Equal(t, []string{`note{"text":"a","n":5000}`}, e.all(), closed)

	e = effects{}
	w := desk(t)
	c := governed(t, w.Kernel, makeTool(&e, plain, "note", says("ok")))
	c.ToolCallMiddlewares = append(c.ToolCallMiddlewares, changes(`{"text":"a","n":5000}`))
	shown, err := node(t, c, list)
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	assert.Equal(t, []string{`note{"n":1,"text":"a"}`}, e.all(), "the judged bytes")
	assert.Equal(t, []string{"note ALLOW"}, receipts(w))

	// With the tool wrapped and without the middleware, what was changed is judged.
	wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "note", says("ok")))
	require.NoError(t, err)
	shown, err = node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped},
		ToolCallMiddlewares: []compose.ToolMiddleware{changes(`{"text":"a","n":5000}`)}}, list)
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "note was denied")
	assert.Len(t, e.all(), 1)
	assert.Equal(t, []string{"note ALLOW", "note POLICY_VIOLATION"}, receipts(w))
}

// A middleware is told the name that the model used, and another tool runs.
func TestBypassAlias(t *testing.T) {
	t.Parallel()
	var e effects
	var seen string
	guard := compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			seen = in.Name
			return next(ctx, in)
		}
	}}
	list := calls(script.Call("1", "jot", `{}`))
	aliases := map[string]compose.ToolAliasConfig{"vault": {NameAliases: []string{"jot"}}}
	bare := compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, plain, "vault", says("gold"))},
		ToolAliases: aliases, ToolCallMiddlewares: []compose.ToolMiddleware{guard}}
	_, err := node(t, bare, list)
	require.NoError(t, err)
	require.Equal(t, "jot", seen, closed)
	require.Equal(t, []string{"vault{}"}, e.all(), closed)

	w := desk(t)
	wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "vault", says("gold")))
	require.NoError(t, err)
	c := compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped}, ToolAliases: aliases}
	shown, err := node(t, c, list)
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "vault was denied")
	assert.Len(t, e.all(), 1)
	assert.Equal(t, []string{"vault POLICY_VIOLATION"}, receipts(w))

	_, err = helmeino.Config(w.Kernel, compose.ToolsNodeConfig{Tools: c.Tools, ToolAliases: aliases})
	require.Error(t, err, "a middleware would judge the alias")
	// A host that adds the middleware itself: the wrapped tool is judged by its own name all the
	// same.
	c.ToolCallMiddlewares = []compose.ToolMiddleware{helmeino.Middleware(w.Kernel)}
	shown, err = node(t, c, list)
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "vault was denied")
	assert.Len(t, e.all(), 1)
}

// A call option replaces all tools, with ones that nothing wrapped.
func TestBypassToolList(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		var e effects
		w := desk(t)
		vault := makeTool(&e, kind, "vault", says("gold"))
		wrapped, err := helmeino.Tool(w.Kernel, makeTool(&e, plain, "note", says("ok")))
		require.NoError(t, err)
		list := calls(script.Call("1", "vault", `{}`))
		shown, err := node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{wrapped}}, list,
			compose.WithToolList(wrapped, vault))
		require.NoError(t, err)
		require.Equal(t, "gold", shown["1"], closed)
		require.Empty(t, receipts(w), closed)

		shown, err = node(t, governed(t, w.Kernel, makeTool(&e, plain, "note", says("ok"))), list,
			compose.WithToolList(wrapped, vault))
		require.NoError(t, err)
		assert.Contains(t, shown["1"], "vault was denied", kind)
		assert.Len(t, e.all(), 1)
		assert.Equal(t, []string{"vault POLICY_VIOLATION"}, receipts(w))

		// A bare tool in place of a wrapped one is judged, and its output is not released.
		e = effects{}
		shown, err = node(t, governed(t, w.Kernel, makeTool(&e, plain, "note", says("ok"))),
			calls(script.Call("1", "note", `{"text":"a"}`)), compose.WithToolList(makeTool(&e, kind, "note", says("gold"))))
		require.NoError(t, err)
		assert.NotContains(t, shown["1"], "gold", kind)
		assert.Equal(t, "note TOOL_ERROR", receipts(w)[1])
	}
}

// A call of a tool that is not there ends the turn, with all that other calls have done; with a
// handler no middleware hears of it.
func TestBypassUnknownTool(t *testing.T) {
	t.Parallel()
	var e effects
	list := calls(script.Call("1", "note", `{"text":"a"}`), script.Call("2", "ghost", `{"text":"a"}`),
		script.Call("3", "jot", `{}`))
	_, err := node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, plain, "note", says("ok"))}}, list)
	require.Error(t, err, closed)
	heard := 0
	guard := compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			heard++
			return next(ctx, in)
		}
	}}
	bare := compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, plain, "note", says("ok"))},
		ToolCallMiddlewares: []compose.ToolMiddleware{guard},
		UnknownToolsHandler: func(context.Context, string, string) (string, error) { return "no such tool", nil }}
	_, err = node(t, bare, list)
	require.NoError(t, err)
	require.Equal(t, 1, heard, closed)

	e = effects{}
	w := desk(t)
	shown, err := node(t, governed(t, w.Kernel, makeTool(&e, plain, "note", says("ok"))), list)
	require.NoError(t, err)
	assert.Equal(t, "ok", shown["1"])
	assert.Contains(t, shown["2"], "ghost was denied: DENY_TOOL_NOT_FOUND")
	assert.Contains(t, shown["3"], "there is no such tool here", "the policy allows it, and the agent has none")
	assert.ElementsMatch(t, []string{"note ALLOW", "ghost DENY_TOOL_NOT_FOUND", "jot TOOL_ERROR"}, receipts(w))
	assert.Len(t, e.all(), 1)

	// Nor does a driver of the kernel run what the agent was not given.
	w = desk(t, func(o *helm.Options) {
		o.Drivers["jot"] = helm.Text(func(context.Context, json.RawMessage) (string, error) {
			e.add("jot", "")
			return "", nil
		})
	})
	_, err = node(t, governed(t, w.Kernel, makeTool(&e, plain, "note", says("ok"))), list)
	require.NoError(t, err)
	assert.Len(t, e.all(), 2)
	assert.Contains(t, receipts(w), "jot DRIVER_NOT_BOUND")
}

// A callback gets the argument of an enhanced tool as a pointer, and changes it in place.
func TestBypassCallback(t *testing.T) {
	t.Parallel()
	hook := callbacks.NewHandlerBuilder().OnStartFn(
		func(ctx context.Context, _ *callbacks.RunInfo, in callbacks.CallbackInput) context.Context {
			if a, ok := in.(*schema.ToolArgument); ok {
				a.Text = `{"text":"a","n":5000}`
			}
			return ctx
		}).Build()
	var e effects
	list := calls(script.Call("1", "note", `{"text":"a"}`))
	a := newAgent(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{makeTool(&e, enhanced, "note", says("ok"))}}, list)
	_, err := a.run(host(t), false, compose.WithCallbacks(hook))
	require.NoError(t, err)
	require.Equal(t, []string{`note{"text":"a","n":5000}`}, e.all(), closed)

	e = effects{}
	w := desk(t)
	a = newAgent(t, governed(t, w.Kernel, makeTool(&e, enhanced, "note", says("ok"))), list)
	_, err = a.run(host(t), false, compose.WithCallbacks(hook))
	require.NoError(t, err)
	assert.Equal(t, []string{`note{"n":1,"text":"a"}`}, e.all())
	assert.Equal(t, []string{"note ALLOW"}, receipts(w))
}

// The framework's decoder takes the last of two members, and any case of a key.
func TestBypassDuplicateKeys(t *testing.T) {
	t.Parallel()
	type note struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	}
	var ran []note
	made, err := utils.InferTool("note", "Notes.", func(_ context.Context, n note) (string, error) {
		ran = append(ran, n)
		return "ok", nil
	})
	require.NoError(t, err)
	list := calls(script.Call("1", "note", `{"text":"a","n":5,"n":51}`), script.Call("2", "note", `{"text":"a","N":51}`))
	_, err = node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{made}, ExecuteSequentially: true}, list)
	require.NoError(t, err)
	require.Equal(t, []note{{"a", 51}, {"a", 51}}, ran, closed)

	ran = nil
	w := desk(t)
	shown, err := node(t, governed(t, w.Kernel, made), list)
	require.NoError(t, err)
	assert.Contains(t, shown["1"], "note was denied")
	assert.Contains(t, shown["2"], "note was denied")
	assert.Empty(t, ran)
	assert.Len(t, receipts(w), 2)
}

// The error of one tool ends the turn, and with it the results of tools that have run; a panic of
// the first one ends the host's goroutine.
func TestBypassErrors(t *testing.T) {
	t.Parallel()
	bad := map[string]body{
		"error": func(context.Context, string) ([]string, error) { return nil, errors.New("out of ink") },
		"panic": func(context.Context, string) ([]string, error) { panic("hunter2") },
	}
	list := calls(script.Call("1", "jot", `{}`), script.Call("2", "note", `{"text":"a"}`))
	for name, b := range bad {
		for _, kind := range kinds {
			var e effects
			tools := []tool.BaseTool{makeTool(&e, kind, "jot", b), makeTool(&e, plain, "note", says("ok"))}
			failed := func() (failed bool) {
				defer func() { failed = failed || recover() != nil }()
				_, err := node(t, compose.ToolsNodeConfig{Tools: tools, ExecuteSequentially: true}, list)
				return err != nil
			}()
			require.True(t, failed, "%s of %s: %s", name, kind, closed)

			w := desk(t)
			shown, err := node(t, governed(t, w.Kernel, tools...), list)
			require.NoError(t, err, name)
			assert.Equal(t, "ok", shown["2"], "%s of %s", name, kind)
			want := map[string]string{"error": "out of ink", "panic": "TOOL_PANIC"}[name]
			assert.Contains(t, shown["1"], want, kind)
			assert.NotContains(t, shown["1"], "hunter2")
			assert.ElementsMatch(t, []string{"note ALLOW", "jot TOOL_" + strings.ToUpper(name)}, receipts(w), kind)
		}
	}
}

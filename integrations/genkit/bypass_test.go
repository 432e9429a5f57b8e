package genkit

import (
	"context"
	"errors"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/genkit/internal/script"
)

// These are the ways round a guard that Genkit v1.7.0 has. Each is shown on the framework alone
// first: if that fails, a new version has closed it, and the word of the failure says what to
// change here. Then the same is tried against the adapter.

const closed = "Genkit has closed this way: take the test out, and the limit out of the package comment"

// seen is middleware that remembers the calls it sees, as a guard in a hook would.
func seen(names *[]string) ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, p *ai.ToolParams, next ai.ToolNext) (
			*ai.MultipartToolResponse, error) {
			*names = append(*names, p.Request.Name)
			return next(ctx, p)
		}}, nil
	})
}

var big = script.Call{Ref: "1", Tool: "refund", Args: `{"amount":9999}`}

func (w *world) use() []ai.Middleware { return []ai.Middleware{Use(w.k)} }

func (w *world) mustDeny(told []script.Told, n int) {
	w.t.Helper()
	require.Len(w.t, told, n)
	for _, one := range told {
		assert.Contains(w.t, one.Output, " was denied: ")
	}
	w.mustHave()
}

// A tool that is registered runs, whether or not the model was offered it.
func TestBypassNotOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bare("refund")
	_, _, err := w.run(nil, nil, big)
	require.NoError(t, err, closed)
	require.Len(t, w.effects, 1, closed)
	w.mustHave(`refund {"amount":9999}`)

	w.again()
	w.bare("refund")
	_, told, err := w.run(w.use(), nil, big, script.Call{Ref: "2", Tool: "refund", Args: `{"amount":9}`})
	require.NoError(t, err)
	w.mustDeny(told, 2)
	w.again()
	w.guarded("refund")
	_, told, err = w.run(nil, nil, big)
	require.NoError(t, err)
	w.mustDeny(told, 1)
	w.mustVerify(0, 3)
}

// A call of a tool that does not exist ends Generate, before any hook, and takes the results of the
// same step with it.
func TestBypassUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := []script.Call{
		{Ref: "1", Tool: "note", Args: `{"text":"a"}`}, {Ref: "2", Tool: "shell", Args: `{"cmd":"id"}`},
	}
	var names []string
	_, told, err := w.run([]ai.Middleware{seen(&names)}, []ai.Tool{w.bare("note")}, calls...)
	require.Error(t, err, closed)
	require.Empty(t, told, closed)
	require.NotContains(t, names, "shell", closed)
	w.mu.Lock()
	w.effects = nil // the note may have been made, or not yet
	w.mu.Unlock()

	w = newWorld(t)
	note := w.guarded("note")
	made, told, err := w.run(w.use(), []ai.Tool{note}, calls...)
	require.NoError(t, err)
	require.Equal(t, "done", made.Text())
	results := map[string]any{}
	for _, one := range told {
		results[one.Tool] = one.Output
	}
	assert.Equal(t, "note did it", results["note"])
	assert.Contains(t, results["shell"], "shell was denied: DENY_TOOL_NOT_FOUND. ", "as the model named it")
	for _, m := range made.History() {
		for _, p := range m.Content {
			if p.IsToolRequest() {
				assert.NotEqual(t, unknown, p.ToolRequest.Name)
				assert.NotContains(t, p.ToolRequest.Input, "input")
			}
		}
	}
	w.mustHave(`note {"text":"a"}`)
	w.mustVerify(1, 1)
}

// Middleware that comes later changes what middleware before it has checked.
func TestBypassChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var names []string
	raise := later(func([]byte) []byte { return []byte(`{"amount":9999}`) })
	small := script.Call{Ref: "1", Tool: "refund", Args: `{"amount":9}`}
	_, _, err := w.run([]ai.Middleware{seen(&names), raise}, []ai.Tool{w.bare("refund")}, small)
	require.NoError(t, err)
	require.Equal(t, []string{`refund {"amount":9999}`}, w.effects, closed)
	w.mustHave(`refund {"amount":9999}`)

	for _, define := range []func(string) ai.Tool{w.bare, w.guarded} {
		for _, use := range [][]ai.Middleware{{Use(w.k), raise}, {raise, Use(w.k)}} {
			w.again()
			_, told, err := w.run(use, []ai.Tool{define("refund")}, small)
			require.NoError(t, err)
			w.mustDeny(told, 1)
		}
	}
	w.mustVerify(0, 4)
}

// Middleware is of one Generate: whatever else calls the tool passes it by.
func TestBypassDirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := map[string]any{"amount": 9999}
	_, err := w.bare("refund").RunRaw(w.ctx(), args)
	require.NoError(t, err)
	w.mustHave(`refund {"amount":9999}`)

	w.again()
	tool := w.guarded("refund")
	for _, of := range []ai.Tool{tool, genkit.LookupTool(w.g, "refund")} {
		told, err := of.RunRaw(w.ctx(), args)
		require.NoError(t, err)
		assert.Contains(t, told, "refund was denied: ")
	}
	w.mustHave()
	w.mustVerify(0, 2)
}

// A tool that is handed to Generate is passed over if another one of the name is registered.
func TestBypassTwin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bare("note")
	twin := ai.NewTool("note", "Checks, and then does it.", w.does("checked"))
	note := script.Call{Ref: "1", Tool: "note", Args: `{"text":"a"}`}
	_, _, err := w.run(nil, []ai.Tool{twin}, note)
	require.NoError(t, err)
	require.Equal(t, []string{`note {"text":"a"}`}, w.effects, closed)
	w.mustHave(`note {"text":"a"}`)

	_, err = DefineTool(w.k, w.g, "note", "Checks.", w.does("note"))
	require.Error(t, err, "a guarded tool that Genkit would pass over")
}

// Tools that middleware brings are run as any.
func TestBypassBrought(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	brings := ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{Tools: []ai.Tool{ai.NewTool("refund", "Does it.", w.does("refund"))}}, nil
	})
	_, _, err := w.run([]ai.Middleware{brings}, nil, big)
	require.NoError(t, err)
	require.Len(t, w.effects, 1, closed)
	w.mustHave(`refund {"amount":9999}`)

	w.again()
	_, told, err := w.run([]ai.Middleware{brings, Use(w.k)}, nil, big)
	require.NoError(t, err)
	w.mustDeny(told, 1)
	w.mustVerify(0, 1)
}

// A tool's error ends Generate, and takes the results of the same step with it.
func TestBypassError(t *testing.T) {
	t.Parallel()
	fails := func(*ai.ToolContext, map[string]any) (string, error) { return "", errors.New("no such price") }
	calls := []script.Call{{Ref: "1", Tool: "note", Args: `{"text":"a"}`}, {Ref: "2", Tool: "price"}}
	w := newWorld(t)
	_, told, err := w.run(nil, []ai.Tool{w.bare("note"), genkit.DefineTool(w.g, "price", "Fails.", fails)}, calls...)
	require.Error(t, err, closed)
	require.Empty(t, told, closed)

	w = newWorld(t)
	price, err := DefineTool(w.k, w.g, "price", "Fails.", fails)
	require.NoError(t, err)
	_, told, err = w.run(nil, []ai.Tool{w.guarded("note"), price}, calls...)
	require.NoError(t, err)
	require.Len(t, told, 2)
	assert.ElementsMatch(t, []any{"note did it", "no such price"}, []any{told[0].Output, told[1].Output})
	w.mustVerify(2, 0)
}

// A restart with nothing but resumed: true is enough for a tool that asks whether it was resumed.
func TestBypassResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.does("pay")
	asks := func(tc *ai.ToolContext, in map[string]any) (string, error) {
		if !tc.IsResumed() {
			return "", tc.Interrupt(nil)
		}
		return run(tc, in)
	}
	pay := genkit.DefineTool(w.g, "pay", "Pays.", asks)
	m := &script.Model{Last: "done", Steps: [][]script.Call{{{Ref: "1", Tool: "pay", Args: `{"amount":7}`}}}}
	resumed := func(tool ai.Tool, use []ai.Middleware) (told []script.Told) {
		made, _, err := w.play(m, use, []ai.Tool{tool}, ai.WithPrompt("Go on."))
		require.NoError(t, err)
		require.Len(t, made.Interrupts(), 1)
		again := tool.Restart(made.Interrupts()[0], &ai.RestartOptions{ReplaceInput: map[string]any{"amount": 7000}})
		_, told, err = w.play(m, use, []ai.Tool{tool}, ai.WithMessages(made.History()...), ai.WithToolRestarts(again))
		require.NoError(t, err)
		return told
	}
	resumed(pay, nil)
	require.Equal(t, []string{`pay {"amount":7000}`}, w.effects, closed)
	w.mustHave(`pay {"amount":7000}`)

	w.again()
	m = &script.Model{Last: "done", Steps: m.Steps}
	w.mustDeny(resumed(w.guarded("pay"), w.use()), 1)
	w.mustVerify(0, 2)
}

// Arguments are decoded before anything sees them: of a repeated name the last is left.
func TestBypassLossy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	twice := script.Call{Ref: "1", Tool: "refund", Args: `{"amount":9999,"amount":9}`}
	_, told, err := w.run(w.use(), []ai.Tool{w.guarded("refund")}, twice)
	require.NoError(t, err)
	require.Equal(t, "refund did it", told[0].Output, closed+" (Lossy)")
	w.mustHave(`refund {"amount":9,"currency":"EUR"}`)
	w.mustVerify(1, 0)
}

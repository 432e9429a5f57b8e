package genkit

import (
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/genkit/internal/script"
)

// Middleware that a prompt was defined with is passed over when it is executed.
func TestBypassPrompt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prompt := func(tool ai.Tool) (ai.Prompt, *script.Model) {
		m := &script.Model{Last: "done", Steps: [][]script.Call{{big}}}
		m.Define(w.g)
		return genkit.DefinePrompt(w.g, "desk", ai.WithModelName("script"), ai.WithPrompt("Go on."), ai.WithTools(tool),
			ai.WithUse(Use(w.k))), m
	}
	desk, _ := prompt(w.bare("refund"))
	_, err := desk.Execute(w.ctx())
	require.NoError(t, err)
	require.Len(t, w.effects, 1, closed)
	w.mustHave(`refund {"amount":9999}`)
	w.mustVerify(0, 0)

	w.again()
	desk, m := prompt(w.bare("refund"))
	_, err = desk.Execute(w.ctx(), ai.WithUse(Use(w.k)))
	require.NoError(t, err)
	w.mustDeny(m.Told(), 1)
	w.again()
	desk, m = prompt(w.guarded("refund"))
	_, err = desk.Execute(w.ctx())
	require.NoError(t, err)
	w.mustDeny(m.Told(), 1)
	w.mustVerify(0, 2)
}

// An agent below an agent: what a tool calls in a Generate of its own is judged.
func TestSubAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := genkit.Init(w.t.Context())
	refund := genkit.DefineTool(other, "refund", "Does it.", w.does("refund"))
	small := script.Call{Ref: "2", Tool: "refund", Args: `{"amount":9}`}
	below := &script.Model{Last: "below", Steps: [][]script.Call{{big, small}}}
	below.Define(other)
	note, err := DefineTool(w.k, w.g, "note", "Asks.", func(tc *ai.ToolContext, _ map[string]any) (string, error) {
		made, err := genkit.Generate(tc, other, ai.WithModelName("script"), ai.WithPrompt("Go on."),
			ai.WithTools(refund), ai.WithUse(Use(w.k)))
		if err != nil {
			return "", err
		}
		return made.Text(), nil
	})
	require.NoError(t, err)
	_, told, err := w.run(w.use(), []ai.Tool{note}, script.Call{Tool: "note", Args: `{"text":"a"}`})
	require.NoError(t, err)
	require.Len(t, told, 1)
	assert.Equal(t, "below", told[0].Output)
	require.Len(t, below.Told(), 2)
	w.mustHave(`refund {"amount":9,"currency":"EUR"}`)
	w.mustVerify(2, 1)
}

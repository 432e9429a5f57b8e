package openai_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/executor"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/policy"
)

type sandboxed struct{ helm.Driver }

func (sandboxed) Cell() *cell.Cell { return nil }

var _ executor.Sandboxed = sandboxed{}

func TestNewTools(t *testing.T) {
	t.Parallel()
	named := func(name string) shared.FunctionDefinitionParam { return shared.FunctionDefinitionParam{Name: name} }
	works := helm.Text(nothing)
	for want, tools := range map[string][]helmopenai.Tool{
		`"" is no name`:         {{}},
		`"a b" is no name`:      {helmopenai.Function(named("a b"), works)},
		"a: two tools":          {helmopenai.Function(named("a"), works), helmopenai.Function(named("a"), works)},
		"a: it has no driver":   {helmopenai.Function(named("a"), nil)},
		"b: it has no driver":   {helmopenai.Function(named("b"), helm.Text(nil))},
		"c: it has no driver":   {helmopenai.Function(named("c"), helm.Func(nil))},
		"d: it has no driver":   {helmopenai.Custom(openai.ChatCompletionCustomToolCustomParam{Name: "d"}, nil)},
		"e: its driver is sand": {helmopenai.Function(named("e"), sandboxed{works})},
		"f: adapt: the definition": {helmopenai.Function(shared.FunctionDefinitionParam{Name: "f",
			Parameters: shared.FunctionParameters{"x": make(chan int)}}, works)},
	} {
		s, err := helmopenai.NewTools(tools...)
		require.Error(t, err, want)
		assert.Contains(t, err.Error(), "openai: "+want)
		assert.Nil(t, s)
	}
	var none *helmopenai.Tools
	assert.Empty(t, none.Chat())
	assert.Empty(t, none.Responses())
	assert.Nil(t, none.Parallel(2))
	assert.Equal(t, `[]`, string(none.List()))
}

// TestOffered: what is offered is what was declared, to both APIs, whatever becomes of the host's
// value.
func TestOffered(t *testing.T) {
	t.Parallel()
	most := map[string]any{"type": "integer", "maximum": json.Number("9007199254740991")}
	schema := shared.FunctionParameters{"type": "object", "properties": map[string]any{"n": most}}
	works := helm.Text(nothing)
	grammar := openai.ChatCompletionCustomToolCustomParam{Name: "sql", Description: openai.String("<SQL>"),
		Format: openai.ChatCompletionCustomToolCustomFormatUnionParam{
			OfGrammar: &openai.ChatCompletionCustomToolCustomFormatGrammarParam{
				Grammar: openai.ChatCompletionCustomToolCustomFormatGrammarGrammarParam{Definition: "a+", Syntax: "regex"}}}}
	paying := shared.FunctionDefinitionParam{Name: "pay", Description: openai.String("Pays."), Parameters: schema}
	tools, err := helmopenai.NewTools(
		helmopenai.Function(paying, works),
		helmopenai.Function(shared.FunctionDefinitionParam{Name: "now", Strict: openai.Bool(true)}, works),
		helmopenai.Custom(grammar, func(context.Context, string) (string, error) { return "", nil }))
	require.NoError(t, err)
	schema["type"] = "changed"
	pay := `"name":"pay","description":"Pays.","parameters":{"type":"object","properties":{"n":{"type":"integer",
		"maximum":9007199254740991}}}`
	assert.JSONEq(t, `[{"type":"function","function":{`+pay+`}},
		{"type":"function","function":{"name":"now","strict":true}},
		{"type":"custom","custom":{"name":"sql","description":"<SQL>","format":{"type":"grammar","grammar":{"definition":"a+",
		"syntax":"regex"}}}}]`, sent(t, tools.Chat()))
	assert.Contains(t, sent(t, tools.Chat()), "9007199254740991")
	assert.JSONEq(t, `[{"type":"function",`+pay+`,"strict":false},
		{"type":"function","name":"now","strict":true,"parameters":{"type":"object","properties":{}}},
		{"type":"custom","name":"sql","description":"<SQL>","format":{"type":"grammar","definition":"a+","syntax":"regex"}}]`,
		sent(t, tools.Responses()))
}

// TestDefinition: the digests that policy.New pins are those that the drivers declare.
func TestDefinition(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	draft, _, err := policy.New(d.tools.List(), "drafted")
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(draft), "definition: "))
	text := strings.ReplaceAll(string(draft), "rules: []", "rules:\n  - {id: all, allow: [look, now, sql, refund]}")
	require.NotEqual(t, string(draft), text, string(draft))
	d.Options.Policy = kerneltest.Compile(t, text)
	d.Reopen()
	calls := step(scripted.Call{ID: "a", Tool: "now"}, scripted.Call{ID: "b", Tool: "sql", Args: "select", Custom: true})
	d.chat(d.ctx(), calls)
	d.mustRun("now {}", "sql select")
	other, err := helmopenai.NewTools(helmopenai.Function(shared.FunctionDefinitionParam{Name: "now",
		Description: openai.String("It does much more.")}, helm.Text(nothing)))
	require.NoError(t, err)
	d.tools = other
	assert.Contains(t, d.chat(d.ctx(), step(scripted.Call{ID: "a", Tool: "now"}))[0], "DRIVER_NOT_BOUND")
}

func nothing(context.Context, json.RawMessage) (string, error) { return "", nil }

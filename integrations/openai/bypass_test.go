package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
)

// The ways round a guard that a loop over the bare client has. Each test first shows the way. If a
// version of the client closes it, the test fails there, and says what to change.

const closed = "openai-go has closed this way: drop the test, and what doc.go says of it"

// TestBypassCut: a call that was cut short is in the answer like any other, and the input of a
// custom tool needs no end to be whole.
func TestBypassCut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	call := scripted.Call{ID: "a", Tool: "sql", Args: "delete from orders", Custom: true}
	cut := scripted.Step{Finish: "length", Calls: []scripted.Call{call}}
	answer := ask(t, &scripted.Model{Steps: []scripted.Step{cut}}) // " where id = 4711" never came
	require.Equal(t, "delete from orders", answer.Choices[0].Message.ToolCalls[0].Custom.Input, closed)
	d.mustBeDenied(contracts.ReasonArgsCanonicalization, d.chat(d.ctx(), cut), 1)
}

// TestBypassDecoded: a handler that decodes arguments takes the last of two keys, and one in
// another letter case.
func TestBypassDecoded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, args := range []string{`{"to":"ann","amount":50,"amount":9000}`, `{"to":"ann","amount":50,"Amount":9000}`} {
		calls := step(scripted.Call{ID: "a", Tool: "refund", Args: args})
		answer := ask(t, &scripted.Model{Steps: []scripted.Step{calls}})
		var in struct {
			Amount int `json:"amount"`
		}
		require.NoError(t, json.Unmarshal([]byte(answer.Choices[0].Message.ToolCalls[0].Function.Arguments), &in))
		require.Equal(t, 9000, in.Amount, closed)
		d.mustBeDenied(contracts.ReasonArgsCanonicalization, d.chat(d.ctx(), calls), 1)
	}
}

// TestBypassNamespace: a loop that looks at the name alone runs a tool of another namespace as its
// own.
func TestBypassNamespace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := askResponse(t, &scripted.Model{Steps: []scripted.Step{step(
		scripted.Call{ID: "a", Tool: "now", Args: `{}`, Namespace: "elsewhere"})}})
	call, ok := answer.Output[0].AsAny().(responses.ResponseFunctionToolCall)
	require.True(t, ok)
	require.Equal(t, "now", call.Name, closed)
	d.mustBeDenied(contracts.ReasonToolNotFound, outputs(helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, answer)), 1)
}

// TestBypassMended: half a surrogate pair in an answer becomes another character before anybody
// sees it, so that what is judged is not what the model wrote.
func TestBypassMended(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var answer openai.ChatCompletion
	require.NoError(t, json.Unmarshal([]byte(`{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[
		{"id":"a","type":"custom","custom":{"name":"sql","input":"\ud800"}}]}}]}`), &answer))
	require.Equal(t, "\ufffd", answer.Choices[0].Message.ToolCalls[0].Custom.Input, closed)
	results := helmopenai.Run(d.ctx(), d.Kernel, d.tools, &answer)
	d.mustBeDenied(contracts.ReasonArgsCanonicalization, []string{results[0].OfTool.Content.OfString.Value}, 1)
}

// TestBypassAccumulated: the variants of a call are read from JSON, which an accumulated answer
// does not have: a loop over them finds a call without name and arguments.
func TestBypassAccumulated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := stream(t, &scripted.Model{Steps: []scripted.Step{step(scripted.Call{ID: "a", Tool: "now"})}})
	require.Empty(t, answer.Choices[0].Message.ToolCalls[0].AsFunction().Function.Name, closed)
	results := helmopenai.Run(d.ctx(), d.Kernel, d.tools, answer)
	require.Len(t, results, 1)
	assert.Equal(t, "now did {}", results[0].OfTool.Content.OfString.Value)
	d.mustRun("now {}")
}

package openai_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
	"github.com/helmkernel/helm/internal/kerneltest"
)

var day = step(
	scripted.Call{ID: "a", Tool: "look", Args: `{ "at" : "4711" }`},
	scripted.Call{ID: "b", Tool: "ghost", Args: `{}`},
	scripted.Call{ID: "c", Tool: "look", Args: `{"at":"1","at":"2"}`},
	scripted.Call{ID: "d", Tool: "refund", Args: `{"to":"ann","amount":9007199254740993}`},
	scripted.Call{ID: "e", Tool: "now", Args: ``},
	scripted.Call{ID: "f", Tool: "sql", Args: "select 1\n\"quoted\"", Custom: true},
	scripted.Call{ID: "g", Tool: "sql", Args: `drop table`, Custom: true},
)

var dayReceipts = []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonToolNotFound,
	contracts.ReasonArgsCanonicalization, contracts.ReasonArgsCanonicalization, contracts.ReasonAllow,
	contracts.ReasonAllow, contracts.ReasonPolicyViolation}

// TestRun: the calls of an answer are judged in their order, and each is answered.
func TestRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := ask(t, &scripted.Model{Steps: []scripted.Step{day}})
	results := helmopenai.Run(d.ctx(), d.Kernel, d.tools, answer)
	d.mustRun(`look {"at":"4711","page":1}`, `now {}`, "sql select 1\n\"quoted\"")
	assert.Equal(t, dayReceipts, d.receipts())
	require.Len(t, results, len(day.Calls))
	assert.JSONEq(t, `{"role":"tool","tool_call_id":"a","content":"look did {\"at\":\"4711\",\"page\":1}"}`,
		sent(t, results[0]))
	for i, m := range results {
		require.NotNil(t, m.OfTool)
		assert.Equal(t, day.Calls[i].ID, m.OfTool.ToolCallID)
	}
	d.MustPass()
}

// TestRunResponse: the same calls as items of a response.
func TestRunResponse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := askResponse(t, &scripted.Model{Steps: []scripted.Step{day}})
	results := helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, answer)
	d.mustRun(`look {"at":"4711","page":1}`, `now {}`, "sql select 1\n\"quoted\"")
	assert.Equal(t, dayReceipts, d.receipts())
	require.Len(t, results, len(day.Calls))
	assert.JSONEq(t, `{"type":"function_call_output","call_id":"a","output":"look did {\"at\":\"4711\",\"page\":1}"}`,
		sent(t, results[0]))
	assert.JSONEq(t, `{"type":"custom_tool_call_output","call_id":"f","output":"rows of select 1\n\"quoted\""}`,
		sent(t, results[5]))
}

// TestStreamed: a stream that was accumulated has the same calls, but no custom ones: the client
// loses their name and input.
func TestStreamed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	results := helmopenai.Run(d.ctx(), d.Kernel, d.tools, stream(t, &scripted.Model{Steps: []scripted.Step{day}}))
	require.Len(t, results, len(day.Calls))
	d.mustRun(`look {"at":"4711","page":1}`, `now {}`)
	want := append(append([]contracts.ReasonCode{}, dayReceipts[:5]...),
		contracts.ReasonIntentMalformed, contracts.ReasonIntentMalformed)
	assert.Equal(t, want, d.receipts())
}

// TestCut: an answer that was cut short runs nothing, whatever is left of its calls.
func TestCut(t *testing.T) {
	t.Parallel()
	calls := []scripted.Call{{ID: "a", Tool: "now"}, {ID: "b", Tool: "sql", Args: "delete from a", Custom: true},
		{ID: "c", Tool: "look", Args: `{"at":"1"}`}}
	d := newDesk(t)
	for _, finish := range []string{"length", "content_filter", "end_turn"} {
		texts := d.chat(d.ctx(), scripted.Step{Calls: calls, Finish: finish})
		d.mustBeDenied(contracts.ReasonArgsCanonicalization, texts, len(calls))
	}
	for _, status := range []string{"incomplete", "failed", "in_progress", "cancelled"} {
		answer := askResponse(t, &scripted.Model{Steps: []scripted.Step{{Calls: calls, Finish: status}}})
		texts := outputs(helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, answer))
		d.mustBeDenied(contracts.ReasonArgsCanonicalization, texts, len(calls))
	}
	// a stream that breaks before its end, and an item that says so itself
	broken := stream(t, &scripted.Model{Steps: []scripted.Step{{Calls: calls[2:], Finish: "none"}}})
	require.Equal(t, `{"at":"1"}`, broken.Choices[0].Message.ToolCalls[0].Function.Arguments)
	assert.NotEmpty(t, helmopenai.Run(d.ctx(), d.Kernel, d.tools, broken))
	item := askResponse(t, &scripted.Model{Steps: []scripted.Step{{Calls: calls[2:]}}})
	item.Output[0].Status = "incomplete"
	assert.NotEmpty(t, helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, item))
	d.mustRun()
	assert.Len(t, d.receipts(), 2)
	for _, finish := range []string{"stop", "function_call"} { // a tool that was demanded ends with stop
		assert.Len(t, d.chat(d.ctx(), scripted.Step{Calls: calls[2:], Finish: finish}), 1)
		d.mustRun(`look {"at":"1","page":1}`)
	}
}

// TestConfused: a call is of one kind, that of its tool.
func TestConfused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	decode := func(call string) []string {
		var answer openai.ChatCompletion
		require.NoError(t, json.Unmarshal([]byte(`{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[`+
			call+`]}}]}`), &answer))
		var texts []string
		for _, m := range helmopenai.Run(d.ctx(), d.Kernel, d.tools, &answer) {
			texts = append(texts, m.OfTool.Content.OfString.Value)
		}
		return texts
	}
	const unread, unbound = contracts.ReasonArgsCanonicalization, contracts.ReasonDriverNotBound
	const unnamed = contracts.ReasonIntentMalformed
	for call, reason := range map[string]contracts.ReasonCode{
		`{"type":"function","function":{"name":"sql","arguments":"{\"input\":\"select\"}"}}`: unbound,
		`{"type":"custom","custom":{"name":"now","input":"x"}}`:                              unbound,
		`{"type":"function","function":{"name":"now","arguments":"{}"},
			"custom":{"name":"sql","input":"a"}}`: unread,
		`{"type":"function","custom":{"name":"sql","input":"select"}}`:                     unread,
		`{"type":"custom","function":{"name":"now","arguments":"{}"}}`:                     unread,
		`{"type":"other","function":{"name":"now","arguments":"{}"}}`:                      unread,
		`{"type":"function","function":{"name":"look","arguments":{"at":1}}}`:              unread,
		`{"type":"function","function":{"name":"look","arguments":"{\"at\":\"\ud800\"}"}}`: unread,
		`{"type":"custom","custom":{"name":"sql","input":"\udc00 select"}}`:                unread,
		`{"type":"function"}`: unnamed,
		`{}`:                  unnamed,
	} {
		texts := decode(call)
		require.Len(t, texts, 1, call)
		assert.Contains(t, texts[0], string(reason), call)
		assert.Equal(t, []contracts.ReasonCode{reason}, d.receipts(), call)
	}
	d.mustRun()
}

// TestNamespace: a tool of a namespace is another tool.
func TestNamespace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := askResponse(t, &scripted.Model{Steps: []scripted.Step{step(
		scripted.Call{ID: "a", Tool: "look", Args: `{"at":"1"}`, Namespace: "crm"})}})
	texts := outputs(helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, answer))
	require.Len(t, texts, 1)
	assert.Contains(t, texts[0], "crm.look was denied: DENY_TOOL_NOT_FOUND.")
	d.mustRun()
}

// TestLegacy: functions offered in the old way are called by a member of the message, without an
// id.
func TestLegacy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	call := scripted.Call{Tool: "look", Args: `{"at":"1"}`, Legacy: true}
	results := d.messages(d.ctx(), scripted.Step{Calls: []scripted.Call{call}, Finish: "function_call"})
	require.Len(t, results, 1)
	assert.JSONEq(t, `{"role":"function","name":"look","content":"look did {\"at\":\"1\",\"page\":1}"}`,
		sent(t, results[0]))
	d.mustRun(`look {"at":"1","page":1}`)
	call.Tool = "ghost"
	d.receipts()
	d.mustBeDenied(contracts.ReasonToolNotFound, d.chat(d.ctx(), scripted.Step{Calls: []scripted.Call{call}}), 1)
}

// TestProgram: what a program of the provider has called is answered to the program.
func TestProgram(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var answer responses.Response
	require.NoError(t, json.Unmarshal([]byte(`{"status":"completed","output":[
		{"type":"function_call","call_id":"a","name":"now","arguments":"{}","caller":{"type":"program","caller_id":"p1"}},
		{"type":"custom_tool_call","call_id":"b","name":"sql","input":"x","caller":{"type":"program","caller_id":"p1"}},
		{"type":"web_search_call","id":"c"},{"type":"message","content":[]}]}`), &answer))
	results := helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, &answer)
	d.mustRun("now {}", "sql x")
	require.Len(t, results, 2)
	assert.JSONEq(t, `{"type":"function_call_output","call_id":"a","output":"now did {}","caller":{"type":"program",
		"caller_id":"p1"}}`, sent(t, results[0]))
	assert.JSONEq(t, `{"type":"custom_tool_call_output","call_id":"b","output":"rows of x","caller":{"type":"program",
		"caller_id":"p1"}}`, sent(t, results[1]))
}

// TestDenied: calls that the host would have to make otherwise are denied, and answered as the API
// has it.
func TestDenied(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var answer responses.Response
	require.NoError(t, json.Unmarshal([]byte(`{"status":"completed","output":[
		{"type":"local_shell_call","id":"i","call_id":"a","action":{"type":"exec","command":["rm"]},"status":"completed"},
		{"type":"shell_call","id":"i","call_id":"b","action":{"commands":["rm"]},"environment":{"type":"local"}},
		{"type":"shell_call","id":"i","call_id":"-","environment":{"type":"container_reference","container_id":"x"}},
		{"type":"apply_patch_call","id":"i","call_id":"c","operation":{"type":"delete_file","path":"a"}},
		{"type":"computer_call","id":"i","call_id":"d","action":{"type":"click"}},
		{"type":"mcp_approval_request","id":"e","server_label":"crm","name":"drop","arguments":"{}"}]}`), &answer))
	results := helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, &answer)
	assert.Equal(t, slices.Repeat([]contracts.ReasonCode{contracts.ReasonArgsCanonicalization}, 5), d.receipts())
	require.Len(t, results, 4)
	text := results[0].OfLocalShellCallOutput.Output
	assert.Contains(t, text, "local_shell was denied: ")
	of := func(tool string) string { return strings.Replace(text, "local_shell", tool, 1) }
	assert.Equal(t, "a", results[0].OfLocalShellCallOutput.ID)
	assert.JSONEq(t, `{"type":"shell_call_output","call_id":"b","output":[{"stdout":"","stderr":"`+of("shell")+
		`","outcome":{"type":"exit","exit_code":1}}]}`, sent(t, results[1]))
	assert.JSONEq(t, `{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"`+of("apply_patch")+`"}`,
		sent(t, results[2]))
	assert.JSONEq(t, `{"type":"mcp_approval_response","approval_request_id":"e","approve":false,"reason":"`+
		of("crm__drop")+`"}`, sent(t, results[3]))
}

// TestApproval: the model is told whom its call waits for, and the next turn presents the answer.
func TestApproval(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	rent := step(scripted.Call{ID: "a", Tool: "refund", Args: `{"to":"ann","amount":900}`})
	var asked []helm.Decision
	d.tools = d.tools.Ask(func(made helm.Decision) {
		asked = append(asked, made)
		panic("the host's own")
	})
	texts := d.chat(d.ctx(), rent)
	require.Len(t, texts, 1)
	require.Len(t, asked, 1)
	pending := asked[0].Pending
	require.NoError(t, pending.About(asked[0].Args))
	assert.Contains(t, texts[0], "An approver must answer request "+pending.Nonce+"; make the same call again then.")
	approved := helm.With(d.ctx(), helm.Intent{Tool: "refund",
		Approvals: []helm.Envelope{d.Approve(*pending, kerneltest.Ann)}})
	d.chat(approved, step(
		scripted.Call{ID: "a", Tool: "refund", Args: `{"to":"eve","amount":900}`},
		scripted.Call{ID: "b", Tool: "look", Args: `{"at":"1"}`},
		scripted.Call{ID: "c", Tool: "refund", Args: `{"amount":900,"to":"ann"}`},
		scripted.Call{ID: "d", Tool: "refund", Args: `{"to":"ann","amount":900}`}))
	d.mustRun(`look {"at":"1","page":1}`, `refund {"amount":900,"to":"ann"}`)
	d.MustPass()
}

// TestFailsClosed: without a kernel, tools, an answer or a living context nothing runs.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	answer := ask(t, &scripted.Model{Steps: []scripted.Step{day}})
	of := func(ctx context.Context, k *helm.Kernel, tools *helmopenai.Tools) {
		for _, m := range helmopenai.Run(ctx, k, tools, answer) {
			assert.Contains(t, m.OfTool.Content.OfString.Value, "was denied: ")
		}
	}
	of(d.ctx(), nil, d.tools)
	of(d.ctx(), new(helm.Kernel), d.tools)
	of(d.ctx(), d.Kernel, nil)
	of(t.Context(), d.Kernel, d.tools) // nobody has asked
	ended, cancel := context.WithCancel(d.ctx())
	cancel()
	of(ended, d.Kernel, d.tools)
	d.Close()
	of(d.ctx(), d.Kernel, d.tools)
	d.mustRun()
	for _, none := range []*openai.ChatCompletion{nil, {}, ask(t, &scripted.Model{Text: "Done."})} {
		assert.Empty(t, helmopenai.Run(d.ctx(), d.Kernel, d.tools, none))
	}
	assert.Empty(t, helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, nil))
	assert.Empty(t, helmopenai.RunResponse(d.ctx(), d.Kernel, d.tools, askResponse(t, &scripted.Model{Text: "Done."})))
}

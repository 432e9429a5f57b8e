package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A board is a catalog: what begins with ok is callable, and some of it is pinned.
type board struct {
	pins   map[string]contracts.Digest
	hosted map[string]bool
	asked  []string // entries of hosted tools
}

func (s *board) callable(tool string) (contracts.Digest, bool) {
	return s.pins[tool], strings.HasPrefix(tool, "ok")
}

func (s *board) permit(tool string, entry []byte) bool {
	s.asked = append(s.asked, tool+" "+string(entry))
	return s.hosted[tool]
}

func (s *board) read(a api, body string) (*request, error) {
	p := &reader{api: a, of: s, withheld: func(tool string, output []byte, _ bool) string {
		if tool == "ok_pinned" && string(output) != "fine" {
			return "SCHEMA_VIOLATION"
		}
		return ""
	}}
	return p.read([]byte(body))
}

// TestRequestTools: only tools that may be called, and are the ones that were pinned, are offered.
// All else stays as it came.
func TestRequestTools(t *testing.T) {
	t.Parallel()
	pin, err := contracts.DefinitionOf([]byte(`{"name":"ok_pinned","description":"as pinned"}`))
	require.NoError(t, err)
	s := &board{pins: map[string]contracts.Digest{"ok_pinned": pin}, hosted: map[string]bool{"hosted.web_search": true}}
	for _, x := range []struct {
		name, in, out, removed string
		api                    api
	}{
		{"nothing to change",
			` {"model" : "m", "tools":[ {"type":"function","function":{"name":"ok_a"}} ],"messages":[]}`,
			`{"model" : "m", "tools":[ {"type":"function","function":{"name":"ok_a"}} ],"messages":[]}`, "", chatAPI},
		{"one that may not", `{"messages":[],"tools":[{"type":"function","function":{"name":"ok_a"}},` +
			`{"type":"function","function":{"name":"no"}}]}`,
			`{"messages":[],"tools":[{"type":"function","function":{"name":"ok_a"}}]}`, "no", chatAPI},
		{"none is left", `{"messages":[],"tools":[{"type":"function","function":{"name":"no"}}],` +
			`"tool_choice":"auto","parallel_tool_calls":true}`,
			`{"messages":[]}`, "no", chatAPI},
		{"as pinned",
			`{"messages":[],"tools":[{"type":"function","function":{"description":"as pinned","name":"ok_pinned"}}]}`,
			`{"messages":[],"tools":[{"type":"function","function":{"description":"as pinned","name":"ok_pinned"}}]}`,
			"", chatAPI},
		{"not as pinned",
			`{"messages":[],"tools":[{"type":"function","function":{"description":"other","name":"ok_pinned"}}]}`,
			`{"messages":[]}`, "ok_pinned", chatAPI},
		{"two of a name", `{"messages":[],"tools":[{"type":"function","function":{"name":"ok_a"}},{"type":"custom",` +
			`"custom":{"name":"ok_a"}}]}`,
			`{"messages":[]}`, "ok_a,ok_a", chatAPI},
		{"two of a name in two lists",
			`{"messages":[],"functions":[{"name":"ok_a"}],"tools":[{"type":"function","function":{"name":"ok_a"}}]}`,
			`{"messages":[]}`, "ok_a,ok_a", chatAPI},
		{"an unknown type", `{"messages":[],"tools":[{"type":"shell_9000","name":"ok_a"}]}`, `{"messages":[]}`,
			"ok_a", chatAPI},
		{"a name of HELM's own", `{"messages":[],"tools":[{"type":"function","function":{"name":"hosted.ok"}}]}`,
			`{"messages":[]}`, "hosted.ok", chatAPI},
		{"no object", `{"messages":[],"tools":["ok_a"]}`, `{"messages":[]}`, "", chatAPI},
		{"unknown members", `{"messages":[],"x":1,"plugins":[{"tools":[]}]}`, `{"messages":[]}`, "x,plugins", chatAPI},
		{"web search as an option", `{"messages":[],"web_search_options":{"a":1}}`,
			`{"messages":[],"web_search_options":{"a":1}}`, "", chatAPI},
		{"a hosted tool that may", `{"tools":[{"type":"web_search_preview_2025_03_11"},{"type":"web_search"}]}`,
			`{"tools":[{"type":"web_search"}]}`, "hosted.web_search_preview", responsesAPI},
		{"a shell of the app", `{"tools":[{"type":"shell","environment":{"type":"local"}}]}`, `{}`, "shell",
			responsesAPI},
		{"a shell of the provider", `{"tools":[{"type":"shell","environment":{"type":"container_auto"}}]}`, `{}`,
			"hosted.shell", responsesAPI},
		{"tools that the app finds", `{"tools":[{"type":"tool_search","execution":"client"}]}`, `{}`, "tool_search",
			responsesAPI},
		{"a namespace", `{"tools":[{"type":"namespace","name":"ok","tools":[{"type":"function","name":"a"},` +
			`{"type":"custom","name":"b"}]}]}`,
			`{"tools":[{"type":"namespace","name":"ok","tools":[{"type":"function","name":"a"},{"type":"custom",` +
				`"name":"b"}]}]}`, "", responsesAPI},
		{"a namespace of others", `{"tools":[{"type":"namespace","name":"no","tools":[{"type":"function",` +
			`"name":"ok_a"}]}]}`, `{}`, "no.ok_a", responsesAPI},
		{"a namespace in one", `{"tools":[{"type":"namespace","name":"ok","tools":[{"type":"namespace","name":"ok",` +
			`"tools":[]}]}]}`, `{}`, "", responsesAPI},
		{"tools inside an item", `{"input":[{"type":"additional_tools","tools":[{"type":"function","name":"no"}]}]}`,
			`{"input":[{"type":"additional_tools","tools":[]}]}`, "no", responsesAPI},
		{"of messages", `{"messages":[],"tools":[{"name":"ok_a","input_schema":{}},{"name":"no","input_schema":{}}]}`,
			`{"messages":[],"tools":[{"name":"ok_a","input_schema":{}}]}`, "no", messagesAPI},
		{"one that programs may call", `{"messages":[],"tools":[{"name":"ok_a","input_schema":{},` +
			`"allowed_callers":["direct","code_execution_20250825"]}]}`,
			`{"messages":[]}`, "ok_a", messagesAPI},
		{"one with a type of its own", `{"messages":[],"tools":[{"type":"bash_20250124","name":"ok_bash"}]}`,
			`{"messages":[],"tools":[{"type":"bash_20250124","name":"ok_bash"}]}`, "", messagesAPI},
		{"a set of tools", `{"messages":[],"tools":[{"type":"computer_toolset_20260101","name":"ok",` +
			`"tools":[{"name":"click"},{"name":"type"}]}]}`,
			`{"messages":[],"tools":[{"type":"computer_toolset_20260101","name":"ok","tools":[{"name":"click"},` +
				`{"name":"type"}]}]}`, "", messagesAPI},
		{"servers of the provider",
			`{"messages":[],"mcp_servers":[{"url":"https://a.example","authorization_token":"SECRET"}]}`,
			`{"messages":[]}`, "hosted.mcp", messagesAPI},
	} {
		r, err := s.read(x.api, x.in)
		require.NoError(t, err, x.name)
		assert.Equal(t, x.out, string(r.body.Raw()), x.name)
		assert.Equal(t, x.removed, strings.Join(r.removed, ","), x.name)
	}
	r, err := s.read(responsesAPI,
		`{"tools":[{"type":"namespace","name":"ok","tools":[{"type":"function","name":"a"}]}]}`)
	require.NoError(t, err)
	want, err := contracts.DefinitionOf([]byte(`{"type":"function","name":"a"}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]contracts.Digest{"ok.a": want}, r.offer.tools)
	assert.NotContains(t, strings.Join(s.asked, "\n"), "SECRET")
	assert.Contains(t, s.asked, `hosted.mcp {"url":"https://a.example","authorization_token":true}`)
}

// TestRequestRefused: what is not governed in any form, and a choice that forces what was removed.
func TestRequestRefused(t *testing.T) {
	t.Parallel()
	const tool = `"tools":[{"type":"function","function":{"name":"ok_a"}},{"type":"function","function":{"name":"no"}}]`
	for _, x := range []struct {
		name, body string
		api        api
		status     int
	}{
		{"no JSON", `{`, chatAPI, 400},
		{"no object", `[]`, chatAPI, 400},
		{"a name twice", `{"messages":[],"model":"a","model":"b"}`, chatAPI, 400},
		{"no messages", `{}`, chatAPI, 400},
		{"background", `{"background":true}`, responsesAPI, 400},
		{"a prompt that is kept", `{"prompt":{"id":"a"}}`, responsesAPI, 400},
		{"a conversation that is kept", `{"conversation":"a"}`, responsesAPI, 400},
		{"tools that are no list", `{"messages":[],"tools":{}}`, chatAPI, 400},
		{"an unknown role", `{"messages":[{"role":"root","content":""}]}`, chatAPI, 400},
		{"an unknown item", `{"input":[{"type":"tool_call"}]}`, responsesAPI, 400},
		{"an unknown role of an item", `{"input":[{"role":"tool","content":""}]}`, responsesAPI, 400},
		{"an unknown block", `{"messages":[{"role":"user","content":[{"type":"tool_call"}]}]}`, messagesAPI, 400},
		{"a result without an id", `{"messages":[{"role":"tool","content":"a"}]}`, chatAPI, 400},
		{"two results for one call", `{"messages":[{"role":"tool","tool_call_id":"a","content":"a"},{"role":"tool",` +
			`"tool_call_id":"a","content":"b"}]}`, chatAPI, 400},
		{"a choice of one that is gone",
			`{"messages":[],` + tool + `,"tool_choice":{"type":"function","function":{"name":"no"}}}`, chatAPI, 403},
		{"of several", `{"messages":[],` + tool + `,"tool_choice":{"type":"allowed_tools",` +
			`"allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"no"}}]}}}`, chatAPI, 403},
		{"a legacy choice", `{"messages":[],"functions":[{"name":"no"}],"function_call":{"name":"no"}}`, chatAPI, 403},
		{"a call of nothing", `{"messages":[],"tools":[{"type":"function","function":{"name":"no"}}],` +
			`"tool_choice":"required"}`, chatAPI, 403},
		{"of messages", `{"messages":[],"tools":[{"name":"no","input_schema":{}}],"tool_choice":{"type":"any"}}`,
			messagesAPI, 403},
		{"a hosted tool", `{"tools":[{"type":"function","name":"ok"},{"type":"web_search"}],` +
			`"tool_choice":{"type":"web_search"}}`, responsesAPI, 403},
	} {
		_, err := (&board{}).read(x.api, x.body)
		var r *refusal
		require.ErrorAs(t, err, &r, x.name)
		assert.Equal(t, x.status, r.status, "%s: %v", x.name, err)
	}
}

// TestRequestResults: each result is read with its call, and one that must not reach the model is
// replaced.
func TestRequestResults(t *testing.T) {
	t.Parallel()
	s := &board{}
	r, err := s.read(chatAPI, `{"messages":[{"role":"user","content":"pay"},{"role":"assistant","tool_calls":[`+
		`{"id":"c1","type":"function","function":{"name":"ok_pinned","arguments":"{}"}},{"id":"c2","type":"custom",`+
		`"custom":{"name":"ok_b","input":""}}]},`+
		`{"role":"tool","tool_call_id":"c1","content":"other"},{"role":"tool","tool_call_id":"c2",`+
		`"content":[{"type":"text","text":"1.10"}]},`+
		`{"role":"function","name":"ok_pinned","content":"other"},{"role":"tool","tool_call_id":"c9",`+
		`"content":"\ud83d"}]}`)
	require.NoError(t, err)
	assert.Equal(t, []string{"c1", "c2"}, r.order)
	assert.Equal(t, map[string]string{"c1": "ok_pinned", "c2": "ok_b"}, r.calls)
	require.Len(t, r.results, 4)
	assert.Equal(t, []result{{id: "c1", output: []byte("other")}, {id: "c2", output: []byte("1.10")},
		{name: "ok_pinned", output: []byte("other")}, {id: "c9", output: []byte(`"\ud83d"`)}}, r.results)
	assert.Equal(t, 2, strings.Count(string(r.body.Raw()), `"content":"[helm] output withheld: SCHEMA_VIOLATION"`))
	assert.NotContains(t, string(r.body.Raw()), "other")
	assert.Empty(t, r.words, "the last message is no user's")

	r, err = s.read(messagesAPI,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ok_a","input":{}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no"},`+
			`{"type":"text","text":"<reminder>"}]}]}`)
	require.NoError(t, err)
	assert.Equal(t, []result{{id: "t1", output: []byte("no"), failed: true}}, r.results)
	assert.Empty(t, r.words, "a message with a result in it")

	r, err = s.read(responsesAPI, `{"previous_response_id":"resp_1","input":[{"type":"function_call","call_id":"f1",`+
		`"name":"a","namespace":"ok"},`+
		`{"type":"function_call_output","call_id":"f1","output":"x"},{"type":"shell_call_output","call_id":"s1",`+
		`"output":[{"stdout":"a"}]},`+
		`{"type":"mcp_approval_response","approval_request_id":"m1","approve":false},{"role":"user",`+
		`"content":[{"type":"input_text","text":"go on"}]}]}`)
	require.NoError(t, err)
	assert.Equal(t, "resp_1", r.previous)
	assert.Equal(t, []result{{id: "f1", output: []byte("x")}, {id: "s1", output: []byte(`[{"stdout":"a"}]`)},
		{id: "m1", drop: true}}, r.results)
	assert.Equal(t, map[string]string{"f1": "ok.a"}, r.calls)
	assert.Equal(t, "go on", r.words)
}

package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const mirroredEntry = `{"name":"echo","inputSchema":{"type":"object","properties":{` +
	`"text":{"type":"string","x-mcp-header":"Words"},"n":{"type":"integer","x-mcp-header":"Count"}}}},` +
	`{"name":"hidden","inputSchema":{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Words"}}}}`

// since returns the body of a call since 2026-07-28.
func since(tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`+
		`"io.modelcontextprotocol/clientInfo":{"name":"model","version":"1"}}}}`, tool, args)
}

// TestMirroredHeaders: a request whose headers do not say what its arguments do is refused, and is
// never judged; one that cannot be told of a hidden tool, or of arguments that are no strict JSON,
// leaves the receipt of a denial.
func TestMirroredHeaders(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, func(o *GatewayOptions) {
		o.Servers[0].Command = append(o.Servers[0].Command, mirroredEntry)
	})
	ask := func(tool, body string, headers ...string) (int, string) {
		h := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", stateless,
			"Mcp-Method", "tools/call", "Mcp-Name", tool}
		status, said, _ := f.ask("POST", "/mcp", "ann", body, append(h, headers...)...)
		return status, said
	}
	for _, x := range []struct {
		args    string
		headers []string
	}{
		{`{}`, nil},
		{`{"text":null}`, nil},
		{`{"text":"Hello"}`, []string{"Mcp-Param-Words", "Hello"}},
		{`{"text":"Hello"}`, []string{"mcp-param-words", "=?base64?SGVsbG8=?="}},
		{`{"text":"SGVsbG8="}`, []string{"Mcp-Param-Words", "SGVsbG8="}},
		{`{"text":"=?base64?SGVsbG8="}`, []string{"Mcp-Param-Words", "=?base64?SGVsbG8="}},
		{`{"text":""}`, []string{"Mcp-Param-Words", ""}},
		{`{"n":3,"text":"a"}`, []string{"Mcp-Param-Words", "a", "Mcp-Param-Count", "3"}},
	} {
		before := len(f.receipts())
		status, said := ask("echo", since("echo", x.args), x.headers...)
		assert.Equal(t, 200, status, "%v: %s", x, said)
		after := len(f.receipts())
		assert.Equal(t, before+1, after, "%v: %s", x, said)
	}
	before := len(f.receipts())
	for _, x := range []struct {
		args    string
		headers []string
	}{
		{`{"text":"Hello"}`, nil},
		{`{"text":"Hello"}`, []string{"Mcp-Param-Words", "hello"}},
		{`{"text":"Hello"}`, []string{"Mcp-Param-Words", ""}},
		{`{"text":"Hello"}`, []string{"Mcp-Param-Words", "=?base64?SGVsbG8?="}},
		{`{"text":"Hello"}`, []string{"Mcp-Param-Words", "=?base64?SGVs!!!bG8=?="}},
		{`{}`, []string{"Mcp-Param-Words", "Hello"}},
		{`{"text":null}`, []string{"Mcp-Param-Words", "null"}},
		{`{"n":3}`, []string{"Mcp-Param-Count", "4"}},
		{`{"n":0.5}`, []string{"Mcp-Param-Count", "0.5"}},
		{`{"n":3}`, []string{"Mcp-Param-Count", "NaN"}},
	} {
		status, said := ask("echo", since("echo", x.args), x.headers...)
		assert.Equal(t, 400, status, "%v: %s", x, said)
		var answer struct {
			ID    int
			Error struct {
				Code    int
				Message string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(said), &answer), said)
		assert.True(t, answer.ID == 7 && answer.Error.Code == -32020, said)
		assert.NotContains(t, said, "ello", "nothing of it is repeated")
	}
	twice := strings.Replace(since("echo", `{}`), `"params":{`, `"params":{"arguments":{"text":"Hello"},`, 1)
	status, said := ask("echo", twice)
	assert.Equal(t, 400, status, said)
	assert.Len(t, f.receipts(), before, "none of these was judged")
	sent := strings.Count(f.noted("in"), "tools/call")
	for _, body := range []string{since("hidden", `{"text":"Hello"}`), since("echo", `{"text":"Hello","text":"b"}`)} {
		tool := "echo"
		if strings.Contains(body, "hidden") {
			tool = "hidden"
		}
		status, said = ask(tool, body)
		assert.True(t, status == 200 && strings.Contains(said, " was denied: "), "%d %s", status, said)
	}
	assert.Len(t, f.receipts(), before+2)
	assert.Equal(t, sent, strings.Count(f.noted("in"), "tools/call"))
}

// TestMirrors: what a schema has repeated is known by its path; one that is not what it should be
// has nothing repeated.
func TestMirrors(t *testing.T) {
	t.Parallel()
	list := mirrors(json.RawMessage(`{"properties":{"a":{"type":"object","properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}`))
	require.Equal(t, []mirror{{"B", []string{"a", "b"}}}, list)
	for args, want := range map[string]string{`{"a":{"b":true}}`: "true", `{"a":{"b":null}}`: "", `{"a":1}`: "", `{"b":true}`: ""} {
		var of map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(args), &of))
		raw, ok := list[0].value(of)
		assert.Equal(t, want != "", ok, args)
		if ok {
			assert.True(t, string(raw) == want && says("true", raw) && !says("false", raw) && !says("True", raw))
		}
	}
	for _, bad := range []string{
		`{"type":"string","x-mcp-header":""}`, `{"type":"string","x-mcp-header":"a b"}`, `{"type":"string","x-mcp-header":1}`,
		`{"type":"number","x-mcp-header":"A"}`, `{"type":"object","x-mcp-header":"A"}`, `{"x-mcp-header":"A"}`,
		`{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`,
		`{"type":"string","x-mcp-header":"A\r\nX"}`,
	} {
		assert.Nil(t, mirrors(json.RawMessage(`{"properties":{"a":`+bad+`}}`)), bad)
	}
	for _, none := range []string{``, `null`, `"x-mcp-header"`, `{"properties":["x-mcp-header"]}`, `{"properties":{"x-mcp-header":true}}`} {
		assert.Nil(t, mirrors(json.RawMessage(none)), none)
	}
}

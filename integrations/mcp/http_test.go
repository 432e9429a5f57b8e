package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const facePolicy = `
helm: policy/v1
layer: P1
bundle: {name: face, version: 1}
tools:
  echo: {effect: read, risk: low, input: {type: object, properties: {do: {type: string}, result: {type: string}, text: {type: string}, n: {type: number}}}}
  bad: {effect: write, input: {type: object, properties: {text: {type: string}}}}
rules:
  - {id: all, allow: echo}
  - {id: told, allow: bad, when: {arg: /text, from: [user], absent: false}}
`

// A face is a gateway that is served over HTTP.
type face struct {
	*gate
	handler *Handler
	server  *httptest.Server
	tokens  string            // file
	secrets map[string]string // by the caller's id
}

func newFace(t *testing.T, o HandlerOptions, scopes map[string][]auth.Scope, change func(*GatewayOptions)) *face {
	t.Helper()
	f := &face{gate: &gate{T: t, dir: t.TempDir(), logged: &lines{}}, secrets: map[string]string{}}
	doc, err := policy.Parse("face.yaml", []byte(facePolicy))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	f.store = proofgraph.NewMemory()
	f.kernel, err = helm.New(helm.Options{Policy: p, Key: key, Origin: "face", Store: f.store})
	require.NoError(t, err)
	t.Cleanup(func() { f.kernel.Close() })
	g := GatewayOptions{Kernel: f.kernel, Servers: []Server{fakeServer(f.dir)}, Log: textLog(f.logged)}
	if change != nil {
		change(&g)
	}
	f.gateway, err = NewGateway(g)
	require.NoError(t, err)
	t.Cleanup(func() { f.gateway.Close() })
	f.tokens = filepath.Join(t.TempDir(), "tokens.json")
	var list []auth.Token
	for id, s := range scopes {
		caller := helm.Caller{ID: strings.TrimSuffix(id, "-app")}
		secret, entry, err := auth.NewToken(id, caller, s, time.Time{})
		require.NoError(t, err)
		f.secrets[id] = secret
		list = append(list, entry)
	}
	if list != nil {
		require.NoError(t, os.WriteFile(f.tokens, auth.FormatTokens(list), 0o600))
	}
	tokens, err := auth.OpenTokens(f.tokens)
	require.NoError(t, err)
	if o.Auth == nil {
		metadata := ""
		if o.Issuer != "" {
			metadata = o.Resource + "/.well-known/oauth-protected-resource"
		}
		o.Auth, err = auth.New(auth.Options{Tokens: tokens, Denials: 1000, Metadata: metadata})
		require.NoError(t, err)
	}
	f.handler, err = f.gateway.Handler(o)
	require.NoError(t, err)
	f.server = httptest.NewUnstartedServer(nil)
	f.server.Config = auth.Server(f.handler)
	f.server.Start()
	t.Cleanup(func() { f.server.CloseClientConnections(); f.server.Close() })
	return f
}

var callers = map[string][]auth.Scope{
	"ann": {auth.Call}, "bob": {auth.Call}, "ann-app": {auth.User}, "auditor": {auth.ReadAll, auth.Admin, auth.Inputs},
}

// with sets the token of a caller on each request.
type with struct{ secret, session string }

func (x with) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if x.secret != "" {
		r.Header.Set("Authorization", "Bearer "+x.secret)
	}
	if x.session != "" {
		r.Header.Set("Helm-Session", x.session)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// join connects a client over HTTP.
func (f *face) join(who, session string) (*sdk.ClientSession, error) {
	t := &sdk.StreamableClientTransport{Endpoint: f.server.URL + "/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: with{f.secrets[who], session}}}
	return sdk.NewClient(&sdk.Implementation{Name: "model", Version: "1"}, nil).Connect(f.Context(), t, nil)
}

// ask makes a request, and returns the status, the body and the headers.
func (f *face) ask(method, path, who, body string, headers ...string) (int, string, http.Header) {
	f.Helper()
	r, err := http.NewRequest(method, f.server.URL+path, strings.NewReader(body))
	require.NoError(f, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if who != "" {
		r.Header.Set("Helm-Token", f.secrets[who])
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(f, err)
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	require.NoError(f, err)
	return got.StatusCode, string(b), got.Header
}

// TestHTTP: over HTTP a client gets what it gets over stdio, in a session of its own caller, which
// nobody else can join.
func TestHTTP(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	ann, err := f.join("ann", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"echo", "bad"}, f.names(ann))
	r, said := f.call(ann, "echo", `{"text":"a"}`)
	assert.True(t, !r.IsError && said == "fine")
	r, _ = f.call(ann, "bad", `{"text":"a"}`)
	assert.True(t, r.IsError)
	all := f.receipts()
	require.Len(t, all, 2)
	bob, err := f.join("bob", "")
	require.NoError(t, err)
	f.call(bob, "echo", `{}`)
	assert.Equal(t, "bob", f.lastCaller())
	if id := ann.ID(); id != "" {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			body := ""
			if method == "POST" {
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			}
			status, _, _ := f.ask(method, "/mcp", "bob", body, "Mcp-Session-Id", id, "Accept", "application/json, text/event-stream")
			assert.Equal(t, 404, status, "%s: another's session does not exist", method)
		}
	}
	f.call(ann, "echo", `{}`)
	for _, who := range []string{"", "auditor"} {
		_, err := f.join(who, "")
		assert.Error(t, err, who)
	}
	require.NoError(t, ann.Close())
	require.NoError(t, bob.Close())
	sessions := f.sessions()
	for _, name := range sessions {
		assert.Regexp(t, `^[0-9a-f]{12}/`, name)
	}
}

// lastCaller returns who made the last call that has a receipt.
func (f *face) lastCaller() string {
	f.Helper()
	var last string
	f.each(func(st *contracts.Statement) {
		if st.Decision != nil {
			last = st.Decision.Caller.ID
		}
		if st.Receipt != nil && st.Receipt.Decision != nil {
			last = st.Receipt.Decision.Caller.ID
		}
	})
	return last
}

// sessions returns the names of sessions that have receipts, in the order of the log.
func (f *face) sessions() (list []string) {
	f.Helper()
	f.each(func(st *contracts.Statement) {
		if st.Receipt != nil {
			list = append(list, st.Session)
		}
	})
	return list
}

func (f *face) each(see func(*contracts.Statement)) {
	f.Helper()
	ctx := context.Background()
	size, err := f.store.Size(ctx)
	require.NoError(f, err)
	var reader contracts.Reader
	for e, err := range f.store.Entries(ctx, 0, size) {
		require.NoError(f, err)
		sealed, err := reader.Open(e)
		require.NoError(f, err)
		st, err := sealed.Statement()
		require.NoError(f, err)
		see(st)
	}
}

// TestExecute: a call of its own is judged with the bytes as they came. A denial is 403, with its
// receipt; 403 always says that it did not run.
func TestExecute(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	status, said, h := f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{"n":1.0,"text":"a"}}`)
	require.Equal(t, 200, status, said)
	var ok struct {
		Result           struct{ Content []struct{ Text string } }
		Failed, Released bool
		Decision         string
		Receipt          struct{ Index *uint64 }
		Session          string
	}
	require.NoError(t, json.Unmarshal([]byte(said), &ok), said)
	assert.True(t, !ok.Failed && ok.Released && ok.Result.Content[0].Text == "fine" && ok.Receipt.Index != nil, said)
	assert.Contains(t, f.noted("in"), `"arguments":{"n":1,"text":"a"}`)
	assert.Equal(t, h.Get("Helm-Session"), ok.Session)
	assert.True(t, strings.HasSuffix(ok.Session, "/mcp") && strings.HasPrefix(ok.Decision, ok.Session+"/"), said)
	for _, body := range []string{
		`{"method":"echo","params":{}}`,
		`{"tool":"echo","arguments":"{\"text\":\"a\"}"}`,
		`{"tool":"echo","arguments":{},"session":"chat"}`,
	} {
		status, said, _ := f.ask("POST", "/mcp/v1/execute", "ann", body)
		assert.Equal(t, 200, status, said)
	}
	assert.True(t, strings.HasSuffix(f.sessions()[3], "/chat"), f.sessions())
	sent := strings.Count(f.noted("in"), "tools/call")
	for name, body := range map[string]string{
		"a name twice":             `{"tool":"echo","arguments":{"text":"a","text":"b"}}`,
		"in a text":                `{"tool":"echo","arguments":"{\"text\":\"a\",\"text\":\"b\"}"}`,
		"another letter case":      `{"tool":"echo","arguments":{"text":"a","Text":"b"}}`,
		"a number that is changed": `{"tool":"echo","arguments":{"n":9007199254740993}}`,
		"no JSON":                  `{"tool":"echo","arguments":"{"}`,
		"no object":                `{"tool":"echo","arguments":"[]"}`,
		"half a character":         `{"tool":"echo","arguments":{"text":"\ud83d"}}`,
		"unknown tool":             `{"tool":"none","arguments":{}}`,
		"hidden tool":              `{"tool":"hidden","arguments":{}}`,
		"denied by a rule":         `{"tool":"bad","arguments":{"text":"a"}}`,
	} {
		before := len(f.receipts())
		status, said, h := f.ask("POST", "/mcp/v1/execute", "ann", body)
		assert.Equal(t, 403, status, "%s: %s", name, said)
		var no struct {
			Error struct{ Code, Type, Message string }
			Helm  struct {
				Calls []struct {
					Verdict, Reason string
					Receipt         *struct{ Index uint64 }
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(said), &no), said)
		require.Len(t, no.Helm.Calls, 1, said)
		c := no.Helm.Calls[0]
		assert.True(t, c.Verdict == "DENY" && c.Reason == no.Error.Code && c.Receipt != nil, said)
		assert.Equal(t, "1", h.Get("Helm-Denied"))
		assert.Equal(t, "false", h.Get("X-Should-Retry"))
		assert.Len(t, f.receipts(), before+1, name)
		assert.Equal(t, contracts.Denied, f.last().Outcome, name)
	}
	before := len(f.receipts())
	for name, body := range map[string]string{
		"no object":        `[]`,
		"no JSON":          `{`,
		"more behind":      `{"tool":"echo","arguments":{}} {}`,
		"no tool":          `{"arguments":{}}`,
		"no arguments":     `{"tool":"echo"}`,
		"a tool twice":     `{"tool":"echo","tool":"bad","arguments":{}}`,
		"under two names":  `{"tool":"echo","method":"bad","arguments":{}}`,
		"arguments twice":  `{"tool":"echo","arguments":{},"params":{}}`,
		"a list":           `{"tool":"echo","arguments":[]}`,
		"null":             `{"tool":"echo","arguments":null}`,
		"another member":   `{"tool":"echo","arguments":{},"caller":"bob"}`,
		"in capitals":      `{"Tool":"echo","arguments":{}}`,
		"an empty session": `{"tool":"echo","arguments":{},"session":""}`,
		"a number":         `{"tool":1,"arguments":{}}`,
	} {
		status, said, _ := f.ask("POST", "/mcp/v1/execute", "ann", body)
		assert.Equal(t, 400, status, "%s: %s", name, said)
	}
	status, said, _ = f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{},"session":"a"}`, "Helm-Session", "b")
	assert.Equal(t, 400, status, said)
	status, _, _ = f.ask("POST", "/mcp/v1/execute", "auditor", `{"tool":"echo","arguments":{}}`)
	assert.Equal(t, 403, status)
	status, _, _ = f.ask("POST", "/mcp/v1/execute", "", `{"tool":"echo","arguments":{}}`)
	assert.Equal(t, 401, status)
	status, _, h = f.ask("GET", "/mcp/v1/execute", "ann", "")
	assert.True(t, status == 405 && h.Get("Allow") == "POST")
	status, _, _ = f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{}}`, "Content-Type", "text/plain")
	assert.Equal(t, 415, status)
	status, _, _ = f.ask("POST", "/mcp/v1/other", "ann", `{}`)
	assert.Equal(t, 404, status)
	assert.Len(t, f.receipts(), before, "nothing of that was judged")
	assert.Equal(t, sent, strings.Count(f.noted("in"), "tools/call"), "and nothing of all that ran")

	status, said, _ = f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{"do":"error"}}`)
	assert.Equal(t, 200, status)
	assert.NotContains(t, said, "SECRET")
	require.NoError(t, json.Unmarshal([]byte(said), &ok))
	assert.True(t, ok.Failed && !ok.Released, said)
	require.NoError(t, f.kernel.Close())
	status, _, _ = f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{}}`)
	assert.Equal(t, 503, status)
}

// TestCapabilities: a caller is told of the tools that some call of theirs may be allowed to.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	status, said, _ := f.ask("GET", "/mcp/v1/capabilities", "ann", "")
	require.Equal(t, 200, status, said)
	var c struct {
		Governance string
		Versions   []string `json:"protocol_versions"`
		Tools      []struct {
			Name, Effect, Risk, Definition string
			InputSchema                    map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(said), &c))
	assert.True(t, c.Governance == "helm" && len(c.Versions) > 1)
	require.Len(t, c.Tools, 2)
	echo, err := contracts.DefinitionOf([]byte(`{"name":"echo","inputSchema":{"type":"object"}}`))
	require.NoError(t, err)
	assert.True(t, c.Tools[0].Name == "echo" && c.Tools[0].Effect == "read" && c.Tools[0].Definition == echo.String(), said)
	status, _, _ = f.ask("GET", "/mcp/v1/capabilities", "auditor", "")
	assert.Equal(t, 403, status)
}

// TestUsersWords: a value is the user's only after the app has said so, for that session of that
// caller, and by nothing that came over MCP.
func TestUsersWords(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	pay := func(who, session string) int {
		status, _, _ := f.ask("POST", "/mcp/v1/execute", who, `{"tool":"bad","arguments":{"text":"carl"},"session":"`+session+`"}`)
		return status
	}
	say := func(who, session string) int {
		status, _, _ := f.ask("POST", "/helm/messages", who, `{"session":"`+session+`","text":"pay carl now"}`)
		return status
	}
	f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{"text":"carl"},"session":"chat"}`)
	assert.Equal(t, 403, pay("ann", "chat"), "an argument of another call")
	assert.Equal(t, 403, say("ann", "chat"), "without the scope")
	assert.Equal(t, 403, pay("ann", "chat"))
	assert.Equal(t, 200, say("ann-app", "other"))
	assert.Equal(t, 403, pay("ann", "chat"), "another session")
	assert.Equal(t, 200, say("ann-app", "chat"))
	assert.Equal(t, 403, pay("bob", "chat"), "another caller")
	assert.Equal(t, 200, pay("ann", "chat"))
	ann, err := f.join("ann", "chat")
	require.NoError(t, err)
	r, _ := f.call(ann, "bad", `{"text":"carl"}`)
	assert.False(t, r.IsError, "over MCP, in the session that its header names")
	other, err := f.join("ann", "")
	require.NoError(t, err)
	r, _ = f.call(other, "bad", `{"text":"carl"}`)
	assert.True(t, r.IsError)
	require.NoError(t, ann.Close())
	require.NoError(t, other.Close())
}

// TestAnonymousSessions: of nobody the sessions are anonymous/…, and no caller's is one of them.
func TestAnonymousSessions(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, nil, nil)
	status, said, h := f.ask("POST", "/mcp/v1/execute", "", `{"tool":"echo","arguments":{},"session":"a"}`)
	assert.True(t, status == 200 && h.Get("Helm-Session") == "anonymous/a", said)
	status, _, _ = f.ask("POST", "/helm/messages", "", `{"session":"a","text":"pay carl"}`)
	assert.Equal(t, 403, status)
	status, _, _ = f.ask("POST", "/mcp/v1/execute", "", `{"tool":"echo","arguments":{}}`, "Origin", "http://localhost")
	assert.Equal(t, 403, status, "a page in a browser")
}

// TestSessionsAreFew: as many client sessions as may be, and none more is begun; one that is idle
// ends, and its server with it.
func TestSessionsAreFew(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{Sessions: 2}, callers, nil)
	run := func(session string) int {
		status, _, _ := f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{},"session":"`+session+`"}`)
		return status
	}
	assert.Equal(t, 200, run("a"))
	assert.Equal(t, 200, run("b"))
	assert.Equal(t, 503, run("c"))
	assert.Equal(t, 200, run("a"), "one that is there")
	assert.Equal(t, 2, strings.Count(f.noted("started"), "\n"))

	f = newFace(t, HandlerOptions{Sessions: 1, Idle: 20 * time.Millisecond}, callers, nil)
	assert.Equal(t, 200, run2(f, "a"))
	assert.Eventually(t, func() bool { return run2(f, "b") == 200 }, 30*time.Second, 10*time.Millisecond, "the idle one ended")
}

// TestIdleSessions: a session of the log that nobody used for long is ended for good, over HTTP and
// over stdio; a call in it is denied, with a receipt.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	var limits *auth.Auth
	f := newFace(t, HandlerOptions{}, nil, func(o *GatewayOptions) {
		var err error
		limits, err = auth.New(auth.Options{
			SessionIdle: time.Hour, Now: func() time.Time { return time.Unix(now.Load(), 0) },
			EndSession: func(session string) error { return o.Kernel.CloseSession(t.Context(), session) },
		})
		require.NoError(t, err)
		o.Limits, o.Session = limits, "anonymous/typed"
	})
	c := f.connect(nil)
	for range 2 {
		assert.Equal(t, 200, run2(f, "web"))
		_, said := f.call(c, "echo", `{}`)
		assert.Equal(t, "fine", said)
		now.Add(3599)
	}
	now.Add(1)
	for _, call := range []func() string{
		func() string {
			_, said, _ := f.ask("POST", "/mcp/v1/execute", "", `{"tool":"echo","arguments":{},"session":"web"}`)
			return said
		},
		func() string { _, said := f.call(c, "echo", `{}`); return said },
	} {
		before := len(f.receipts())
		assert.Contains(t, call(), string(contracts.ReasonSessionClosed))
		all := f.receipts()
		require.Len(t, all, before+1)
		assert.Equal(t, contracts.Denied, all[before].Outcome)
	}
	assert.Equal(t, 200, run2(f, "another"))
	assert.Equal(t, 4+1, strings.Count(f.noted("in"), "tools/call"))
}

func run2(f *face, session string) int {
	status, _, _ := f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{},"session":"`+session+`"}`)
	return status
}

// TestDrain: what runs comes to its end, nothing new begins, and no process is left.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	status, said, _ := f.ask("GET", "/healthz", "", "", "Host", "any.example")
	assert.True(t, status == 200 && said == `{"status":"ok"}`+"\n", said)
	ended := make(chan int)
	go func() {
		status, _, _ := f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{"do":"words"}}`)
		ended <- status
	}()
	require.Eventually(t, func() bool { return strings.Contains(f.noted("in"), "tools/call") }, 30*time.Second, time.Millisecond)
	drained := make(chan error)
	go func() { drained <- f.handler.Drain(context.Background()) }()
	require.Eventually(t, func() bool { status, _, _ := f.ask("GET", "/healthz", "", ""); return status == 503 }, 30*time.Second, time.Millisecond)
	assert.Equal(t, 503, run2(f, "new"))
	assert.Equal(t, 200, <-ended)
	assert.NoError(t, <-drained)
	assert.Empty(t, f.gateway.clients)

	f = newFace(t, HandlerOptions{}, callers, nil)
	go f.ask("POST", "/mcp/v1/execute", "ann", `{"tool":"echo","arguments":{"do":"hang"}}`)
	require.Eventually(t, func() bool { return strings.Contains(f.noted("in"), "tools/call") }, 30*time.Second, time.Millisecond)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	assert.Error(t, f.handler.Drain(over), "one that hangs is not waited for")
	assert.Empty(t, f.gateway.clients)
	assert.Eventually(t, func() bool { return f.last().Outcome == contracts.Indeterminate }, 30*time.Second, 10*time.Millisecond)
}

// TestRevokedStream: the stream of a client whose token was revoked ends.
func TestRevokedStream(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: a token is looked at every four seconds; without it this runs")
	}
	f := newFace(t, HandlerOptions{}, callers, nil)
	status, _, h := f.ask("POST", "/mcp", "ann", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "Accept", "application/json, text/event-stream")
	require.Equal(t, 200, status)
	id := h.Get("Mcp-Session-Id")
	require.NotEmpty(t, id)
	r, err := http.NewRequest("GET", f.server.URL+"/mcp", nil)
	require.NoError(t, err)
	for name, value := range map[string]string{"Helm-Token": f.secrets["ann"], "Mcp-Session-Id": id,
		"Accept": "text/event-stream", "Mcp-Protocol-Version": "2025-11-25"} {
		r.Header.Set(name, value)
	}
	stream, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, 200, stream.StatusCode)
	require.NoError(t, os.WriteFile(f.tokens+".new", []byte("[]"), 0o600))
	require.NoError(t, os.Rename(f.tokens+".new", f.tokens))
	_, err = io.ReadAll(stream.Body)
	assert.NoError(t, err)
	status, _, _ = f.ask("GET", "/mcp/v1/capabilities", "ann", "")
	assert.Equal(t, 401, status)
}

// TestMetadata: a client without a token is told who issues them, if an issuer is configured.
func TestMetadata(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{Resource: "https://helm.example", Issuer: "https://id.example"}, callers, nil)
	status, _, h := f.ask("POST", "/mcp", "", `{}`)
	assert.Equal(t, 401, status)
	assert.Equal(t, `Bearer resource_metadata="https://helm.example/.well-known/oauth-protected-resource"`, h.Get("WWW-Authenticate"))
	for _, path := range []string{"", "/mcp"} {
		status, said, _ := f.ask("GET", "/.well-known/oauth-protected-resource"+path, "", "")
		assert.Equal(t, 200, status)
		assert.Contains(t, said, `"authorization_servers":["https://id.example"]`)
	}
	f = newFace(t, HandlerOptions{}, callers, nil)
	status, _, _ = f.ask("GET", "/.well-known/oauth-protected-resource", "ann", "")
	assert.Equal(t, 404, status)
}

// TestNoTokenLeaves: what begins with helm_ reaches no server, no log and no error.
func TestNoTokenLeaves(t *testing.T) {
	t.Parallel()
	f := newFace(t, HandlerOptions{}, callers, nil)
	ann, err := f.join("ann", "")
	require.NoError(t, err)
	f.call(ann, "echo", `{"text":"a"}`)
	require.NoError(t, ann.Close())
	secret := f.secrets["ann"]
	for name, text := range map[string]string{"what the server got": f.noted("in"), "its environment": f.noted("env"),
		"the log": f.logged.String()} {
		assert.NotContains(t, text, secret, name)
	}
	var entries bytes.Buffer
	f.each(func(st *contracts.Statement) { fmt.Fprintf(&entries, "%+v", *st) })
	assert.NotContains(t, entries.String(), secret)
}

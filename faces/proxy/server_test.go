package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/internal/kerneltest"
)

const serverPolicy = `
helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  read: {effect: read, input: {type: object, properties: {a: {type: number}}}}
  mail: {effect: destructive, input: {type: object, properties: {a: {type: number}}}}
  typed:
    effect: read
    input: {type: object, properties: {a: {type: number}}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  small: {effect: read, input: {type: object}, limits: {output: 1KiB}}
  hosted.web_search: {effect: read, input: {type: object, properties: {type: {type: string}}}}
  hosted.mcp:
    effect: read
    input:
      type: object
      properties: {type: {type: string}, server_label: {type: string}, server_url: {type: string},
        require_approval: {type: string}}
  srv__look: {effect: read, input: {type: object}}
rules:
  - {id: never, deny: mail, when: {arg: /a, eq: 13, absent: false}}
  - {id: most, allow: [read, typed, small, mail, hosted.web_search, hosted.mcp, srv__look]}
`

// A bureau is a proxy between an app and a provider whose answers a test writes.
type bureau struct {
	*kerneltest.World
	desk     *handoff.Desk
	proxy    *Proxy
	url      string
	upstream string // the provider
	secret   string // ann's token; empty: all are anonymous
	mu       sync.Mutex
	provider http.HandlerFunc
	asked    []inquiry // of the provider
}

// An inquiry is a request that the provider got.
type inquiry struct {
	path   string
	header http.Header
	body   string
}

func newBureau(t *testing.T, change ...func(*Options, *auth.Options)) *bureau {
	t.Helper()
	return newBureauOver(t, kerneltest.New(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, serverPolicy)
		o.Drivers = nil
		o.Keep.Outputs = true
	}), change...)
}

func newBureauOver(t *testing.T, w *kerneltest.World, change ...func(*Options, *auth.Options)) *bureau {
	t.Helper()
	b := &bureau{World: w, desk: handoff.New(w.Kernel, 0)}
	upstream := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		b.mu.Lock()
		path := r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			path += "?" + r.URL.RawQuery
		}
		b.asked = append(b.asked, inquiry{path, r.Header.Clone(), string(body)})
		p := b.provider
		b.mu.Unlock()
		p(rw, r)
	}))
	b.upstream = upstream.URL
	u := Upstream{URL: upstream.URL + "/v1"}
	o := Options{Kernel: w.Kernel, Desk: b.desk, Chat: u, Responses: u, Messages: u,
		Index: filepath.Join(t.TempDir(), "calls.idx")}
	ao := auth.Options{}
	for _, f := range change {
		f(&o, &ao)
	}
	a, err := auth.New(ao)
	require.NoError(t, err)
	o.Auth = a
	b.proxy, err = New(o)
	require.NoError(t, err)
	front := serve(t, a.Handler(b.proxy))
	t.Cleanup(func() {
		require.NoError(t, b.desk.Close(context.Background()))
		require.NoError(t, b.proxy.Close())
	})
	b.url = front.URL
	return b
}

// serve serves a handler over connections that hold little of what is written.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		assert.NoError(t, c.(*net.TCPConn).SetWriteBuffer(64<<10))
		return ctx
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// says has the provider answer with JSON.
func (b *bureau) says(format string, args ...any) {
	b.answers(http.StatusOK, "application/json", fmt.Sprintf(format, args...))
}

// streams has the provider answer with events.
func (b *bureau) streams(events ...string) {
	b.answers(http.StatusOK, "text/event-stream; charset=utf-8", strings.Join(events, ""))
}

func (b *bureau) answers(status int, media, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provider = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// last returns the request that the provider got last.
func (b *bureau) last() inquiry {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(b.T, b.asked)
	return b.asked[len(b.asked)-1]
}

func (b *bureau) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// A gotten is what the app got.
type gotten struct {
	status int
	header http.Header
	body   string
}

func (a gotten) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &v), "%s", a.body)
	return v
}

// ask has the app ask. header are names and values in turn.
func (b *bureau) ask(path, body string, header ...string) gotten {
	b.T.Helper()
	return b.do(http.MethodPost, path, body, header...)
}

func (b *bureau) do(method, path, body string, header ...string) gotten {
	b.T.Helper()
	r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	require.NoError(b.T, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.secret != "" {
		r.Header.Set("Helm-Token", b.secret)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(b.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.T, err)
	return gotten{resp.StatusCode, resp.Header, string(text)}
}

// receipts returns what the log says of calls, as "TOOL VERDICT OUTCOME" or "TOOL open".
func (b *bureau) receipts() (list []string) {
	b.T.Helper()
	done := map[contracts.Digest]string{}
	for _, st := range b.Statements() {
		if r := st.Receipt; r != nil && r.Decision == nil {
			done[r.DecisionHash] = string(r.Outcome)
		}
	}
	for i, st := range b.Statements() {
		switch {
		case st.Receipt != nil && st.Receipt.Decision != nil:
			list = append(list, st.Receipt.Decision.Tool+" "+string(st.Receipt.Outcome))
		case st.Decision != nil:
			outcome := done[b.Entry(i).Hash()]
			if outcome == "" {
				outcome = "open"
			}
			list = append(list, st.Decision.Tool+" "+outcome)
		}
	}
	return list
}

// ends settles what is open, and has the log verified.
func (b *bureau) ends() {
	b.T.Helper()
	require.NoError(b.T, b.desk.Close(context.Background()))
	b.MustVerify()
}

const (
	offered = `"tools":[{"type":"function","function":{"name":"read"}},{"type":"function",` +
		`"function":{"name":"mail"}},{"type":"function","function":{"name":"typed"}},{"type":"function",` +
		`"function":{"name":"hidden"}}]`
	question   = `{"role":"user","content":"hi"}`
	chatPath   = "/v1/chat/completions"
	proposedOK = `{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"a\": 1}"}}`
	proposedNo = `{"id":"c2","type":"function","function":{"name":"mail","arguments":"{\"a\":13}"}}`
)

func completion(calls, finish string) string {
	return `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
		`"content":null,"tool_calls":[` + calls + `]},"finish_reason":"` + finish + `"}]}`
}

// TestChatRound: of a mixed answer the app gets the allowed call alone; its result, sent back, is
// recorded before the request goes on.
func TestChatRound(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	b.says("%s", completion(proposedOK+","+proposedNo, "tool_calls"))
	a := b.ask(chatPath, `{"model":"m","messages":[`+question+`],`+offered+`}`, "Helm-Session", "s")
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, "anonymous/s", a.header.Get("Helm-Session"))
	assert.Equal(t, "1", a.header.Get("Helm-Denied"))
	assert.Equal(t, "hidden", a.header.Get("Helm-Removed"))
	assert.NotContains(t, b.last().body, "hidden")
	message := a.json(t)["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	calls := message["tool_calls"].([]any)
	require.Len(t, calls, 1)
	assert.Equal(t, map[string]any{"name": "read", "arguments": `{"a":1}`}, calls[0].(map[string]any)["function"])
	assert.Contains(t, message["content"], "[helm] ")
	assert.Equal(t, []string{"read open", "mail DENIED"}, b.receipts())

	b.says(`{"id":"y","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`)
	history := `{"role":"assistant","content":null,"tool_calls":[` + proposedOK + `]}`
	a = b.ask(chatPath, `{"messages":[`+question+`,`+history+`,{"role":"tool","tool_call_id":"c1","content":"1.10"}]}`)
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, "anonymous/s", a.header.Get("Helm-Session"), "by the id of its call")
	assert.Equal(t, []string{"read EXECUTED", "mail DENIED"}, b.receipts())
	b.ends()

	a = b.ask(chatPath, `{"messages":[`+question+`,{"role":"tool","tool_call_id":"c2","content":"ok"}]}`)
	assert.Equal(t, 400, a.status, "a result of a call that was denied")
	assert.Equal(t, "false", a.header.Get("X-Should-Retry"))
}

// TestOnDeny: with 403 no part of an answer with a denied call is passed on, and no permission is
// left.
func TestOnDeny(t *testing.T) {
	t.Parallel()
	stream := []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"secret\"},\"finish_reason\":null}]}\n\n",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function",` +
			`"function":{"name":"read","arguments":"{}"}},{"index":1,"id":"c2","type":"function",` +
			"\"function\":{\"name\":\"mail\",\"arguments\":\"{\\\"a\\\":13}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
		"data: [DONE]\n\n"}
	for _, mode := range []string{"plain", "stream"} {
		b := newBureau(t)
		b.says("%s", completion(proposedOK+","+proposedNo, "tool_calls"))
		if mode == "stream" {
			b.streams(stream...)
		}
		a := b.ask(chatPath, `{"messages":[`+question+`],`+offered+`}`, "Helm-On-Deny", "403")
		assert.Equal(t, 403, a.status, "%s: %s", mode, a.body)
		assert.NotContains(t, a.body, "secret")
		e := a.json(t)
		assert.Equal(t, "POLICY_VIOLATION", e["error"].(map[string]any)["code"], a.body)
		assert.Len(t, e["helm"].(map[string]any)["calls"], 2)
		assert.Equal(t, []string{"read INDETERMINATE", "mail DENIED"}, b.receipts())
		a = b.ask(chatPath, `{"messages":[`+question+`]}`, "Helm-On-Deny", "maybe")
		assert.Equal(t, 400, a.status)
		b.ends()
	}
}

// TestStream: events reach the app as they come, and a call only when it is judged.
func TestStream(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	pushed := make(chan string)
	b.mu.Lock()
	b.provider = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for s := range pushed {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
	}
	b.mu.Unlock()
	r, err := http.NewRequest(http.MethodPost, b.url+"/v1/messages",
		strings.NewReader(`{"messages":[`+question+`],"stream":true,"tools":[{"name":"read","input_schema":{}},`+
			`{"name":"mail","input_schema":{}}]}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	got := make(chan *http.Response, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(r)
		assert.NoError(t, err)
		got <- resp
	}()
	event := func(kind, rest string) {
		pushed <- "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","content":[]}`)
	resp := <-got
	defer resp.Body.Close()
	in := &frames{r: bufio.NewReader(resp.Body), most: 1 << 20}
	next := func() string {
		e, err := in.next()
		require.NoError(t, err)
		return e.event + " " + string(e.data)
	}
	assert.Contains(t, next(), "message_start")
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	assert.Contains(t, next(), "content_block_start")
	event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"now"}`)
	assert.Contains(t, next(), "now")
	event("content_block_stop", `,"index":0`)
	assert.Contains(t, next(), "content_block_stop")
	event("content_block_start", `,"index":1,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}`)
	event("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\": 2}"}`)
	event("content_block_stop", `,"index":1`)
	event("ping", "")
	assert.Contains(t, next(), "ping", "no event of the call")
	event("message_delta", `,"delta":{"stop_reason":"tool_use"},"usage":{}`)
	assert.Contains(t, next(), "tool_use")
	assert.Equal(t, []string{"read open"}, b.receipts(), "durable before it is released")
	assert.Contains(t, next(), `{\"a\":2}`)
	next()
	assert.Contains(t, next(), `"helm"`)
	event("message_stop", "")
	assert.Contains(t, next(), "message_stop")
	close(pushed)
	b.ends()
}

// TestFailedAnswers: what is not understood is not passed on, and leaves no permission.
func TestFailedAnswers(t *testing.T) {
	t.Parallel()
	ok := completion(proposedOK, "tool_calls")
	call := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function",` +
		"\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]},\"finish_reason\":null}]}\n\n"
	for name, f := range map[string]func(w http.ResponseWriter){
		"HTML":    func(w http.ResponseWriter) { write(w, 200, "text/html", ok) },
		"no type": func(w http.ResponseWriter) { write(w, 200, "", ok) },
		"201":     func(w http.ResponseWriter) { write(w, 201, "application/json", ok) },
		"204":     func(w http.ResponseWriter) { write(w, 204, "application/json", "") },
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			write(w, 307, "application/json", ok)
		},
		"an encoded answer": func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			write(w, 200, "application/json", ok)
		},
		"no JSON":                 func(w http.ResponseWriter) { write(w, 200, "application/json", ok[:len(ok)-1]) },
		"an error with an answer": func(w http.ResponseWriter) { write(w, 400, "application/json", ok) },
		"an error that streams":   func(w http.ResponseWriter) { write(w, 500, "text/event-stream", call) },
		"calls at [DONE]": func(w http.ResponseWriter) {
			write(w, 200, "text/event-stream",
				call+"data: [DONE]\n\n")
		},
		"an end without a finish": func(w http.ResponseWriter) { write(w, 200, "text/event-stream", call) },
		"an error of more than 1 MiB": func(w http.ResponseWriter) {
			write(w, 400, "application/json", `{"error":"`+strings.Repeat("a", 1<<20)+`"}`)
		},
	} {
		b := newBureau(t)
		b.mu.Lock()
		b.provider = func(w http.ResponseWriter, _ *http.Request) { f(w) }
		b.mu.Unlock()
		a := b.ask(chatPath, `{"messages":[`+question+`],`+offered+`}`)
		assert.Equal(t, 502, a.status, "%s: %s", name, a.body)
		assert.NotContains(t, a.body, "c1", name)
		assert.Equal(t, "false", a.header.Get("X-Should-Retry"), name)
		for _, r := range b.receipts() {
			assert.NotContains(t, r, "open", name)
		}
		b.ends()
	}
}

func write(w http.ResponseWriter, status int, media, body string) {
	w.Header().Set("Content-Type", media)
	if media == "" {
		w.Header()["Content-Type"] = nil
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// TestErrorsPass: an error of the provider reaches the app byte for byte.
func TestErrorsPass(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	b.mu.Lock()
	b.provider = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Request-Id", "r")
		w.Header().Set("Set-Cookie", "a=b")
		write(w, 429, "application/json", `{ "error" : {"message":"slow"} }`)
	}
	b.mu.Unlock()
	a := b.ask(chatPath, `{"messages":[`+question+`]}`)
	assert.Equal(t, 429, a.status)
	assert.Equal(t, `{ "error" : {"message":"slow"} }`, a.body)
	assert.Equal(t, "7", a.header.Get("Retry-After"))
	assert.Equal(t, "r", a.header.Get("X-Request-Id"))
	assert.Empty(t, a.header.Get("Set-Cookie"))
}

// TestPaths: a path, a method and a body that no table has reach no provider.
func TestPaths(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	b.says(`{}`)
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/responses/resp_1", "", 404}, {"DELETE", "/v1/chat/completions/c", "", 404},
		{"POST", "/v1/responses/r/cancel", "{}", 404}, {"POST", "/v1/batches", "{}", 404},
		{"GET", "/v1/realtime", "", 404}, {"POST", "/v1/files", "{}", 404}, {"POST", "/v1/assistants", "{}", 404},
		{"GET", "/v1/models/..%2Fresponses", "", 404}, {"GET", "/v1/models/a%2Fb", "", 404},
		{"GET", "/v1/models/%2e%2e", "", 404}, {"GET", "/v1/models/" + strings.Repeat("a", 129), "", 404},
		{"GET", chatPath, "", 405}, {"POST", "/v1/models", "{}", 405}, {"PUT", "/v1/embeddings", "{}", 405},
		{"POST", chatPath, `[]`, 400}, {"POST", chatPath, `{"messages":[],"messages":[]}`, 400},
		{"POST", chatPath, `{"messages":[],"messa\u0067es":[]}`, 400},
		{"POST", "/v1/responses", `{"input":"a","background":true}`, 400},
		{"POST", "/v1/responses", `{"input":"a","conversation":"c"}`, 400},
		{"POST", "/v1/embeddings", `{"a":1,"a":2}`, 400},
	} {
		a := b.do(x.method, x.path, x.body)
		assert.Equal(t, x.status, a.status, "%s %s: %s", x.method, x.path, a.body)
	}
	r, err := http.NewRequest(http.MethodPost, b.url+chatPath, strings.NewReader(`{"messages":[]}`))
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 415, resp.StatusCode)
	assert.Zero(t, b.count(), "what the provider was asked")

	a := b.do("GET", "/v1/models/gpt-5.2:tuned", "")
	assert.Equal(t, 200, a.status)
	assert.Equal(t, "/v1/models/gpt-5.2:tuned", b.last().path)
	a = b.ask("/v1/embeddings", ` {"model" : "e","input":"a"}`)
	assert.Equal(t, 200, a.status)
	assert.Equal(t, ` {"model" : "e","input":"a"}`, b.last().body)
	b.says(`{"choices":[]}`)
	assert.Equal(t, 502, b.ask("/v1/embeddings", `{}`).status, "an answer in place of numbers")
	b.says(`{"input_tokens":1}`)
	a = b.ask("/v1/messages/count_tokens", `{"messages":[],"tools":[{"type":"web_search_20250305",`+
		`"name":"web_search"},{"name":"read","input_schema":{}}]}`)
	assert.Equal(t, 200, a.status)
	assert.NotContains(t, b.last().body, "web_search")
	assert.Contains(t, b.last().body, "read")
	assert.Empty(t, b.receipts(), "nothing is judged")
}

// tokens returns options with tokens of ann and bob.
func tokens(t *testing.T, scopes ...auth.Scope) (secrets map[string]string, change func(*Options, *auth.Options)) {
	t.Helper()
	secrets = map[string]string{}
	var list []auth.Token
	for _, name := range []string{"ann", "bob"} {
		secret, token, err := auth.NewToken(name, contracts.Caller{ID: name, Tenant: "acme"}, append(scopes,
			auth.Call), time.Time{})
		require.NoError(t, err)
		secrets[name], list = secret, append(list, token)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(file, auth.FormatTokens(list), 0o600))
	opened, err := auth.OpenTokens(file)
	require.NoError(t, err)
	return secrets, func(_ *Options, o *auth.Options) { o.Tokens = opened }
}

// TestSecrets: a token of HELM goes nowhere, and the provider's key to the provider alone.
func TestSecrets(t *testing.T) {
	t.Parallel()
	secrets, with := tokens(t)
	b := newBureau(t, with)
	b.says(`{"data":[]}`)
	b.secret = secrets["ann"]
	a := b.do("GET", "/v1/models", "", "Authorization", "Bearer sk-own", "Cookie", "a=b", "X-Api-Key", secrets["ann"],
		"OpenAI-Organization", secrets["ann"], "User-Agent", "app "+secrets["ann"], "X-Stainless-Os", "x",
		"X-Other", "y")
	require.Equal(t, 200, a.status, a.body)
	h := b.last().header
	assert.Equal(t, "Bearer sk-own", h.Get("Authorization"))
	assert.Equal(t, "x", h.Get("X-Stainless-Os"))
	for _, name := range []string{"Cookie", "X-Other", "Helm-Token", "X-Api-Key", "Openai-Organization", "User-Agent"} {
		assert.Empty(t, h.Values(name), name)
	}
	all, err := json.Marshal(h)
	require.NoError(t, err)
	assert.NotContains(t, string(all), "helm_")

	b = newBureau(t, with, func(o *Options, _ *auth.Options) {
		o.Chat.Key = func() (string, error) { return "sk-configured", nil }
		o.Messages.Key = o.Chat.Key
	})
	b.says(`{"data":[]}`)
	a = b.do("GET", "/v1/models", "", "Authorization", "Bearer "+secrets["ann"])
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, "Bearer sk-configured", b.last().header.Get("Authorization"))
	a = b.do("GET", "/v1/models", "", "X-Api-Key", secrets["ann"], "Anthropic-Version", "2023-06-01")
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, "sk-configured", b.last().header.Get("X-Api-Key"))
	assert.Empty(t, b.last().header.Get("Authorization"))
	assert.Equal(t, 401, b.do("GET", "/v1/models", "", "Authorization", "Bearer sk-own").status)
}

// TestSessions: a call belongs to a session of its caller, and nobody else's answers count.
func TestSessions(t *testing.T) {
	t.Parallel()
	secrets, with := tokens(t)
	b := newBureau(t, with)
	b.says("%s", completion(proposedOK, "tool_calls"))
	body := `{"messages":[` + question + `],` + offered + `}`
	a := b.ask(chatPath, body, "Helm-Token", secrets["ann"])
	require.Equal(t, 200, a.status, a.body)
	session := a.header.Get("Helm-Session")
	assert.Regexp(t, `^[0-9a-f]{12}/p-[a-z2-7]{26}$`, session)
	result := func(id string) string {
		return `{"messages":[{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function",` +
			`"function":{"name":"read",` +
			`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"1"}]}`
	}
	a = b.ask(chatPath, result("c1"), "Helm-Token", secrets["bob"])
	assert.NotEqual(t, session, a.header.Get("Helm-Session"))
	assert.Regexp(t, `^[0-9a-f]{12}/c-[0-9a-f]{32}$`, a.header.Get("Helm-Session"), "an id that nobody knows")
	assert.Equal(t, "read open", b.receipts()[0], "bob reports nothing of ann's")
	a = b.ask(chatPath, result("c1"), "Helm-Token", secrets["ann"], "Helm-Session", "other")
	assert.Equal(t, "read open", b.receipts()[0], "a result is of its session")
	a = b.ask(chatPath, result("c1"), "Helm-Token", secrets["ann"])
	assert.Equal(t, session, a.header.Get("Helm-Session"))
	assert.Equal(t, "read EXECUTED", b.receipts()[0])

	strict := newBureau(t, with, func(_ *Options, o *auth.Options) { o.SessionRequired = true })
	strict.says("%s", completion(proposedOK, "tool_calls"))
	strict.secret = secrets["ann"]
	assert.Equal(t, 400, strict.ask(chatPath, body).status)
	assert.Equal(t, 400, strict.ask(chatPath, result("c9")).status)
	assert.Equal(t, 400, strict.ask(chatPath, result("c9"), "Helm-Session", "s").status, "an unknown call")
	assert.Equal(t, 200, strict.ask(chatPath, body, "Helm-Session", "s").status)
	assert.Equal(t, 200, strict.ask(chatPath, result("c1")).status, "by the id of its call")
	b.ends()
	strict.ends()
}

// TestRepeatedIDs: a call whose id was there before gets another, so that a result is of one call.
func TestRepeatedIDs(t *testing.T) {
	t.Parallel()
	b := newBureau(t)
	b.says("%s", completion(proposedOK, "tool_calls"))
	body := `{"messages":[` + question + `],` + offered + `}`
	first := b.ask(chatPath, body)
	second := b.ask(chatPath, body)
	assert.Contains(t, first.body, `"c1"`)
	assert.NotContains(t, second.body, `"id":"c1"`)
	assert.Contains(t, second.body, `"id":"call_`)
	b.ends()

	b = newBureau(t)
	b.says("%s", completion(proposedOK, "tool_calls"))
	var own atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if strings.Contains(b.ask(chatPath, body).body, `"id":"c1","type"`) {
				own.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, own.Load(), "at once")
	b.ends()
}

// TestUserWords: what a request says is the user's counts with the scope alone.
func TestUserWords(t *testing.T) {
	t.Parallel()
	secrets, with := tokens(t, auth.User)
	b := newBureau(t, with)
	b.says("%s", completion("", "stop"))
	b.secret = secrets["ann"]
	body := `{"messages":[{"role":"user","content":[{"type":"text","text":"pay GB1"}]}]}`
	require.Equal(t, 200, b.ask(chatPath, body, "Helm-User", "last", "Helm-Session", "s").status)
	require.Equal(t, 200, b.ask(chatPath, body, "Helm-User", "last", "Helm-Session", "s").status)
	words := 0
	for _, st := range b.Statements() {
		if st.Message != nil {
			words++
		}
	}
	assert.Equal(t, 1, words, "once")
	assert.Equal(t, 400, b.ask(chatPath, body, "Helm-User", "all").status)

	anonymous := newBureau(t)
	anonymous.says("%s", completion("", "stop"))
	assert.Equal(t, 403, anonymous.ask(chatPath, body, "Helm-User", "last").status)
	assert.Zero(t, anonymous.count())
}

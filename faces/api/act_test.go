package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
)

const actPolicy = `
helm: policy/v1
layer: P1
bundle: {name: act, version: 1}
tools:
  here: {effect: read, input: {type: object, properties: {n: {type: number}, text: {type: string}}}}
  typed:
    effect: read
    input: {type: object, properties: {}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  mail:
    effect: destructive
    risk: low
    input: {type: object, properties: {to: {type: string}, n: {type: number, default: 1}}}
    sandbox: reported
  asked: {effect: write, input: {type: object, properties: {to: {type: string}}}, sandbox: reported}
  free: {effect: read, input: {type: object, properties: {}}}
  never: {effect: read, input: {type: object, properties: {}}}
rules:
  - {id: most, allow: [here, typed, mail, asked, free]}
requires:
  - {id: owner, tools: asked, all: [{approval: {roles: [owner], ttl: 1h}}]}
`

// noApprovers are approvals that nobody answers.
type noApprovers struct{}

func (noApprovers) Pending(context.Context) ([]state.Pending, error) { return nil, nil }
func (noApprovers) Get(context.Context, string) (state.Pending, error) {
	return state.Pending{}, state.ErrNoRequest
}
func (noApprovers) Answer(context.Context, string, contracts.Envelope) error {
	return state.ErrNoRequest
}
func (noApprovers) Ask(*contracts.ApprovalRequest, json.RawMessage) (string, error) {
	return "", state.ErrTooMany
}
func (noApprovers) For(context.Context, helm.Caller, string, string, []byte, contracts.Digest) []helm.Envelope {
	return nil
}

var (
	clerk     = helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}
	colleague = helm.Caller{ID: "bob", Tenant: "acme"}
	stranger  = helm.Caller{ID: "ann", Tenant: "evil"}
)

// An actor is a face that acts, with tokens of ann, bob, and one of the same name elsewhere.
type actor struct {
	*face
	desk          *handoff.Desk
	ann, bob, eve string
	dir           string // of helm.yaml, if there is one
}

// newActor makes an actor over a log in memory.
func newActor(t *testing.T, change ...func(*Options, *auth.Options)) *actor {
	t.Helper()
	return actorOver(t, kerneltest.New(t, func(o *helm.Options) {
		o.Policy, o.Trust = kerneltest.Compile(t, actPolicy), kerneltest.Governors(t)
		o.Drivers = map[string]executor.Driver{"here": o.Drivers["echo"], "typed": o.Drivers["echo"],
			"never": o.Drivers["echo"]}
	}), change...)
}

func actorOver(t *testing.T, w *kerneltest.World, change ...func(*Options, *auth.Options)) *actor {
	t.Helper()
	x := &actor{desk: handoff.New(w.Kernel, 0)}
	o := Options{Kernel: w.Kernel, Store: w.Store, Key: w.Key, Desk: x.desk, Approvals: noApprovers{}}
	x.face = &face{World: w}
	x.open(t, o, change...)
	t.Cleanup(func() { _ = o.Desk.Close(context.Background()) })
	return x
}

// open makes the handler, with the tokens.
func (x *actor) open(t *testing.T, o Options, change ...func(*Options, *auth.Options)) {
	t.Helper()
	var list []auth.Token
	for _, one := range []struct {
		secret *string
		c      helm.Caller
	}{{&x.ann, clerk}, {&x.bob, colleague}, {&x.eve, stranger}} {
		secret, entry := token(t, one.c, auth.Call, auth.Read, auth.Approve, auth.Inputs, auth.Admin)
		*one.secret = secret
		list = append(list, entry)
	}
	name := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(name, auth.FormatTokens(list), 0o600))
	tokens, err := auth.OpenTokens(name)
	require.NoError(t, err)
	who := auth.Options{Tokens: tokens}
	for _, f := range change {
		f(&o, &who)
	}
	o.Auth, err = auth.New(who)
	require.NoError(t, err)
	h, err := New(o)
	require.NoError(t, err)
	x.options, x.Handler = o, o.Auth.Handler(h)
	x.desk = o.Desk
}

// send makes a request with a body, and requires that the answer is valid.
func (f *face) send(secret, method, target, body string, change ...func(*http.Request)) answer {
	f.T.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("Helm-Token", secret)
	}
	for _, g := range change {
		g(r)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	valid(f.T, r, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	return answer{f.T, w.Code, w.Header(), w.Body.String()}
}

// members are those of an answer.
func (a answer) members() map[string]any {
	a.t.Helper()
	var v map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &v), a.body)
	return v
}

// is requires a status.
func (a answer) is(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.body)
	return a
}

// wished is the body of a request to guard a call.
func wished(tool, args string, more ...any) string {
	v := map[string]any{"tool": tool, "arguments": args, "session": "s"}
	for i := 0; i < len(more); i += 2 {
		v[more[i].(string)] = more[i+1]
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// receiptOf requires that an error of a denied call names a receipt of the log, a denial.
func (x *actor) receiptOf(a answer) contracts.Receipt {
	x.T.Helper()
	var v struct {
		Helm struct {
			Calls []struct{ Receipt auth.ToldReceipt }
		}
	}
	require.NoError(x.T, json.Unmarshal([]byte(a.body), &v))
	require.Len(x.T, v.Helm.Calls, 1, a.body)
	ref := v.Helm.Calls[0].Receipt
	e := x.Entry(ref.Index)
	require.Equal(x.T, e.Hash(), ref.Hash)
	sealed, err := new(contracts.Reader).Open(e)
	require.NoError(x.T, err)
	st, err := sealed.Statement()
	require.NoError(x.T, err)
	require.NotNil(x.T, st.Receipt)
	require.Equal(x.T, contracts.Denied, st.Receipt.Outcome)
	return *st.Receipt
}

// permit hands a call over, and returns its id.
func (x *actor) permit(secret, body string) string {
	x.T.Helper()
	return x.send(secret, "POST", "/api/v1/guard", body).is(201).members()["call"].(string)
}

func TestGuardHere(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	for _, c := range []struct {
		tool   string
		does   kerneltest.Tool
		output any
		code   string
		failed bool
	}{
		{"here", kerneltest.ReturnsArgs, `{"n":1}`, "", false},
		{"here", kerneltest.Returns("\xff", nil), "/w==", "base64", false},
		{"here", kerneltest.Returns("", kerneltest.ErrTool), nil, "", true},
		{"typed", kerneltest.Returns(`{"ok":1}`, nil), nil, "", true},
		{"here", func(context.Context, contracts.Call) (executor.Result, error) { panic("secret") }, nil, "", true},
	} {
		x.Tool = c.does
		args := `{"n":1.0}`
		if c.tool == "typed" {
			args = `{}`
		}
		a := x.send(x.ann, "POST", "/api/v1/guard", wished(c.tool, args)).is(200)
		v := a.members()
		assert.Equal(t, c.output, v["output"], a.body)
		assert.Equal(t, c.output != nil, v["released"], a.body)
		assert.Equal(t, c.failed, v["failed"], a.body)
		if c.code != "" {
			assert.Equal(t, c.code, v["encoding"])
		}
		assert.Equal(t, auth.SessionName(clerk, "s"), v["session"])
		assert.Equal(t, v["session"], a.header.Get("Helm-Session"))
		assert.NotContains(t, a.body, "secret")
	}
}

// TestGuardDenies: what is wrong with the arguments, the tool or the session is for the kernel to
// deny, with a receipt, and 403 says that it did not run.
func TestGuardDenies(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	for _, c := range []struct {
		tool, args string
		reason     contracts.ReasonCode
	}{
		{"here", `{"n":1,"n":2}`, contracts.ReasonArgsCanonicalization},
		{"here", `{"n":1,"\u006e":2}`, contracts.ReasonArgsCanonicalization},
		{"here", `{"n":1`, contracts.ReasonArgsCanonicalization},
		{"here", ``, contracts.ReasonArgsCanonicalization},
		{"here", `[]`, contracts.ReasonArgsCanonicalization},
		{"here", `{"n":1e400}`, contracts.ReasonArgsCanonicalization},
		{"here", `{"n":9007199254740993}`, contracts.ReasonArgsCanonicalization},
		{"here", `{"text":"\ud800"}`, contracts.ReasonArgsCanonicalization},
		{"here", `{"N":1}`, contracts.ReasonSchemaViolation},
		{"here", `{"approved":true}`, contracts.ReasonSchemaViolation},
		{"nothing", `{}`, contracts.ReasonToolNotFound},
		{"no tool", `{}`, contracts.ReasonIntentMalformed},
		{"never", `{}`, contracts.ReasonNoPolicyDefined},
		{"free", `{}`, contracts.ReasonDriverNotBound},
		{"mail", `{}`, contracts.ReasonSandboxViolation},
		{"asked", `{}`, contracts.ReasonSandboxViolation},
	} {
		for _, run := range []string{"here", "caller"} {
			if run == "caller" && slices.Contains([]string{"mail", "asked", "free"}, c.tool) {
				continue
			}
			a := x.send(x.ann, "POST", "/api/v1/guard", wished(c.tool, c.args, "run", run))
			r := x.receiptOf(a.fails(403, string(x.reasonOf(a))))
			assert.Equal(t, r.Decision.Reason, x.reasonOf(a))
			if run == "here" {
				assert.Equal(t, c.reason, r.Decision.Reason, "%s %s: %s", c.tool, c.args, a.body)
			}
			assert.Equal(t, clerk, r.Decision.Caller)
			assert.Equal(t, "1", a.header.Get("Helm-Denied"))
		}
	}
	assert.Zero(t, x.Runs.Load())
	assert.Empty(t, x.desk.Tickets())
	x.MustVerify()
}

func (x *actor) reasonOf(a answer) contracts.ReasonCode {
	x.T.Helper()
	var v struct {
		Error struct{ Code contracts.ReasonCode }
	}
	require.NoError(x.T, json.Unmarshal([]byte(a.body), &v))
	return v.Error.Code
}

// TestGuardMalformed: a request that is no wish is not judged, and nobody names themselves, their
// roles, their tenant, or two sessions.
func TestGuardMalformed(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	before := x.Size()
	for _, body := range []string{
		``, `[]`, `null`, `{}`, `{"tool":"here"}`, `{"arguments":"{}"}`, `{"tool":"","arguments":"{}"}`,
		`{"tool":"here","arguments":{}}`, `{"tool":"here","arguments":null}`, `{"tool":1,"arguments":"{}"}`,
		`{"tool":"here","arguments":"{}","arguments":"{}"}`, `{"tool":"here","\u0074ool":"never","arguments":"{}"}`,
		`{"Tool":"here","arguments":"{}"}`, `{"tool":"here","arguments":"{}"} {}`,
		`{"tool":"here","arguments":"\ud800"}`,
		wished("here", "{}", "caller", "bob"), wished("here", "{}", "caller", map[string]any{"id": "bob"}),
		wished("here", "{}", "roles", []string{"admin"}), wished("here", "{}", "tenant", "evil"),
		wished("here", "{}", "session", ""), wished("here", "{}", "run", "there"), wished("here", "{}", "run", ""),
		wished("here", "{}", "idempotency", ""), wished("here", "{}", "definition", strings.Repeat("0", 64)),
		wished("here", "{}", "run", "caller", "definition", "x"),
		wished("here", "{}", "after", []any{map[string]any{"index": 1}}),
		wished("here", "{}", "after", []any{map[string]any{"index": 1, "hash": strings.Repeat("0", 64), "x": 1}}),
		wished("here", "{}", "after", []any{map[string]any{"Index": 1, "hash": strings.Repeat("0", 64)}}),
		`{"tool":"here","arguments":"{}","idempotency":"k"}`,
	} {
		x.send(x.ann, "POST", "/api/v1/guard", body).fails(400, "helm_bad_request")
	}
	x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}"), func(r *http.Request) {
		r.Header.Set("Helm-Session", "t")
	}).fails(400, "helm_bad_request")
	x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}"), func(r *http.Request) {
		r.Header.Set("Content-Type", "text/plain")
	}).fails(415, "helm_unsupported_media_type")
	long := wished("here", strings.Repeat(" ", 33<<20))
	x.send(x.ann, "POST", "/api/v1/guard", long).fails(413, "helm_too_large")
	assert.Equal(t, before, x.Size(), "something was judged")
	assert.Zero(t, x.Runs.Load())
}

// TestAnothersSession: a name that is another caller's is one's own, of that name.
func TestAnothersSession(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	theirs := auth.SessionName(colleague, "s")
	a := x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}", "session", theirs)).is(200)
	assert.Equal(t, auth.SessionName(clerk, theirs), a.members()["session"])
	assert.NotEqual(t, theirs, a.members()["session"])
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	a := x.send(x.ann, "POST", "/api/v1/guard", wished("mail", ` {"to": "b"}`, "run", "caller")).is(201)
	v := a.members()
	assert.Equal(t, `{"n":1,"to":"b"}`, v["arguments"])
	call := v["call"].(string)
	list := x.send(x.ann, "GET", "/api/v1/calls", "").is(200)
	assert.Contains(t, list.body, call)
	assert.Contains(t, list.body, v["expires"])
	path := "/api/v1/calls/" + call
	for _, other := range []string{x.bob, x.eve} {
		x.send(other, "POST", path+"/outcome", `{"output":"x"}`).fails(404, "helm_not_found")
		x.send(other, "DELETE", path, "").fails(404, "helm_not_found")
		assert.Equal(t, []any{}, x.send(other, "GET", "/api/v1/calls", "").is(200).members()["items"])
	}
	first := x.send(x.ann, "POST", path+"/outcome", `{"output":"{\"id\": 7}"}`).is(200).members()
	assert.Equal(t, true, first["recorded"])
	assert.Equal(t, "EXECUTED", first["outcome"])
	assert.Equal(t, true, first["released"])
	for _, again := range []string{`{"output":"another"}`, `{"error":"it failed"}`} {
		second := x.send(x.ann, "POST", path+"/outcome", again).is(200).members()
		assert.Equal(t, false, second["recorded"])
		assert.Equal(t, first["receipt"], second["receipt"])
		assert.Equal(t, "EXECUTED", second["outcome"])
	}
	assert.Equal(t, first["receipt"], x.send(x.ann, "DELETE", path, "").is(200).members()["receipt"])
	assert.Equal(t, []any{}, x.send(x.ann, "GET", "/api/v1/calls", "").is(200).members()["items"])
	for _, id := range []string{strings.Repeat("0", 64), "x", "%2e%2e", strings.ToUpper(call)} {
		x.send(x.ann, "POST", "/api/v1/calls/"+id+"/outcome", `{"output":"x"}`).fails(404, "helm_not_found")
		x.send(x.ann, "DELETE", "/api/v1/calls/"+id, "").fails(404, "helm_not_found")
	}
	x.MustVerify()
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	pinned := strings.Replace(actPolicy, "  never:", "  form: {effect: read, input: {type: object, properties: {}}, "+
		"output: {type: object, required: [ok], properties: {ok: {type: boolean}}}}\n  never:", 1)
	pinned = strings.NewReplacer("version: 1", "version: 2", "allow: [here,", "allow: [form, here,").Replace(pinned)
	require.NoError(t, x.Kernel.Swap(t.Context(), kerneltest.Compile(t, pinned)))
	for _, c := range []struct {
		tool, body, outcome string
		reason              contracts.ReasonCode
		released            bool
	}{
		{"mail", `{"output":""}`, "EXECUTED", contracts.ReasonAllow, true},
		{"mail", `{"output":"1.10","raw":true}`, "EXECUTED", contracts.ReasonAllow, true},
		{"mail", `{"output":"/w==","encoding":"base64"}`, "EXECUTED", contracts.ReasonAllow, true},
		{"mail", `{"output":"no such box","failed":true}`, "FAILED", contracts.ReasonToolError, true},
		{"mail", `{"error":"no such box"}`, "FAILED", contracts.ReasonToolError, false},
		{"mail", `{"error":""}`, "FAILED", contracts.ReasonToolError, false},
		{"form", `{"output":"{\"ok\":true}"}`, "EXECUTED", contracts.ReasonAllow, true},
		{"form", `{"output":"{\"ok\":1}"}`, "WITHHELD", contracts.ReasonContractDrift, false},
		{"form", `{"output":"{\"ok\":true,\"ok\":true}"}`, "WITHHELD", contracts.ReasonContractDrift, false},
	} {
		path := "/api/v1/calls/" + x.permit(x.ann, wished(c.tool, "{}", "run", "caller"))
		for _, wrong := range []string{
			``, `{}`, `[]`, `{"output":null}`, `{"output":{}}`, `{"output":"a","error":"b"}`, `{"error":"b","raw":true}`,
			`{"error":"b","failed":true}`, `{"output":"a","output":"b"}`, `{"output":"a","Output":"b"}`,
			`{"output":"/w=","encoding":"base64"}`, `{"output":"/w==\n","encoding":"base64"}`,
			`{"output":"a","encoding":"utf-8"}`, `{"output":"a","verdict":"ALLOW"}`, `{"error":"a","encoding":"base64"}`,
		} {
			x.send(x.ann, "POST", path+"/outcome", wrong).fails(400, "helm_bad_request")
		}
		v := x.send(x.ann, "POST", path+"/outcome", c.body).is(200).members()
		assert.Equal(t, c.outcome, v["outcome"], c.body)
		assert.Equal(t, string(c.reason), v["reason"], c.body)
		assert.Equal(t, c.released, v["released"], c.body)
		assert.Equal(t, true, v["recorded"], c.body)
	}
	path := "/api/v1/calls/" + x.permit(x.ann, wished("mail", "{}", "run", "caller"))
	gone := x.send(x.ann, "DELETE", path, "").is(200).members()
	assert.Equal(t, "INDETERMINATE", gone["outcome"])
	late := x.send(x.ann, "POST", path+"/outcome", `{"output":"x"}`).is(200).members()
	assert.Equal(t, false, late["recorded"], "an outcome after a drop")
	assert.Equal(t, gone["receipt"], late["receipt"])
	assert.Equal(t, string(contracts.ReasonToolCanceled), late["reason"])
	x.MustVerify()
}

// TestOneEffect: a request that is sent again, because its answer was lost, permits nothing twice.
func TestOneEffect(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	body := wished("mail", "{}", "run", "caller", "idempotency", "k")
	call := x.permit(x.ann, body)
	assert.Equal(t, call, x.permit(x.ann, body))
	x.send(x.ann, "POST", "/api/v1/calls/"+call+"/outcome", `{"output":"sent"}`).is(200)
	again := x.send(x.ann, "POST", "/api/v1/guard", body)
	assert.NotEqual(t, 201, again.status, "permitted twice")
	x.send(x.ann, "POST", "/api/v1/guard", wished("mail", `{"to":"x"}`, "run", "caller", "idempotency", "k")).
		fails(403, string(contracts.ReasonIdempotencyConflict))
	assert.Empty(t, x.desk.Tickets())
	x.MustVerify()
}

// A cutOff is the writer of a client that leaves when it is written to.
type cutOff struct {
	http.ResponseWriter
	leave func()
	err   error
}

func (c *cutOff) Write(b []byte) (int, error) {
	c.leave()
	if c.err != nil {
		return 0, c.err
	}
	return c.ResponseWriter.Write(b)
}

// TestRequestEnds: a call whose request ends before it is decided is denied. A permission that
// reached nobody is dropped, unless the same request can get it again.
func TestRequestEnds(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, run := range []string{"here", "caller"} {
		a := x.send(x.ann, "POST", "/api/v1/guard", wished("mail", "{}", "run", run), func(r *http.Request) {
			*r = *r.WithContext(ended)
		})
		assert.Equal(t, 403, a.status, a.body)
		x.receiptOf(a)
	}
	for _, key := range []string{"", "k"} {
		for _, err := range []error{nil, http.ErrHandlerTimeout} {
			ctx, leave := context.WithCancel(t.Context())
			body := wished("mail", "{}", "run", "caller")
			if key != "" {
				body = wished("mail", "{}", "run", "caller", "idempotency", key)
			}
			r := httptest.NewRequest("POST", "http://127.0.0.1/api/v1/guard", strings.NewReader(body)).WithContext(ctx)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Helm-Token", x.ann)
			x.ServeHTTP(&cutOff{httptest.NewRecorder(), leave, err}, r)
			if key == "" {
				assert.Empty(t, x.desk.Tickets(), "a permission that nobody has")
			} else {
				assert.Len(t, x.desk.Tickets(), 1, "the same request gets it again")
				assert.Equal(t, x.desk.Tickets()[0].ID(), x.permit(x.ann, body))
			}
		}
	}
	call := x.desk.Tickets()[0].ID()
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", "http://127.0.0.1/api/v1/calls/"+call+"/outcome", strings.NewReader(`{"output":"x"}`))
	r = r.WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Helm-Token", x.ann)
	x.ServeHTTP(&cutOff{httptest.NewRecorder(), leave, nil}, r)
	v := x.send(x.ann, "POST", "/api/v1/calls/"+call+"/outcome", `{"output":"y"}`).is(200).members()
	assert.Equal(t, "EXECUTED", v["outcome"], "a report that nobody heard was confirmed is lost")
	assert.Equal(t, false, v["recorded"])
	x.MustVerify()
}

// TestTooManyDenials: a caller who was denied too often is refused unjudged, and others are not.
func TestTooManyDenials(t *testing.T) {
	t.Parallel()
	x := newActor(t, func(_ *Options, o *auth.Options) { o.Denials = 2 })
	for range 2 {
		x.send(x.ann, "POST", "/api/v1/guard", wished("never", "{}")).is(403)
	}
	before := x.Size()
	for _, run := range []string{"here", "caller"} {
		a := x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}", "run", run)).is(503)
		assert.NotEmpty(t, a.header.Get("Retry-After"))
	}
	assert.Equal(t, before, x.Size())
	x.send(x.bob, "POST", "/api/v1/guard", wished("here", "{}")).is(200)
}

// TestDeskIsFull: with as many open calls as may be nothing is judged.
func TestDeskIsFull(t *testing.T) {
	t.Parallel()
	x := newActor(t, func(o *Options, _ *auth.Options) { o.Desk = handoff.New(o.Kernel, 1) })
	call := x.permit(x.ann, wished("mail", "{}", "run", "caller"))
	before := x.Size()
	a := x.send(x.bob, "POST", "/api/v1/guard", wished("mail", "{}", "run", "caller")).is(503)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	assert.Equal(t, before, x.Size())
	x.send(x.ann, "DELETE", "/api/v1/calls/"+call, "").is(200)
	x.permit(x.bob, wished("mail", "{}", "run", "caller"))
	assert.NoError(t, x.desk.Close(t.Context()))
}

// TestStoreFails: whichever append fails, an answer says no more than the log has, and the next
// process settles the rest.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		x := newActor(t)
		x.Store.FailIn(n)
		var sealed bool
		judge := func(a answer) answer {
			switch {
			case a.status == 503:
				a.fails(503, "helm_unavailable")
				assert.Empty(t, a.header.Get("Retry-After"), "a sealed kernel takes no calls again")
				sealed = true
			case sealed:
				assert.Equal(t, false, a.members()["released"], a.body)
			}
			return a
		}
		here := judge(x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}")))
		if x.Kernel.Err() != nil && here.status == 200 {
			assert.Equal(t, false, here.members()["released"], here.body)
			assert.NotContains(t, here.body, `"output"`)
		}
		a := judge(x.send(x.ann, "POST", "/api/v1/guard", wished("mail", "{}", "run", "caller")))
		if a.status == 201 {
			call := a.members()["call"].(string)
			v := judge(x.send(x.ann, "POST", "/api/v1/calls/"+call+"/outcome", `{"output":"x"}`)).is(200).members()
			if x.Kernel.Err() != nil {
				assert.Equal(t, false, v["recorded"])
				assert.Equal(t, false, v["released"])
				assert.Nil(t, v["receipt"])
			}
		}
		require.Error(t, x.Kernel.Err(), "append %d did not fail", n)
		judge(x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}"))).is(503)
		judge(x.send(x.ann, "POST", "/api/v1/checkpoint", "")).is(503)
		judge(x.send(x.ann, "POST", "/api/v1/govern", "{}")).is(503)
		x.send(x.ann, "GET", "/api/v1/calls", "").is(200)
		assert.NoError(t, x.desk.Close(t.Context()))
		x.MustRecover(nil)
	}
}

// TestAfter: a cause that the caller may not read is one that is not there.
func TestAfter(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	ref := func(secret string) any {
		return x.send(secret, "POST", "/api/v1/guard", wished("here", "{}")).is(200).members()["receipt"]
	}
	own, colleagues, strangers := ref(x.ann), ref(x.bob), ref(x.eve)
	x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}", "after", []any{own, colleagues})).is(200)
	denied := func(refs ...any) string {
		a := x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}", "after", refs))
		a.fails(403, string(contracts.ReasonIntentMalformed))
		x.receiptOf(a)
		v := a.members()["helm"].(map[string]any)["calls"].([]any)[0].(map[string]any)
		return fmt.Sprint(a.members()["error"], v["why"])
	}
	none := denied(map[string]any{"index": 1 << 40, "hash": strings.Repeat("0", 64)})
	assert.Equal(t, none, denied(strangers))
	assert.Equal(t, none, denied(own, strangers))
	genesis := map[string]any{"index": 0, "hash": x.Entry(0).Hash().String()}
	assert.Equal(t, none, denied(genesis))
	x.MustVerify()
}

// TestToolOfAServer: a tool that a server here has is run by no caller.
func TestToolOfAServer(t *testing.T) {
	t.Parallel()
	x := newActor(t, func(o *Options, _ *auth.Options) {
		o.Serves = func(_ context.Context, tool string) bool { return tool == "mail" || tool == "free" }
	})
	a := x.send(x.ann, "POST", "/api/v1/guard", wished("free", "{}", "run", "caller"))
	x.receiptOf(a.fails(403, string(contracts.ReasonDriverNotBound)))
	assert.Contains(t, a.body, "run: here")
	a = x.send(x.ann, "POST", "/api/v1/guard", wished("mail", "{}", "run", "caller"))
	x.receiptOf(a.fails(403, string(contracts.ReasonSandboxViolation)))
	x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}", "run", "caller")).
		fails(403, string(contracts.ReasonDriverNotBound))
	assert.Empty(t, x.desk.Tickets())
}

func TestCloseSession(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	call := x.permit(x.ann, wished("mail", "{}", "run", "caller"))
	name := auth.SessionName(clerk, "s")
	path := "/api/v1/sessions/" + strings.ReplaceAll(name, "/", "%2F") + "/close"
	before := x.Size()
	x.send(x.eve, "POST", path, "").fails(404, "helm_not_found")
	for _, other := range []string{"none", "main", "@kernel", "s", "%00"} {
		x.send(x.ann, "POST", "/api/v1/sessions/"+other+"/close", "").fails(404, "helm_not_found")
	}
	assert.Equal(t, before, x.Size(), "a session was closed that never was")
	x.send(x.ann, "POST", path, "").is(200)
	x.send(x.ann, "POST", path, "").is(200)
	v := x.send(x.ann, "POST", "/api/v1/calls/"+call+"/outcome", `{"output":"x"}`).is(200).members()
	assert.Equal(t, false, v["recorded"])
	assert.Equal(t, "INDETERMINATE", v["outcome"])
	for _, run := range []string{"here", "caller"} {
		a := x.send(x.ann, "POST", "/api/v1/guard", wished("mail", "{}", "run", run))
		x.receiptOf(a.fails(403, string(contracts.ReasonSessionClosed)))
	}
	x.MustVerify()
}

func TestGovern(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	x := actorOver(t, w)
	for _, body := range []string{"", "{}", "[]", `{"payload":"e30=","signatures":[]}`} {
		x.send(x.ann, "POST", "/api/v1/govern", body).fails(400, "helm_bad_request")
	}
	before := x.Size()
	e := kerneltest.SignEvent(t, w.Event(w.Freezing()), kerneltest.Stranger)
	x.send(x.ann, "POST", "/api/v1/govern", string(e)).fails(400, "helm_bad_request")
	assert.Equal(t, before, x.Size())
	x.send(x.ann, "POST", "/api/v1/govern", string(kerneltest.SignEvent(t, w.Event(w.Freezing()), kerneltest.Root1, kerneltest.Root2))).is(200)
	x.send(x.ann, "POST", "/api/v1/guard", wished("echo", "{}")).fails(403, string(contracts.ReasonSystemFrozen))
}

func TestPolicyAndCheckpoint(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	x.send(x.ann, "GET", "/api/v1/policy", "").fails(403, "helm_forbidden")
	note := x.send(x.ann, "POST", "/api/v1/checkpoint", "").is(200)
	assert.Equal(t, note.body, x.get(x.ann, "/api/v1/checkpoint").body)
	f := newFace(t)
	v := f.get("", "/api/v1/policy").members()
	assert.Equal(t, f.Kernel.Policy().Hash().String(), v["policy"])
	doc := v["documents"].([]any)[0].(map[string]any)
	b, err := json.Marshal(doc["document"])
	require.NoError(t, err)
	assert.JSONEq(t, string(f.Kernel.Policy().Document(0).Canonical), string(b))
}

// TestScopesOfActs: each path that does something needs its scope, and the anonymous caller has no
// more than its own.
func TestScopesOfActs(t *testing.T) {
	t.Parallel()
	x := newActor(t)
	before := x.Size()
	anonymous := actorOver(t, kerneltest.New(t))
	anonymous.open(t, anonymous.options, func(_ *Options, o *auth.Options) { o.Tokens = nil })
	all := []auth.Scope{auth.Call, auth.User, auth.Read, auth.ReadAll, auth.Inputs, auth.Approve, auth.Admin}
	n := 0
	for _, p := range paths {
		if !p.acts {
			continue
		}
		n++
		target := strings.NewReplacer("{id}", "x", "{nonce}", "x", "{session_id}", "x").Replace(p.path)
		x.send("", p.method, target, "{}").fails(401, "helm_unauthorized")
		var others []auth.Scope
		for _, s := range all {
			if s != p.scopes[0] {
				others = append(others, s)
			}
		}
		secret, entry := token(t, clerk, others...)
		one := actorOver(t, kerneltest.New(t))
		one.open(t, one.options, func(_ *Options, o *auth.Options) { o.Tokens = tokensOf(t, entry) })
		one.send(secret, p.method, target, "{}").fails(403, "helm_forbidden")
		if p.scopes[0] == auth.Admin {
			anonymous.send("", p.method, target, "{}").fails(403, "helm_forbidden")
		}
	}
	assert.Equal(t, 10, n, "paths that do something")
	assert.Equal(t, before, x.Size())
	reading := newFace(t)
	for _, p := range paths {
		if p.acts {
			target := strings.NewReplacer("{id}", "x", "{nonce}", "x", "{session_id}", "x").Replace(p.path)
			a := reading.send("", p.method, target, "{}")
			assert.Contains(t, []int{404, 405}, a.status, "%s %s on a port that only reads", p.method, p.path)
		}
	}
}

func tokensOf(t *testing.T, list ...auth.Token) *auth.Tokens {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.json")
	require.NoError(t, os.WriteFile(name, auth.FormatTokens(list), 0o600))
	tokens, err := auth.OpenTokens(name)
	require.NoError(t, err)
	return tokens
}

// newOffice makes an actor over a state directory, with a person who may approve, and one who may
// approve other things.
func newOffice(t *testing.T, edits ...string) (x *actor, owner, cook crypto.PrivateKey) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	var o state.CreateOptions
	for _, one := range []struct {
		name string
		key  *crypto.PrivateKey
	}{{"owner", &owner}, {"cook", &cook}} {
		var err error
		*one.key, err = crypto.GenerateKey()
		require.NoError(t, err)
		public, err := crypto.PublicOf(*one.key)
		require.NoError(t, err)
		o.Keys = append(o.Keys, registry.Key{Name: one.name, Public: public, Role: registry.Approver,
			Roles: []string{one.name}})
	}
	require.NoError(t, state.Create(dir, o))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(strings.NewReplacer(edits...).Replace(actPolicy)),
		0o600))
	c, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	echo := helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })
	s, err := state.Open(t.Context(), c, state.Options{Drivers: map[string]helm.Driver{"here": echo}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	x = &actor{face: &face{World: &kerneltest.World{T: t, Kernel: s.Kernel()}}, dir: dir}
	x.open(t, Options{Kernel: s.Kernel(), Store: s.Store(), Key: s.Key(), Desk: s.Desk(), Approvals: s.Approvals()})
	return x, owner, cook
}

// waits makes a call that waits for a person, and returns the path of the request.
func (x *actor) waits(secret, to string) string {
	x.T.Helper()
	a := x.send(secret, "POST", "/api/v1/guard", wished("asked", fmt.Sprintf(`{"to":%q}`, to), "run", "caller"))
	a.fails(403, string(contracts.ReasonApprovalRequired))
	path := a.header.Get("Location")
	require.Regexp(x.T, "^/api/v1/approvals/[0-9a-f]{32}$", path)
	require.Contains(x.T, a.body, strings.TrimPrefix(path, "/api/v1/approvals/"))
	return path
}

// request gets a request that waits.
func (x *actor) request(secret, path string) (r contracts.ApprovalRequest, args string) {
	x.T.Helper()
	var v struct {
		Request   contracts.ApprovalRequest
		Arguments string
	}
	require.NoError(x.T, json.Unmarshal([]byte(x.send(secret, "GET", path, "").is(200).body), &v))
	require.NoError(x.T, v.Request.About([]byte(v.Arguments)))
	return v.Request, v.Arguments
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	x, owner, cook := newOffice(t)
	path, other := x.waits(x.ann, "a"), x.waits(x.ann, "b")
	assert.NotEqual(t, path, other)
	assert.Equal(t, path, x.waits(x.ann, "a"), "the first request counts")
	strangers := x.waits(x.eve, "a")
	list := x.send(x.bob, "GET", "/api/v1/approvals", "").is(200)
	assert.Len(t, list.members()["items"], 2)
	assert.NotContains(t, list.body, `"arguments"`)
	x.send(x.bob, "GET", strangers, "").fails(404, "helm_not_found")
	x.send(x.bob, "GET", "/api/v1/approvals/"+strings.Repeat("0", 32), "").fails(404, "helm_not_found")
	x.send(x.bob, "GET", "/api/v1/approvals/..%2F..%2Fkey.pem", "").fails(404, "helm_not_found")
	r, args := x.request(x.bob, path)
	assert.Equal(t, `{"to":"a"}`, args)
	sign := func(f func(crypto.Signer) (contracts.Envelope, error), key crypto.PrivateKey) string {
		e, err := f(key)
		require.NoError(t, err)
		return string(e)
	}
	good := sign(r.Approve, owner)
	x.send(x.eve, "POST", "/api/v1/approvals", good).fails(404, "helm_not_found")
	widened := r
	widened.Tool = "mail"
	for _, body := range []string{"", "{}", "[]", "true", good[:len(good)-1], good + " {}", `{"approved":true}`,
		sign(r.Approve, cook), sign(widened.Approve, owner)} {
		a := x.send(x.bob, "POST", "/api/v1/approvals", body).fails(400, "helm_bad_request")
		assert.NotContains(t, a.body, "cook", "who holds keys is told")
	}
	theirs, _ := x.request(x.eve, strangers)
	x.send(x.bob, "POST", "/api/v1/approvals", sign(theirs.Approve, owner)).fails(404, "helm_not_found")
	x.waits(x.ann, "a")
	for range 2 {
		v := x.send(x.bob, "POST", "/api/v1/approvals", good).is(200).members()
		assert.Equal(t, []any{map[string]any{"name": "owner", "approves": true}}, v["answers"])
	}
	x.send(x.bob, "POST", "/api/v1/approvals", sign(r.Refuse, owner)).fails(400, "helm_bad_request")
	assert.Equal(t, other, x.waits(x.ann, "b"), "an approval of one call changes what is said of another")
	assert.Equal(t, strangers, x.waits(x.eve, "a"), "or of another caller's")
	call := x.permit(x.ann, wished("asked", ` {"to":"a"}`, "run", "caller"))
	x.send(x.ann, "DELETE", "/api/v1/calls/"+call, "").is(200)
	assert.NotEqual(t, path, x.waits(x.ann, "a"), "an approval was used twice")
	x.send(x.bob, "GET", path, "").fails(404, "helm_not_found")
	r, _ = x.request(x.bob, other)
	body := wished("asked", `{"to":"b"}`, "run", "caller", "approvals", []json.RawMessage{json.RawMessage(sign(r.Approve, owner))})
	x.permit(x.ann, body)
}

// TestApprovalOfEndedSession: the answer to a request whose session ended opens nothing.
func TestApprovalOfEndedSession(t *testing.T) {
	t.Parallel()
	x, owner, _ := newOffice(t)
	path := x.waits(x.ann, "a")
	r, _ := x.request(x.bob, path)
	require.NoError(t, x.Kernel.CloseSession(t.Context(), auth.SessionName(clerk, "s")))
	e, err := r.Approve(owner)
	require.NoError(t, err)
	x.send(x.bob, "POST", "/api/v1/approvals", string(e)).is(200)
	x.send(x.ann, "POST", "/api/v1/guard", wished("asked", `{"to":"a"}`, "run", "caller")).
		fails(403, string(contracts.ReasonSessionClosed))
	assert.Empty(t, x.desk.Tickets())
}

// TestArgumentsOfRequests: an approver reads the arguments only with the scope for it.
func TestArgumentsOfRequests(t *testing.T) {
	t.Parallel()
	x, _, _ := newOffice(t)
	path := x.waits(x.ann, "a")
	secret, entry := token(t, colleague, auth.Approve)
	x.open(t, x.options, func(_ *Options, o *auth.Options) { o.Tokens = tokensOf(t, entry) })
	a := x.send(secret, "GET", path, "").is(200)
	assert.NotContains(t, a.body, "arguments\"")
	assert.NotContains(t, a.body, `"to"`)
}

// TestBodiesHeld: what is read counts before it is, and no longer than it is held.
func TestBodiesHeld(t *testing.T) {
	t.Parallel()
	var h bodies
	b, back, err := h.read(strings.NewReader(strings.Repeat("x", 100_000)))
	require.NoError(t, err)
	assert.Len(t, b, 100_000)
	assert.GreaterOrEqual(t, h.held.Load(), int64(100_000))
	back()
	assert.Zero(t, h.held.Load())
	h.held.Store(mostHeld)
	_, back, err = h.read(strings.NewReader("x"))
	assert.ErrorIs(t, err, errHeld)
	back()
	assert.EqualValues(t, mostHeld, h.held.Load())
	x := newActor(t)
	x.again().bodies.held.Store(mostHeld)
	a := x.send(x.ann, "POST", "/api/v1/guard", wished("here", "{}")).is(503)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
}

// again makes the handler again, and returns it.
func (x *actor) again() *api {
	x.T.Helper()
	h, err := New(x.options)
	require.NoError(x.T, err)
	x.Handler = x.options.Auth.Handler(h)
	return h.(*api)
}

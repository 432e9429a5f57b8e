package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const wordsPolicy = `
helm: policy/v1
layer: P1
bundle: {name: words, version: 1}
tools:
  pay: {effect: write, input: {type: object, required: [to], properties: {to: {type: string}}}}
rules:
  - {id: told, allow: pay, when: {arg: /to, from: [user]}}
`

// TestMessages: only a token of scope user makes words the user's, in a session of its own caller.
func TestMessages(t *testing.T) {
	t.Parallel()
	doc, err := policy.Parse("words.yaml", []byte(wordsPolicy))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "words", Store: store})
	require.NoError(t, err)
	defer k.Close()

	app, appEntry := token(t, "app", "ann", User)
	agent, agentEntry := token(t, "agent", "ann", Call, ReadAll, Inputs, Approve, Admin, Read)
	other, otherEntry := token(t, "other", "bob", Call, User)
	g := newGate(t, Options{}, appEntry, agentEntry, otherEntry)
	handler := g.auth.Handler(g.auth.Messages(k))
	post := func(secret, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost/helm/messages", strings.NewReader(body))
		set(append([]string{"Helm-Token", secret, "Content-Type", "application/json"}, headers...)...)(r)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	caller := appEntry.Caller
	pay := func(session, to string) contracts.ReasonCode {
		d, r := k.Guard(t.Context(), helm.Intent{Tool: "pay", Args: []byte(fmt.Sprintf(`{"to":%q}`, to)), Caller: caller,
			Session: session, Driver: helm.Text(func(context.Context, json.RawMessage) (string, error) { return "paid", nil })})
		require.NotZero(t, r.Ref())
		return d.Reason
	}
	session := SessionName(caller, "chat")
	size := func() uint64 { n, err := store.Size(t.Context()); require.NoError(t, err); return n }

	for name, w := range map[string]*httptest.ResponseRecorder{
		"the agent's own token": post(agent, `{"session":"chat","text":"pay carl"}`),
		"another caller's":      post(other, `{"session":"`+session+`","text":"pay carl"}`),
		"in another session":    post(app, `{"session":"chat-2","text":"pay carl"}`),
	} {
		assert.Equal(t, map[bool]int{true: 403, false: 200}[strings.Contains(name, "agent")], w.Code, "%s: %s", name, w.Body)
		assert.NotEqual(t, contracts.ReasonAllow, pay(session, "carl"), name)
	}
	w := post(app, `{"session":"chat","text":"pay carl"}`)
	assert.Equal(t, `{"recorded":true,"session":"`+session+`"}`+"\n", w.Body.String())
	assert.Equal(t, session, w.Header().Get("Helm-Session"))
	assert.Equal(t, contracts.ReasonAllow, pay(session, "carl"))
	before := size()
	w = post(app, `{"text":"pay carl"}`, "Helm-Session", "chat")
	assert.Equal(t, `{"recorded":false,"session":"`+session+`"}`+"\n", w.Body.String())
	assert.Equal(t, before, size(), "a text that the session has")

	for name, x := range map[string]struct {
		w    *httptest.ResponseRecorder
		code int
	}{
		"no text":            {post(app, `{"session":"chat"}`), 400},
		"an empty text":      {post(app, `{"session":"chat","text":""}`), 400},
		"another member":     {post(app, `{"session":"chat","text":"a","caller":"bob"}`), 400},
		"a member twice":     {post(app, `{"session":"chat","text":"a","text":"b"}`), 400},
		"in capitals":        {post(app, `{"Session":"chat","text":"a"}`), 400},
		"no object":          {post(app, `[]`), 400},
		"no JSON":            {post(app, `{`), 400},
		"null":               {post(app, `{"session":"chat","text":null}`), 400},
		"a number":           {post(app, `{"session":1,"text":"a"}`), 400},
		"two sessions":       {post(app, `{"session":"chat","text":"a"}`, "Helm-Session", "b"), 400},
		"half a pair":        {post(app, `{"session":"chat","text":"\ud800"}`), 400},
		"more than it holds": {post(app, `{"session":"chat","text":"`+strings.Repeat("a", 262_145)+`"}`), 400},
		"longer than a body": {post(app, strings.Repeat(" ", maxWords+1)), 413},
	} {
		assert.Equal(t, x.code, x.w.Code, "%s: %s", name, x.w.Body)
		assert.NotContains(t, x.w.Body.String(), "aaaa", name)
	}
	r := httptest.NewRequest("GET", "http://localhost/helm/messages", nil)
	r.Header.Set("Helm-Token", app)
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	assert.True(t, w.Code == 405 && w.Header().Get("Allow") == "POST")
	w = post(app, `{"session":"chat","text":"a"}`, "Content-Type", "text/plain")
	assert.Equal(t, 400, w.Code, "two types")
	assert.Equal(t, before, size(), "nothing of all that is recorded")
	require.NoError(t, k.Close())
	assert.Equal(t, 503, post(app, `{"session":"chat","text":"b"}`).Code)
}

// TestMessagesAnonymous: without tokens nobody has the user's words, whatever a request says.
func TestMessagesAnonymous(t *testing.T) {
	t.Parallel()
	g := newGate(t, Options{})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://localhost/helm/messages", strings.NewReader(`{"session":"a","text":"b"}`))
	r.Header.Set("Content-Type", "application/json")
	g.auth.Handler(g.auth.Messages(nil)).ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code)
}

// TestSaid: what is remembered of texts does not grow without end.
func TestSaid(t *testing.T) {
	t.Parallel()
	var s said
	for i := range remembered + 5 {
		s.add(crypto.Sum([]byte(fmt.Sprint(i))))
	}
	assert.Len(t, s.texts, remembered)
	assert.False(t, s.has(crypto.Sum([]byte("4"))))
	assert.True(t, s.has(crypto.Sum([]byte("5"))))
}

// TestHealth says whether the process takes calls, to any host, and never why it does not.
func TestHealth(t *testing.T) {
	t.Parallel()
	word := ""
	for _, want := range []struct {
		code int
		body string
	}{{200, `{"status":"ok"}`}, {503, `{"status":"draining"}`}} {
		w := httptest.NewRecorder()
		Health(func() string { return word }).ServeHTTP(w, httptest.NewRequest("GET", "http://any.example/healthz", nil))
		assert.True(t, w.Code == want.code && w.Body.String() == want.body+"\n", w.Body.String())
		word = "draining"
	}
}

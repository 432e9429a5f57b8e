package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/api"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/trust/registry"
)

const payPolicy = `
helm: policy/v1
layer: P1
bundle: {name: pay, version: 1}
tools:
  pay: {effect: write, input: {type: object, properties: {sum: {type: number}}}, sandbox: reported}
rules:
  - {id: pays, allow: [pay]}
requires:
  - {id: owner, tools: pay, all: [{approval: {roles: [owner], ttl: 1h}}]}
`

// TestAnswerElsewhere: a request of a helm serve is listed, shown whole and answered from another
// place, and a token is sent to no other one.
func TestAnswerElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(key)
	require.NoError(t, err)
	require.NoError(t, state.Create(dir, state.CreateOptions{Keys: []registry.Key{
		{Name: "olga", Public: public, Role: registry.Approver, Roles: []string{"owner"}}}}))
	write := func(name string, b []byte, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, b, mode))
		return name
	}
	var pem bytes.Buffer
	require.NoError(t, crypto.WriteKey(&pem, key))
	keyFile := write("olga.pem", pem.Bytes(), 0o600)
	write("policy.yaml", []byte(payPolicy), 0o600)
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	s, err := state.Open(t.Context(), conf, state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	var list []auth.Token
	secrets := map[string]string{}
	for name, scopes := range map[string][]auth.Scope{
		"agent": {auth.Call}, "olga": {auth.Approve, auth.Inputs}, "blind": {auth.Approve},
	} {
		secret, entry, err := auth.NewToken(name, helm.Caller{ID: name}, scopes, time.Time{})
		require.NoError(t, err)
		list = append(list, entry)
		secrets[name] = secret
		write(name+".token", []byte(secret+"\n"), 0o600)
	}
	tokens, err := auth.OpenTokens(write("tokens.json", auth.FormatTokens(list), 0o600))
	require.NoError(t, err)
	who, err := auth.New(auth.Options{Tokens: tokens})
	require.NoError(t, err)
	h, err := api.New(api.Options{Kernel: s.Kernel(), Store: s.Store(), Key: s.Key(), Auth: who, Desk: s.Desk(),
		Approvals: s.Approvals()})
	require.NoError(t, err)
	server := httptest.NewServer(who.Handler(h))
	t.Cleanup(server.Close)
	guard := func() *http.Response {
		body := `{"tool": "pay", "arguments": "{\"sum\": 5000}", "session": "s", "run": "caller"}`
		r, err := http.NewRequest("POST", server.URL+"/api/v1/guard", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Helm-Token", secrets["agent"])
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	nonce := strings.TrimPrefix(guard().Header.Get("Location"), "/api/v1/approvals/")
	require.Len(t, nonce, 32)
	do := func(to, token string, args ...string) (code int, out, errs string) {
		t.Helper()
		var o, e bytes.Buffer
		args = append(args, "--to", to, "--config", filepath.Join(dir, "none.yaml"))
		if token != "" {
			args = append(args, "--token-file", filepath.Join(dir, token))
		}
		code = run(t.Context(), args, strings.NewReader(""), &o, &e)
		for _, secret := range secrets {
			assert.NotContains(t, o.String()+e.String(), secret)
		}
		return code, o.String(), e.String()
	}
	answers := []string{"approve", nonce, "--key", keyFile, "--yes", "pay"}
	code, out, errs := do(server.URL, "olga.token", "approve")
	require.Equal(t, 0, code, errs)
	assert.Contains(t, out, nonce+"  pay  caller \"agent\"")
	code, _, errs = do(server.URL, "blind.token", answers...)
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "scopes approve and inputs")
	code, _, errs = do(server.URL, "", answers...)
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, ": 401: ")
	write("loose.token", []byte(secrets["olga"]), 0o644)
	code, _, _ = do(server.URL, "loose.token", answers...)
	assert.Equal(t, 3, code)
	code, _, errs = do("http://helm.example:8080", "olga.token", answers...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "write https")
	code, _, _ = do("https://ann:secret@helm.example", "olga.token", answers...)
	assert.Equal(t, 2, code)
	seen := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ }))
	t.Cleanup(elsewhere.Close)
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(moved.Close)
	code, _, _ = do(moved.URL, "olga.token", answers...)
	assert.Equal(t, 3, code)
	assert.Zero(t, seen, "a redirect was followed")
	forged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Helm-Token", secrets["olga"])
		rec := httptest.NewRecorder()
		r.Host = "127.0.0.1"
		who.Handler(h).ServeHTTP(rec, r)
		_, _ = w.Write(bytes.Replace(rec.Body.Bytes(), []byte("5000"), []byte("5"), 1))
	}))
	t.Cleanup(forged.Close)
	code, _, errs = do(forged.URL, "", answers...)
	assert.Equal(t, 3, code, "other arguments than those of the request")
	assert.NotContains(t, errs, "arguments  ")
	code, _, _ = do(server.URL, "olga.token", "approve", strings.Repeat("0", 32), "--key", keyFile, "--yes", "pay")
	assert.Equal(t, 3, code)
	code, _, _ = do(server.URL, "olga.token", "approve", nonce, "--key", keyFile, "--yes", "buy")
	assert.Equal(t, 1, code)
	require.Equal(t, 403, guard().StatusCode, "something of that approved the call")
	code, out, errs = do(server.URL, "olga.token", answers...)
	require.Equal(t, 0, code, errs)
	assert.Contains(t, out, nonce+": the answer is kept")
	assert.Contains(t, errs, `{"sum":5000}`)
	assert.Equal(t, 201, guard().StatusCode)
	server.Close()
	code, _, _ = do(server.URL, "olga.token", answers...)
	assert.Equal(t, 3, code, "nobody is there")
}

package api

import (
	"encoding/json"
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
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

// A face is an API over the log of a world.
type face struct {
	*kerneltest.World
	http.Handler
	options   Options
	who       *auth.Auth
	api       *api
	unchecked bool // answers are not compared with openapi.json
}

// newFace makes a face that reads. With secrets it has tokens, else all are anonymous.
func newFace(t *testing.T, tokens ...auth.Token) *face {
	t.Helper()
	return faceOf(t, kerneltest.New(t), tokens...)
}

func faceOf(t *testing.T, w *kerneltest.World, tokens ...auth.Token) *face {
	t.Helper()
	f := &face{World: w}
	name := filepath.Join(t.TempDir(), "tokens.json")
	if tokens != nil {
		require.NoError(t, os.WriteFile(name, auth.FormatTokens(tokens), 0o600))
	}
	list, err := auth.OpenTokens(name)
	require.NoError(t, err)
	who, err := auth.New(auth.Options{Tokens: list})
	require.NoError(t, err)
	f.options, f.who = Options{Kernel: w.Kernel, Store: w.Store, Key: w.Key, Auth: who, ReadOnly: true}, who
	f.over(w.Store)
	return f
}

// over makes the face one over another store.
func (f *face) over(s proofgraph.Store) {
	f.T.Helper()
	f.options.Store = s
	h, err := New(f.options)
	require.NoError(f.T, err)
	f.api = h.(*api)
	f.Handler = f.who.Handler(h)
}

// token makes a token of a caller.
func token(t *testing.T, c helm.Caller, scopes ...auth.Scope) (string, auth.Token) {
	t.Helper()
	secret, entry, err := auth.NewToken("t-"+strings.ToLower(c.ID+c.Tenant), c, scopes, time.Time{})
	require.NoError(t, err)
	return secret, entry
}

// An answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// ask makes a request with a token, and requires that the answer is valid.
func (f *face) ask(secret, method, target string) answer {
	f.T.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, nil)
	if secret != "" {
		r.Header.Set("Helm-Token", secret)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if !f.unchecked {
		valid(f.T, r, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	}
	return answer{f.T, w.Code, w.Header(), w.Body.String()}
}

// get gets what is there.
func (f *face) get(secret, target string) answer {
	f.T.Helper()
	a := f.ask(secret, "GET", target)
	require.Equal(f.T, http.StatusOK, a.status, "%s: %s", target, a.body)
	return a
}

// fails requires an error.
func (a answer) fails(status int, code string) answer {
	a.t.Helper()
	var v struct {
		Error struct{ Code string }
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &v), a.body)
	assert.Equal(a.t, status, a.status, a.body)
	assert.Equal(a.t, code, v.Error.Code, a.body)
	assert.Equal(a.t, "false", a.header.Get("X-Should-Retry"))
	return a
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := New(Options{})
	require.EqualError(t, err, "api: Options: missing: Kernel, Store, Key, Auth, Desk, Approvals")
	_, err = New(Options{ReadOnly: true})
	require.EqualError(t, err, "api: Options: missing: Kernel, Store, Key, Auth")
}

// TestPathsAndMethods: what is not in the table is not there, in whatever spelling, and nothing is
// redirected.
func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, target := range []string{"/", "/api", "/api/v1", "/api/v1/", "/api/v1/checkpoint/", "/api/v1/checkpoint/x",
		"/api/v2/checkpoint", "/api/v1/Checkpoint", "//api/v1/checkpoint", "/api/v1/../v1/checkpoint",
		"/api/v1%2Fcheckpoint", "/api/v1/x/%2e%2e/checkpoint", "/helm/", "/healthz"} {
		f.ask("", "GET", target).fails(404, "helm_not_found")
	}
	for _, method := range []string{"HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get"} {
		a := f.ask("", method, "/api/v1/openapi.json").fails(405, "helm_method_not_allowed")
		assert.Equal(t, []string{"GET"}, a.header["Allow"], method)
	}
}

func TestParametersThatAreNotThere(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	for _, query := range []string{"?x=1", "?x", "?%zz", "?a=1;b=2"} {
		f.ask("", "GET", "/api/v1/openapi.json"+query).fails(400, "helm_bad_request")
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.ask("", "GET", "/api/v1/checkpoint").fails(404, "helm_not_found")
	c, err := f.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	assert.Equal(t, string(c.Note), f.get("", "/api/v1/checkpoint").body)
	assert.JSONEq(t, string(document), f.get("", "/api/v1/openapi.json").body)
}

func TestScopes(t *testing.T) {
	t.Parallel()
	secret, entry := token(t, helm.Caller{ID: "ann"}, auth.Call, auth.Inputs, auth.Admin, auth.User, auth.Approve)
	f := newFace(t, entry)
	for _, p := range paths {
		if p.scopes == nil || p.acts {
			continue
		}
		target := strings.ReplaceAll(p.path, "{session_id}", "x")
		f.ask("", p.method, target).fails(401, "helm_unauthorized")
		f.ask(secret, p.method, target).fails(403, "helm_forbidden")
	}
}

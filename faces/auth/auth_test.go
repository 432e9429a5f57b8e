package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
)

// A gate is an Auth with its file of tokens, and what let-in requests came to.
type gate struct {
	*testing.T
	file   string
	tokens *Tokens
	auth   *Auth
	clock  atomic.Int64 // seconds
	in     atomic.Int64
}

func (g *gate) now() time.Time { return time.Unix(g.clock.Load(), 0) }

func newGate(t *testing.T, o Options, tokens ...Token) *gate {
	t.Helper()
	g := &gate{T: t, file: filepath.Join(t.TempDir(), "tokens.json")}
	g.clock.Store(1e9)
	if tokens != nil {
		g.write(tokens...)
	}
	var err error
	g.tokens, err = OpenTokens(g.file)
	require.NoError(t, err)
	g.tokens.now, g.tokens.looked = g.now, g.now()
	o.Tokens, o.Now = g.tokens, g.now
	g.auth, err = New(o)
	require.NoError(t, err)
	return g
}

// write replaces the file of tokens.
func (g *gate) write(tokens ...Token) {
	g.Helper()
	require.NoError(g, os.WriteFile(g.file+".new", FormatTokens(tokens), 0o600))
	require.NoError(g, os.Rename(g.file+".new", g.file))
}

func token(t *testing.T, name, caller string, scopes ...Scope) (string, Token) {
	t.Helper()
	secret, entry, err := NewToken(name, helm.Caller{ID: caller, Tenant: "t", Roles: []string{"r"}}, scopes, time.Time{})
	require.NoError(t, err)
	return secret, entry
}

// ask makes a request, and returns the answer and its body.
func (g *gate) ask(change func(*http.Request)) (*http.Response, string) {
	g.Helper()
	r := httptest.NewRequest("POST", "http://127.0.0.1:8080/x", strings.NewReader("{}"))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	g.auth.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.in.Add(1)
		who := From(r.Context())
		fmt.Fprintf(w, "%s of %s", who.Caller.ID, who.Token)
	})).ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func set(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Add(pairs[i], pairs[i+1])
		}
	}
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// TestLetIn: only requests of this host, of no page in a browser, with each header once, get past.
func TestLetIn(t *testing.T) {
	t.Parallel()
	g := newGate(t, Options{Hosts: []string{"helm.example", "other.example:81"}})
	for _, x := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"loopback", nil, 200},
		{"localhost", host("LocalHost:1"), 200},
		{"IPv6", host("[::1]:8080"), 200},
		{"all of 127", host("127.1.2.3"), 200},
		{"a host that is served", host("HELM.example:8080"), 200},
		{"with its port", host("other.example:81"), 200},
		{"another port", host("other.example:82"), 421},
		{"a name that was rebound", host("evil.example"), 421},
		{"no host", host(""), 421},
		{"the loopback as a prefix", host("127.0.0.1.evil.example"), 421},
		{"as a subdomain", host("localhost.evil.example"), 421},
		{"a dot behind it", host("localhost."), 421},
		{"any address", host("0.0.0.0"), 421},
		{"a decimal", host("2130706433"), 421},
		{"a page", set("Origin", "https://evil.example"), 403},
		{"a page of this face", set("Origin", "http://127.0.0.1:8080"), 200},
		{"a page of another port", set("Origin", "http://127.0.0.1:8081"), 403},
		{"a page of another name", set("Origin", "http://localhost:8080"), 403},
		{"a page by TLS", set("Origin", "https://127.0.0.1:8080"), 403},
		{"a page that was rebound", func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("Origin", "http://evil.example")
		}, 421},
		{"a page without a name", set("Origin", "null"), 403},
		{"an empty origin", set("Origin", ""), 403},
		{"a page without Origin", set("Sec-Fetch-Site", "cross-site"), 403},
		{"the same site", set("Sec-Fetch-Site", "same-site"), 403},
		{"two words", set("Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"), 403},
		{"typed in", set("Sec-Fetch-Site", "none"), 200},
		{"of this page", set("Sec-Fetch-Site", "same-origin"), 200},
		{"two sessions", set("Helm-Session", "a", "Helm-Session", "a"), 400},
		{"two of another header", set("session_id", "a", "session_id", "b"), 400},
		{"two keys", set("X-Api-Key", "a", "X-Api-Key", "b"), 400},
		{"two authorizations", set("Authorization", "a", "Authorization", "b"), 400},
		{"two types", set("Content-Type", "application/json", "content-type", "text/plain"), 400},
		{"two of HELM's own", set("helm-anything", "a", "Helm-Anything", "b"), 400},
		{"two of others", set("Accept", "a", "Accept", "b"), 200},
	} {
		before := g.in.Load()
		r, said := g.ask(x.change)
		assert.Equal(t, x.status, r.StatusCode, "%s: %s", x.name, said)
		assert.Equal(t, x.status == 200, g.in.Load() == before+1, x.name)
		assert.Equal(t, "no-store", r.Header.Get("Cache-Control"), x.name)
		assert.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"), x.name)
		assert.Equal(t, "same-origin", r.Header.Get("Cross-Origin-Resource-Policy"), x.name)
		if x.status != 200 {
			assert.Equal(t, "false", r.Header.Get("X-Should-Retry"), x.name)
			assert.Empty(t, r.Header.Get("Access-Control-Allow-Origin"), x.name)
			var e struct {
				Error struct{ Type, Code, Message string }
			}
			require.NoError(t, json.Unmarshal([]byte(said), &e), said)
			assert.True(t, e.Error.Type == "helm_error" && strings.HasPrefix(e.Error.Code, "helm_") && e.Error.Message != "", said)
		}
	}
}

// TestPage: a page without data is for everybody, by the server's own name, from nowhere else.
func TestPage(t *testing.T) {
	t.Parallel()
	a, err := New(Options{})
	require.NoError(t, err)
	h := a.Page(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, x := range []struct {
		host, name, value string
		status            int
	}{
		{"127.0.0.1:8080", "Accept", "text/html", 200}, {"127.0.0.1:8080", "Sec-Fetch-Site", "none", 200},
		{"evil.example", "Accept", "text/html", 421}, {"127.0.0.1:8080", "Sec-Fetch-Site", "cross-site", 403},
		{"127.0.0.1:8080", "Origin", "https://evil.example", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/helm/", nil)
		r.Host = x.host
		r.Header.Set(x.name, x.value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, x.status, w.Code, "%v", x)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	}
}

// TestOrigins: a page that is listed may ask, with a token, and one that is like it may not.
func TestOrigins(t *testing.T) {
	t.Parallel()
	secret, entry := token(t, "one", "ann", Call)
	g := newGate(t, Options{Origins: []string{"https://app.example"}}, entry)
	with := func(origin string) func(*http.Request) { return set("Origin", origin, "Helm-Token", secret) }
	r, _ := g.ask(with("https://app.example"))
	assert.Equal(t, 200, r.StatusCode)
	assert.Equal(t, "https://app.example", r.Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "Origin", r.Header.Get("Vary"))
	for _, origin := range []string{"https://app.example.evil.example", "http://app.example", "https://app.example:8443", "*", "null"} {
		r, _ := g.ask(with(origin))
		assert.Equal(t, 403, r.StatusCode, origin)
	}
	r, _ = g.ask(set("Origin", "https://app.example"))
	assert.Equal(t, 401, r.StatusCode, "without a token")
	before := g.in.Load()
	r, _ = g.ask(func(r *http.Request) {
		r.Method = "OPTIONS"
		set("Origin", "https://app.example", "Access-Control-Request-Method", "POST")(r)
	})
	assert.True(t, r.StatusCode == 204 && g.in.Load() == before, "asked before the request, without a token")
	assert.Contains(t, r.Header.Get("Access-Control-Allow-Headers"), "Helm-Session")
	for _, bad := range []string{"*", "https://*.example", "app.example", "https://app.example/", "https://app.example/x", "https://a@app.example"} {
		_, err := New(Options{Tokens: g.tokens, Origins: []string{bad}})
		assert.Error(t, err, bad)
	}
	_, err := New(Options{Origins: []string{"https://app.example"}})
	assert.ErrorContains(t, err, "only with tokens")
}

// TestTokens: the first header that is there counts, and only a token that is good now.
func TestTokens(t *testing.T) {
	t.Parallel()
	ann, annEntry := token(t, "ann-1", "ann", Call)
	bob, bobEntry := token(t, "bob-1", "bob", Call)
	old, oldEntry := token(t, "old", "ann", Call)
	g := newGate(t, Options{Metadata: "https://helm.example/meta"}, annEntry, bobEntry, oldEntry)
	oldEntry.Expires = g.now().Add(time.Hour)
	g.write(annEntry, bobEntry, oldEntry)
	require.NoError(t, g.tokens.Reload())
	for _, x := range []struct {
		name   string
		change func(*http.Request)
		who    string
	}{
		{"Helm-Token", set("Helm-Token", ann), "ann of ann-1"},
		{"Bearer", set("Authorization", "bearer "+ann), "ann of ann-1"},
		{"X-Api-Key", set("X-Api-Key", bob), "bob of bob-1"},
		{"one that expires later", set("Helm-Token", old), "ann of old"},
		{"the first counts", set("Helm-Token", ann, "Authorization", "Bearer "+bob, "X-Api-Key", bob), "ann of ann-1"},
		{"the second counts", set("Authorization", "Bearer "+bob, "X-Api-Key", ann), "bob of bob-1"},
		{"the first is wrong", set("Helm-Token", "x", "Authorization", "Bearer "+bob), ""},
		{"the first is empty", set("Helm-Token", "", "X-Api-Key", bob), ""},
		{"another scheme and a key", set("Authorization", "Basic "+ann, "X-Api-Key", bob), "bob of bob-1"},
		{"another scheme", set("Authorization", "Basic "+ann), ""},
		{"none", nil, ""},
		{"the hash", set("Helm-Token", annEntry.Hash.String()), ""},
		{"a part", set("Helm-Token", ann[:len(ann)-1]), ""},
		{"more", set("Helm-Token", ann+"A"), ""},
		{"another letter case", set("Helm-Token", strings.ToUpper(ann)), ""},
		{"who it is, said by a header", set("Helm-Caller", "ann", "X-User", "ann"), ""},
		{"by the address", func(r *http.Request) { r.URL.RawQuery = "token=" + ann }, ""},
	} {
		r, said := g.ask(x.change)
		if x.who != "" {
			assert.Equal(t, x.who, said, x.name)
			continue
		}
		assert.Equal(t, 401, r.StatusCode, x.name)
		assert.Equal(t, `Bearer resource_metadata="https://helm.example/meta"`, r.Header.Get("WWW-Authenticate"))
		for _, secret := range []string{ann, bob} {
			assert.NotContains(t, said+fmt.Sprint(r.Header), secret[5:20], x.name)
		}
	}
	g.clock.Add(3600)
	r, _ := g.ask(set("Helm-Token", old))
	assert.Equal(t, 401, r.StatusCode, "expired")
}

// TestTokensFile: a change is heard of, and whatever becomes of the file, nobody is let in by it.
func TestTokensFile(t *testing.T) {
	t.Parallel()
	secret, entry := token(t, "ann-1", "ann", Call)
	status := func(g *gate) int { r, _ := g.ask(set("Helm-Token", secret)); return r.StatusCode }
	for name, spoil := range map[string]func(g *gate){
		"revoked":     func(g *gate) { g.write() },
		"gone":        func(g *gate) { require.NoError(g, os.Remove(g.file)) },
		"faulty":      func(g *gate) { require.NoError(g, os.WriteFile(g.file, []byte("[{"), 0o600)) },
		"writable":    func(g *gate) { require.NoError(g, os.Chmod(g.file, 0o666)); g.touch() },
		"a directory": func(g *gate) { require.NoError(g, os.Remove(g.file)); require.NoError(g, os.Mkdir(g.file, 0o700)) },
	} {
		g := newGate(t, Options{}, entry)
		require.Equal(t, 200, status(g))
		spoil(g)
		assert.Equal(t, 200, status(g), "%s: it is not looked at each time", name)
		g.clock.Add(10)
		assert.Equal(t, 401, status(g), name)
		r, _ := g.ask(nil)
		assert.Equal(t, 401, r.StatusCode, "%s: nobody becomes anonymous", name)
		os.RemoveAll(g.file)
		g.write(entry)
		g.clock.Add(10)
		assert.Equal(t, 200, status(g), "%s: it is mended", name)
	}
	g := newGate(t, Options{})
	r, said := g.ask(nil)
	assert.True(t, r.StatusCode == 200 && said == " of ", "without tokens: anonymous, not %q", said)
	g.write(entry)
	g.clock.Add(10)
	r, _ = g.ask(nil)
	assert.Equal(t, 401, r.StatusCode, "there are tokens now")
	assert.Equal(t, 200, status(g))
	assert.Error(t, func() error { _, err := OpenTokens(t.TempDir()); return err }())
}

func (g *gate) touch() {
	g.Helper()
	require.NoError(g, os.Chtimes(g.file, time.Now(), time.Now().Add(time.Hour)))
}

// TestScopes: a token may do what its scopes say, and the anonymous caller has no words of a user.
func TestScopes(t *testing.T) {
	t.Parallel()
	may := func(i Identity) (list []Scope) {
		for _, s := range scopes {
			if i.May(s) {
				list = append(list, s)
			}
		}
		return list
	}
	assert.Empty(t, may(Identity{}))
	assert.Equal(t, []Scope{Call, Read, ReadAll, Approve}, may(anonymous))
	for _, s := range scopes {
		want := []Scope{s}
		if s == ReadAll {
			want = []Scope{Read, ReadAll}
		}
		assert.Equal(t, want, may(Identity{scopes: []Scope{s}}))
	}
	assert.Empty(t, may(From(context.Background())))
}

// TestRevokedWhileItRuns: a request that goes on ends with its token.
func TestRevokedWhileItRuns(t *testing.T) {
	t.Parallel()
	secret, entry := token(t, "ann-1", "ann", Call)
	less := entry
	less.Scopes = []Scope{Read}
	other := entry
	other.Caller.ID = "bob"
	for name, after := range map[string][]Token{"revoked": nil, "a scope less": {less}, "another caller": {other}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endsWith(t, secret, entry, after)
		})
	}
}

func endsWith(t *testing.T, secret string, entry Token, after []Token) {
	g := newGate(t, Options{}, entry)
	running := make(chan struct{})
	server := httptest.NewServer(g.auth.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		close(running)
		<-r.Context().Done()
	})))
	defer server.Close()
	r, err := http.NewRequest("GET", server.URL, nil)
	require.NoError(t, err)
	r.Header.Set("Helm-Token", secret)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	<-running
	g.write(after...)
	g.clock.Add(10)
	_, err = io.ReadAll(got.Body) // until the handler returns
	require.NoError(t, err)
}

// TestLimits: too many requests at once, of all and of one caller, and too long a body.
func TestLimits(t *testing.T) {
	t.Parallel()
	ann, annEntry := token(t, "ann-1", "ann", Call)
	bob, bobEntry := token(t, "bob-1", "bob", Call)
	g := newGate(t, Options{Requests: 3, CallerRequests: 2, Body: 10}, annEntry, bobEntry)
	inside, leave := make(chan struct{}), make(chan struct{})
	handler := g.auth.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-leave
	}))
	ended := make(chan int)
	ask := func(secret string) {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.Header.Set("Helm-Token", secret)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		ended <- w.Code
	}
	for range 2 {
		go ask(ann)
		<-inside
	}
	go ask(ann)
	assert.Equal(t, 503, <-ended, "two of one caller")
	go ask(bob)
	<-inside
	r, _ := g.ask(set("Helm-Token", bob))
	assert.True(t, r.StatusCode == 503 && r.Header.Get("Retry-After") != "" && r.Header.Get("X-Should-Retry") == "", "three in all")
	for range 3 {
		leave <- struct{}{}
		assert.Equal(t, 200, <-ended)
	}
	assert.Empty(t, g.auth.running)
	assert.Zero(t, g.auth.all)

	var err error
	body := g.auth.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = io.ReadAll(r.Body) }))
	long := httptest.NewRequest("POST", "http://localhost/", strings.NewReader("12345678901"))
	long.Header.Set("Helm-Token", ann)
	body.ServeHTTP(httptest.NewRecorder(), long)
	assert.ErrorAs(t, err, new(*http.MaxBytesError))
}

// TestSlowBody: a body that does not come in time ends, and an answer that takes longer does not.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	g := newGate(t, Options{})
	failed := make(chan error, 1)
	server := httptest.NewUnstartedServer(nil)
	server.Config = server50(g.auth.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if err == nil {
			select {
			case <-r.Context().Done():
				err = r.Context().Err()
			case <-time.After(300 * time.Millisecond): // longer than the body may take
			}
		}
		failed <- err
	})))
	server.Start()
	defer server.Close()
	_, err := http.Post(server.URL, "text/plain", strings.NewReader("whole"))
	require.NoError(t, err)
	assert.NoError(t, <-failed)
	r, w := io.Pipe()
	defer w.Close()
	go http.Post(server.URL, "text/plain", r)
	assert.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)
}

func server50(h http.Handler) *http.Server { return server(h, 50*time.Millisecond) }

// TestSlowRefused: who is not let in holds no connection by a body that never comes.
func TestSlowRefused(t *testing.T) {
	t.Parallel()
	g := newGate(t, Options{})
	for path, handler := range map[string]http.Handler{
		"/x":       g.auth.Handler(http.NotFoundHandler()),
		"/healthz": Health(func() string { return "" }),
	} {
		server := httptest.NewUnstartedServer(nil)
		server.Config = server50(handler)
		server.Start()
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n", path)
		require.NoError(t, err)
		all, err := io.ReadAll(c) // until the server closes it
		require.NoError(t, err)
		assert.Contains(t, string(all), "HTTP/1.1 4", path)
		require.NoError(t, c.Close())
		server.Close()
	}
}

// TestPanics: a handler that panics ends its request, is counted out, and what it panicked with is
// told nobody.
func TestPanics(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := newGate(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	server := httptest.NewUnstartedServer(nil)
	server.Config = Server(g.auth.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("AKIA0123456789")
	})))
	server.Start()
	_, err := http.Get(server.URL)
	assert.Error(t, err)
	server.Close()
	assert.Zero(t, g.auth.all)
	assert.Contains(t, log.String(), "ended in a panic")
	assert.NotContains(t, log.String(), "AKIA")
}

// TestDenials: a caller who was denied too often is not judged until the minute is over, and
// however many callers there are, no more than some are counted.
func TestDenials(t *testing.T) {
	t.Parallel()
	g := newGate(t, Options{Denials: 3})
	ann, bob := helm.Caller{ID: "ann"}, helm.Caller{ID: "bob"}
	for range 3 {
		assert.True(t, g.auth.MayAsk(ann))
		g.auth.Denied(ann)
	}
	assert.False(t, g.auth.MayAsk(ann))
	assert.False(t, g.auth.MayAsk(helm.Caller{ID: "ann", Roles: []string{"other"}}), "roles do not make another caller")
	assert.True(t, g.auth.MayAsk(bob))
	g.clock.Add(60)
	assert.True(t, g.auth.MayAsk(ann))
	for i := range callers + 10 {
		g.auth.Denied(helm.Caller{ID: fmt.Sprint(i)})
	}
	assert.Len(t, g.auth.denials.counts, callers)
	assert.False(t, g.auth.MayAsk(helm.Caller{ID: "one more"}), "who cannot be counted is over the limit")
	assert.True(t, g.auth.MayAsk(helm.Caller{ID: "0"}))
}

// TestRefuse: the forms of errors.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/messages":              `{"error":{"message":"no <b>","type":"permission_error"},"type":"error"}`,
		"/v1/messages/count_tokens": `{"error":{"message":"no <b>","type":"permission_error"},"type":"error"}`,
		"/v1/messagesx":             `{"error":{"code":"helm_forbidden","message":"no <b>","param":null,"type":"helm_error"}}`,
		"/v1/responses":             `{"error":{"code":"helm_forbidden","message":"no <b>","param":null,"type":"helm_error"}}`,
	} {
		w := httptest.NewRecorder()
		Refuse(w, httptest.NewRequest("POST", path, nil), 403, "helm_forbidden", "no <b>")
		assert.Equal(t, want+"\n", w.Body.String(), path)
	}
}

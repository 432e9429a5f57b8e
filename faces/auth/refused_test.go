package auth

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRefused is told the code of each refusal, here and by a handler that was let in, and of no
// other answer.
func TestRefused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	secret, entry := token(t, "a", "ann", Call)
	g := newGate(t, Options{Refused: func(code string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, code)
		panic("a watcher")
	}}, entry)
	served := func(h http.Handler, change func(*http.Request)) int {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/x", nil)
		r.Header.Set("Helm-Token", secret)
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	inner := g.auth.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuse":
			Refuse(w, r, http.StatusNotFound, "helm_not_found", "no")
		case "/deny":
			RefuseCall(w, r, "SCHEMA_VIOLATION", "no", Told{})
		}
	}))
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	for _, x := range []struct {
		h      http.Handler
		change func(*http.Request)
		status int
		code   string
	}{
		{inner, path("/refuse"), 404, "helm_not_found"},
		{inner, path("/deny"), 403, ""}, // was judged: it has a receipt, and an event
		{inner, path("/fine"), 200, ""},
		{inner, func(r *http.Request) { r.Header.Set("Helm-Token", "no") }, 401, "helm_unauthorized"},
		{inner, func(r *http.Request) { r.Host = "elsewhere" }, 421, "helm_wrong_host"},
		{inner, func(r *http.Request) { r.Header.Set("Origin", "https://eve.example") }, 403, "helm_forbidden"},
		{inner, func(r *http.Request) { r.Header["Helm-Session"] = []string{"a", "b"} }, 400, "helm_bad_request"},
		{g.auth.Page(http.NotFoundHandler()), func(r *http.Request) { r.Host = "elsewhere" }, 421, "helm_wrong_host"},
		{g.auth.Page(http.NotFoundHandler()), func(*http.Request) {}, 404, ""},
	} {
		told = nil
		assert.Equal(t, x.status, served(x.h, x.change))
		assert.Equal(t, x.code, func() string { return append(slices.Clone(told), "")[0] }(), "%d", x.status)
		assert.LessOrEqual(t, len(told), 1)
	}
}

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// TestLets: everybody gets the page that has no data, and nothing else without a token.
func TestLets(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "tokens.json")
	_, token, err := auth.NewToken("a", contracts.Caller{ID: "ann"}, []auth.Scope{auth.Read}, time.Time{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, auth.FormatTokens([]auth.Token{token}), 0o600))
	tokens, err := auth.OpenTokens(name)
	require.NoError(t, err)
	who, err := auth.New(auth.Options{Tokens: tokens})
	require.NoError(t, err)
	h := (&held{who: who}).lets(http.NotFoundHandler())
	for path, status := range map[string]int{"/helm/": 200, "/helm": 401, "/helm/receipts": 401, "//helm/": 401} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, status, w.Code, path)
	}
}

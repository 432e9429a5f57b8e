package api

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/kerneltest"
)

// word is a word of a command line.
var word = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)

// TestPage: each curl command of docs/api.md is answered, and each path that reads has one.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	w := kerneltest.New(t)
	for range 2 {
		w.Call("echo", `{"text":"x"}`, kerneltest.InSession("anonymous/chat"))
	}
	w.Call("closed", `{}`)
	_, err = w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	f, secret := newAuditor(t, w)
	asked := map[string]bool{}
	page, _, _ := strings.Cut(string(b), "\n## Asking for a call\n")
	for line := range strings.Lines(page) {
		command, ok := strings.CutPrefix(line, "$ curl ")
		if !ok {
			continue
		}
		target, token := "", ""
		for _, m := range word.FindAllStringSubmatch(command, -1) {
			switch x := m[1] + m[2] + m[3]; {
			case strings.HasPrefix(x, "http://127.0.0.1:8080/"):
				target = strings.TrimPrefix(x, "http://127.0.0.1:8080")
			case x == "Helm-Token: $TOKEN":
				token = secret
			default:
				assert.Contains(t, []string{"-s", "-H", "-o", "log.pack"}, x, line)
			}
		}
		if target == "/api/v1/openapi.json" {
			token = secret // whose description it is: this log has tokens
		}
		a := f.get(token, target)
		assert.NotContains(t, a.body, `"items":[],`, line)
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:8080"+target, nil)
		require.NoError(t, err)
		s := readSpec()
		_, name, ok := s.find(r)
		require.True(t, ok, line)
		asked[name] = true
	}
	for _, p := range paths {
		if !p.acts {
			assert.True(t, asked[p.method+" "+p.path], "docs/api.md lacks %s", p.path)
		}
	}
}

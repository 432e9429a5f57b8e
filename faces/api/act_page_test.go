package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
)

// TestActsPage: each command of docs/api.md that does something does it, in the order of the page,
// and each such path has one.
func TestActsPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	_, page, ok := strings.Cut(string(b), "\n## Asking for a call\n")
	require.True(t, ok)
	page = strings.ReplaceAll(page, `"tool": "crm__find", "arguments": "{\"name\": \"Ann\"}"`,
		`"tool": "here", "arguments": "{\"text\": \"Ann\"}"`) // no server has it here
	x, owner, _ := newOffice(t, "asked", "pay")
	vars := map[string]string{"SESSION": url.PathEscape(auth.SessionName(clerk, "chat"))}
	done := map[string]bool{}
	n := 0
	for line := range strings.Lines(page) {
		command, ok := strings.CutPrefix(line, "$ curl ")
		if !ok {
			continue
		}
		for name, value := range vars {
			command = strings.ReplaceAll(command, "$"+name, value)
		}
		method, target, body, before := "GET", "", "", ""
		for _, m := range word.FindAllStringSubmatch(command, -1) {
			word := m[1] + m[2] + m[3]
			switch {
			case before == "--json":
				method, body = "POST", word
			case before == "-X":
				method = word
			case strings.HasPrefix(word, "http://127.0.0.1:8080/"):
				target = strings.TrimPrefix(word, "http://127.0.0.1:8080")
			default:
				assert.Contains(t, []string{"-s", "-H", "Helm-Token: $TOKEN", "--json", "-X"}, word, line)
			}
			before = word
		}
		switch body {
		case "@answer.json":
			r, _ := x.request(x.ann, "/api/v1/approvals/"+vars["NONCE"])
			e, err := r.Approve(owner)
			require.NoError(t, err)
			body = string(e)
		case "@event.json":
			body = string(x.freezing())
		}
		a := x.send(x.ann, method, target, body)
		n++
		if a.status == http.StatusForbidden {
			a.fails(403, string(contracts.ReasonApprovalRequired))
			vars["NONCE"] = strings.TrimPrefix(a.header.Get("Location"), "/api/v1/approvals/")
		} else {
			assert.Contains(t, []int{200, 201}, a.status, "%s%s", line, a.body)
		}
		if a.status == http.StatusCreated {
			vars["CALL"] = a.members()["call"].(string)
		}
		s := readSpec()
		_, name, _ := s.find(httptest.NewRequest(method, "http://127.0.0.1:8080"+target, nil))
		done[name] = true
	}
	assert.Equal(t, strings.Count(page, "$ curl "), n)
	for _, p := range paths {
		if p.acts {
			assert.True(t, done[p.method+" "+p.path], "docs/api.md lacks %s %s", p.method, p.path)
		}
	}
}

// freezing is the event that freezes the system, signed by the root of the directory.
func (x *actor) freezing() contracts.Envelope {
	x.T.Helper()
	f, err := os.Open(filepath.Join(x.dir, "root.pem"))
	require.NoError(x.T, err)
	defer f.Close()
	root, err := crypto.LoadKey(f)
	require.NoError(x.T, err)
	c, err := x.Kernel.Checkpoint(x.T.Context())
	require.NoError(x.T, err)
	e, err := contracts.TrustRecord{Event: contracts.TrustEvent{Type: "freeze", Origin: c.Origin, Why: "a test",
		Version: x.Kernel.Trust().Version() + 1}}.Sign(root)
	require.NoError(x.T, err)
	return e
}

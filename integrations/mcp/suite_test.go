package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

// suite returns the directory that suite/fetch made, which make suite names.
func suite(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HELM_MCP_SUITE")
	if dir == "" {
		t.Skip("needs the conformance suite and Node: make suite fetches them")
	}
	return dir
}

// everything returns the program of the server that the SDK is tested with itself.
func everything(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "everything")
	out, err := exec.Command("go", "build", "-o", name,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return name
}

// serveEverything runs the server over HTTP, and returns its URL.
func serveEverything(t *testing.T, program string, args ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c := exec.Command(program, append([]string{"-http=" + address}, args...)...)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + address + "/mcp")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return "http://" + address + "/mcp"
}

// expected reads a list of the scenarios that fail: a name and the reason on each line.
func expected(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "suite", name))
	require.NoError(t, err)
	list := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			scenario, reason, _ := strings.Cut(line, " ")
			require.NotEmpty(t, strings.TrimSpace(reason), "%s: %s has no reason", name, scenario)
			require.NotContains(t, list, scenario, "%s names a scenario twice", name)
			list[scenario] = strings.TrimSpace(reason)
		}
	}
	return list
}

var summary = regexp.MustCompile(`(?m)^[✓✗] ([a-z0-9-]+): (\d+) passed, (\d+) failed`)

// conform runs the scenarios of a version of the protocol. All pass but those that are expected to
// fail, and each of those fails.
func conform(t *testing.T, url, version string, fails map[string]string) {
	t.Helper()
	dir := suite(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(dir, "node_modules/node"),
		filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
		"server", "--url", url, "--spec-version", version, "--suite", "all")
	c.Dir = t.TempDir()
	out, err := c.CombinedOutput()
	require.NoError(t, ctx.Err())
	found := summary.FindAllSubmatch(out, -1)
	require.NotEmpty(t, found, "%v\n%s", err, out)
	passed, failed, seen := 0, 0, map[string]bool{}
	var report strings.Builder
	for _, line := range found {
		p, err1 := strconv.Atoi(string(line[2]))
		f, err2 := strconv.Atoi(string(line[3]))
		require.True(t, err1 == nil && err2 == nil)
		name := string(line[1])
		seen[name] = true
		passed, failed = passed+p, failed+f
		reason, listed := fails[name]
		if f > 0 {
			fmt.Fprintf(&report, "%s: %d of %d fail: %s\n", name, f, p+f, reason)
		}
		assert.Equal(t, listed, f > 0, "%s: %d checks pass, %d fail", name, p, f)
	}
	for name := range fails {
		assert.True(t, seen[name], "%s is expected to fail, and was not run", name)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	t.Logf("%s: %d of %d checks of %d scenarios pass\n%s", version, passed, passed+failed, len(found), report.String())
}

// What the SDK's server passes by itself, so that what the gateway does not is known to be its own.
func TestSuiteWithoutGateway(t *testing.T) {
	suite(t)
	program := everything(t)
	conform(t, serveEverything(t, program, "-stateless=false"), "2025-11-25", nil)
	conform(t, serveEverything(t, program), "2026-07-28", nil)
}

// suiteGateway serves the gateway before one server over HTTP, by a policy that allows all its
// tools but one, and returns the URL.
func suiteGateway(t *testing.T, server Server, denied string, govern bool) (url string, store proofgraph.Store) {
	t.Helper()
	raw, err := List(context.Background(), server)
	require.NoError(t, err)
	text, _, err := policy.New(raw, "everything")
	require.NoError(t, err)
	if govern {
		text = bytes.Replace(text, []byte("rules: []"), []byte(governed+"rules: []"), 1)
	}
	doc, err := policy.Parse("everything.yaml", text)
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	var allowed []string
	for _, tool := range p.Tools() {
		if tool.Name != denied {
			allowed = append(allowed, tool.Name)
		}
	}
	rules := "rules: [{id: all, allow: [" + strings.Join(allowed, ", ") + "]}]"
	doc, err = policy.Parse("everything.yaml", bytes.Replace(text, []byte("rules: []"), []byte(rules), 1))
	require.NoError(t, err)
	p, err = guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	store = proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "suite", Store: store})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	g, err := NewGateway(GatewayOptions{Kernel: k, Servers: []Server{server}, Govern: govern})
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	a, err := auth.New(auth.Options{})
	require.NoError(t, err)
	h, err := g.Handler(HandlerOptions{Auth: a})
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/mcp", store
}

// The gateway passes the suite but for what it does not offer, before a server over stdio and one
// over HTTP.
func TestSuite(t *testing.T) {
	suite(t)
	program := everything(t)
	for name, server := range map[string]Server{
		"stdio": {Name: "everything", Command: []string{program}},
		"http":  {Name: "everything", URL: serveEverything(t, program, "-stateless=false")},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := suiteGateway(t, server, "", false)
			old := expected(t, "2025-11-25.txt")
			if name == "http" {
				maps.Copy(old, expected(t, "2025-11-25-http.txt"))
			}
			conform(t, url, "2025-11-25", old)
			conform(t, url, "2026-07-28", expected(t, "2026-07-28.txt"))
		})
	}
}

// governed are the tools that stand for resources and prompts.
const governed = `
  everything__resources/read: {effect: read, input: {type: object, required: [uri], properties: {uri: {type: string}}}}
  everything__prompts/get:
    effect: read
    input:
      type: object
      required: [name]
      properties: {name: {type: string}, arguments: {type: object, additionalProperties: {type: string}}}

`

// Resources and prompts pass, too, if they are governed, but for subscriptions.
func TestSuiteGoverned(t *testing.T) {
	suite(t)
	url, _ := suiteGateway(t, Server{Name: "everything", Command: []string{everything(t)}}, "", true)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		fails := expected(t, version+".txt")
		maps.DeleteFunc(fails, func(name, why string) bool {
			return strings.Contains(why, "are not offered")
		})
		if version == "2025-11-25" { // the later one has no such scenario
			maps.Copy(fails, expected(t, "governed.txt"))
		}
		conform(t, url, version, fails)
	}
}

// A denial has the form of a tool's error, so the scenario of a tool that fails passes with a tool
// that is denied.
func TestSuiteDenied(t *testing.T) {
	suite(t)
	url, store := suiteGateway(t, Server{Name: "everything", Command: []string{everything(t)}}, "test_error_handling", false)
	conform(t, url, "2025-11-25", expected(t, "2025-11-25.txt"))
	denied := 0
	f := &face{gate: &gate{T: t, store: store}}
	f.each(func(s *contracts.Statement) {
		if s.Receipt != nil && s.Receipt.Decision != nil && s.Receipt.Decision.Reason == "NO_POLICY_DEFINED" {
			denied++
		}
	})
	assert.Equal(t, 1, denied)
}

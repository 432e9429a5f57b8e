package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
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

package conformance

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onlyIsland runs the gate of island mode alone.
func onlyIsland(t *testing.T, o Options) Gate {
	t.Helper()
	var list [len(gateNames)]gate
	list[10] = islandCases
	r, err := run(t.Context(), o, newSubject(), list)
	require.NoError(t, err)
	g := r.Gates[10]
	if g.Result == NotRun {
		t.Skip("island mode is not run: " + g.Why)
	}
	return g
}

// Everything works on an island, and a program that does not is named.
func TestIsland(t *testing.T) {
	t.Parallel()
	g := onlyIsland(t, Options{Programs: []string{"/bin/true"}})
	assert.Equal(t, Passed, g.Result, "%v", g.Failed)
	assert.Contains(t, g.Cases, "the program true")
	g = onlyIsland(t, Options{Programs: []string{"/bin/false", "/no/such/program"}})
	assert.Equal(t, Failed, g.Result)
	require.Len(t, g.Failed, 2)
	assert.Equal(t, "the program false", g.Failed[0].Case)
}

// The quickstart needs no network.
func TestIslandQuickstart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "quickstart")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../examples/quickstart").
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	g := onlyIsland(t, Options{Programs: []string{program}})
	assert.Equal(t, Passed, g.Result, "%v", g.Failed)
	assert.Contains(t, g.Cases, "the program quickstart")
}

// With a network the first case fails: or else its success would show nothing.
func TestIslandOutside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	t.Setenv(islandDial, l.Addr().String())
	assert.NotEmpty(t, islandWork()[0].run(t.Context(), newSubject()))
}

// Island mode needs no rights: root runs this test again as another user.
func TestIslandAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user; TestIsland ran as one")
	}
	dir, err := os.MkdirTemp("", "island")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	from, err := os.Open(self)
	require.NoError(t, err)
	defer from.Close()
	program := filepath.Join(dir, "conformance.test")
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	c := exec.CommandContext(t.Context(), program, "-test.run", "^TestIsland$", "-test.v")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skip("island mode is not run as another user: the system permits them no namespaces")
	}
	assert.Contains(t, string(out), "--- PASS: TestIsland")
}

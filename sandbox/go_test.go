package sandbox

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// goGuest builds a program in testdata, by the Go that runs the tests: go test
// puts it first in PATH.
func goGuest(t testing.TB, name string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("building a guest in Go takes long")
	}
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-ldflags=-s", "-o", out, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no guest in Go was run: it cannot be built here: %v\n%s", err, said)
	}
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	return wasm
}

// A program in Go runs in its world, and gets out of it by nothing that the standard library does.
func TestGoGuest(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	wasm := goGuest(t, "guest")
	r := newRoom(t)
	tree := fstest.MapFS{"a": {Data: []byte("alpha")}, "d/b": {Data: []byte("beta")}, "d/c": {}}
	digest, err := TreeDigest(tree)
	require.NoError(t, err)
	grants := contracts.Sandbox{Args: []string{"-v"}, Files: map[string]string{"/t": digest}}
	h := Host{Trees: map[string]fs.FS{"/t": tree}}
	m := r.load(wasm, grants, h)
	const args = `{"paths":["/t","/t/a","/t/d","/t/d/../d/b","/t/d/../../etc/passwd","/etc/passwd","../etc","/t/none","/proc/self/environ"]}`
	got := r.tell(context.Background(), m, args)
	require.Equal(t, contracts.ReasonAllow, got.reason, got.err)
	t.Logf("%d bytes, %d gas", len(wasm), got.gas)
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.output), &out))
	assert.Equal(t, []any{"tool", "-v"}, out["args"])
	assert.Empty(t, out["env"])
	assert.Equal(t, true, out["slept"])
	assert.Equal(t, true, out["dial"])
	assert.Equal(t, []any{"a", "d"}, out["/t"])
	assert.Equal(t, []any{"b", "c"}, out["/t/d"])
	assert.Equal(t, "alpha", out["/t/a"])
	assert.Equal(t, "beta", out["/t/d/../d/b"])
	for _, path := range []string{"/t/d/../../etc/passwd", "/etc/passwd", "../etc", "/t/none", "/proc/self/environ"} {
		assert.Contains(t, out[path], "open "+path, "not opened")
	}

	// The same in every way that it can be run, and by an auditor.
	assert.Equal(t, got, r.tell(context.Background(), m, args))
	made, err := newRuntime(Options{}, wazero.NewRuntimeConfigInterpreter(), 1000)
	require.NoError(t, err)
	slow := &room{T: t, Runtime: made}
	assert.Equal(t, got, slow.tell(context.Background(), slow.load(wasm, grants, h), args), "interpreter, slices of 1,000")
	require.NoError(t, made.Close(context.Background()))
	call := again(wasm, grants)
	call.Args, call.Grants.Gas = []byte(args), got.gas
	reran, err := newRoom(t).Rerun(nil, tree)(context.Background(), call)
	require.NoError(t, err)
	assert.Equal(t, contracts.RerunResult{Output: []byte(got.output), Gas: got.gas, Reason: contracts.ReasonAllow, Held: true,
		Metered: true}, reran)

	bad := r.tell(context.Background(), m, `{`)
	assert.Equal(t, told{"", bad.gas, contracts.ReasonToolError, `sandbox: exit 2: "unexpected EOF\n"`}, bad)
}

// The program that docs/SANDBOX.md shows.
func TestDocumentedGuest(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := newRoom(t)
	m := r.load(goGuest(t, "sum"), contracts.Sandbox{}, Host{})
	assert.Equal(t, `{"sum":6.5}`+"\n", r.tell(context.Background(), m, `{"numbers":[1,2,3.5]}`).output)
	got := r.tell(context.Background(), m, `[]`)
	assert.Equal(t, contracts.ReasonToolError, got.reason)
	assert.Contains(t, got.err, "sandbox: exit 1: ")
}

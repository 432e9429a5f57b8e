package sandbox

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// The host supplies what grants name, neither less nor more; the error names the first difference.
func TestHostIsWhatGrantsName(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	tree := fstest.MapFS{"a": {Data: []byte("x")}}
	digest, err := TreeDigest(tree)
	require.NoError(t, err)
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	env := contracts.Sandbox{Env: []string{"A", "B"}}
	files := contracts.Sandbox{Files: map[string]string{"/t": digest}}
	type dirs = map[string]*os.Root
	type trees = map[string]fs.FS
	for says, c := range map[string]struct {
		grants contracts.Sandbox
		h      Host
	}{
		"":                                       {env, Host{Env: map[string]string{"A": "1", "B": ""}}},
		"env A: granted, and not in Host.Env":    {env, Host{Env: map[string]string{"B": "2"}}},
		"env C: in Host.Env, and not granted":    {env, Host{Env: map[string]string{"A": "", "B": "", "C": ""}}},
		"env A: its value has a NUL":             {env, Host{Env: map[string]string{"A": "\x00", "B": ""}}},
		"env X: in Host.Env, and not granted":    {contracts.Sandbox{}, Host{Env: map[string]string{"X": ""}}},
		"files /t: granted as a tree, and not":   {files, Host{}},
		"files /t: the tree is sha256:":          {files, Host{Trees: trees{"/t": fstest.MapFS{}}}},
		"files /t: in Host.Dirs, and not":        {files, Host{Trees: trees{"/t": tree}, Dirs: dirs{"/t": root}}},
		"files /u: in Host.Trees, and not":       {files, Host{Trees: trees{"/t": tree, "/u": tree}}},
		"files /d: granted as read, and not":     {contracts.Sandbox{Files: map[string]string{"/d": "read"}}, Host{}},
		"files /w: granted as write, and not in": {contracts.Sandbox{Files: map[string]string{"/w": "write"}}, Host{Trees: trees{"/w": tree}}},
		"env":                                    {contracts.Sandbox{Env: []string{"B", "A"}}, Host{}},
		"gas":                                    {contracts.Sandbox{Gas: 1e12 + 1}, Host{}},
		"files":                                  {contracts.Sandbox{Files: map[string]string{"d": "read"}}, Host{}},
	} {
		m, err := r.Load(context.Background(), command(nil).bytes(), "box", c.grants, c.h)
		if says == "" {
			assert.NoError(t, err)
			continue
		}
		assert.Nil(t, m, says)
		assert.ErrorContains(t, err, says)
	}
	for _, name := range []string{"", "reported", "not an id\n", strings.Repeat("x", 1000)} {
		_, err := r.Load(context.Background(), command(nil).bytes(), name, contracts.Sandbox{}, Host{})
		assert.Error(t, err, "%q", name)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = r.Load(ended, command(nil).bytes(), "box", contracts.Sandbox{}, Host{})
	assert.ErrorIs(t, err, context.Canceled)
}

// What Load was given may change afterwards: nothing else does.
func TestLoadCopies(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	wasm := prints(1, "x").bytes()
	grants := contracts.Sandbox{Args: []string{"a"}, Env: []string{"A"}, Gas: 1e6}
	h := Host{Env: map[string]string{"A": "1"}, Definition: contracts.Digest{7}}
	m, err := r.Load(context.Background(), wasm, "box", grants, h)
	require.NoError(t, err)
	sum := crypto.Sum(wasm)
	want := m.Cell().Info()
	clear(wasm)
	grants.Args[0], grants.Env[0], h.Env["A"] = "b", "PATH", "2"
	h.Definition = contracts.Digest{}
	info := m.Cell().Info()
	assert.Equal(t, want, info)
	assert.True(t, info.Module == sum && info.Meter == meter.Version && info.Profile == "box", "%+v", info)
	info.Grants.Gas, info.Grants.Args[0] = 1, "c"
	assert.Equal(t, "x", r.tell(context.Background(), m, "").output)
	assert.Equal(t, []string{"a"}, m.grants.Args)
	assert.Equal(t, []string{"A=1"}, m.env)
	assert.Equal(t, contracts.Digest{7}, m.Definition())
}

// A host that closes its own os.Root takes nothing from the guests.
func TestRootStaysOpen(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("directories are granted on Linux and macOS only")
	}
	r := newRoom(t)
	at := t.TempDir()
	require.NoError(t, os.WriteFile(at+"/a", []byte("alpha"), 0o644))
	root, err := os.OpenRoot(at)
	require.NoError(t, err)
	s := r.script().open(3, "a", 0, 1<<1, 0).read(fdAt(0))
	m := r.load(s.wasm(), contracts.Sandbox{Files: map[string]string{"/d": "read"}}, Host{Dirs: map[string]*os.Root{"/d": root}})
	require.NoError(t, root.Close())
	assert.Contains(t, r.tell(context.Background(), m, "").output, "alpha")
}

// The same module is compiled once for each memory, also if many load it at once.
func TestCodeIsCached(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	wasm := prints(1, "cached").bytes()
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			_, err := r.Load(context.Background(), wasm, "box", contracts.Sandbox{Gas: uint64(i + 1), Memory: uint64(i%2 + 1)}, Host{})
			assert.NoError(t, err)
		}()
	}
	all.Wait()
	assert.Len(t, r.codes.codes, 2)
	_, err := r.Load(context.Background(), []byte("none"), "box", contracts.Sandbox{}, Host{})
	assert.Error(t, err)
	assert.Len(t, r.codes.codes, 2, "what was refused is not kept")
}

// WASI and the meter know the same functions, in the same order, by which imports are bound.
func TestFunctionsAreTheMeters(t *testing.T) {
	t.Parallel()
	known := meter.Functions()
	own := wasi.Functions()
	require.Equal(t, len(known), len(own))
	for i, f := range known {
		assert.Equal(t, f.Name, own[i].Name)
	}
	assert.Len(t, own, 46)
}

func TestTreeReachesTheGuest(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	tree := fstest.MapFS{"a": {Data: []byte("alpha")}, "d/b": {Data: []byte("beta")}}
	digest, err := TreeDigest(tree)
	require.NoError(t, err)
	assert.Equal(t, "sha256:"+crypto.Sum([]byte(`{"a":"`+crypto.Sum([]byte("alpha")).String()+`","d/b":"`+
		crypto.Sum([]byte("beta")).String()+`"}`)).String(), digest)
	grants := contracts.Sandbox{Files: map[string]string{"/b": digest, "/a": digest}}
	s := r.script().call("fd_prestat_dir_name", 3, at(0), 2).call("fd_prestat_dir_name", 4, at(8), 2).
		open(4, "d/b", 0, 1<<1, 16).read(fdAt(16))
	m := r.load(s.wasm(), grants, Host{Trees: map[string]fs.FS{"/a": tree, "/b": tree}})
	maps.DeleteFunc(tree, func(string, *fstest.MapFile) bool { return true })
	got := r.tell(context.Background(), m, "").output[4*s.calls:]
	assert.Equal(t, "/a", got[:2], "in byte order of paths")
	assert.Equal(t, "/b", got[8:10])
	assert.Contains(t, got, "beta")
	_, err = TreeDigest(fstest.MapFS{"l": {Mode: fs.ModeSymlink, Data: []byte("/")}})
	assert.Error(t, err)
}

//go:build linux || darwin

package sandbox

import (
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/sandbox/internal/files"
)

// A jail is a directory that is granted, in a directory with a secret.
type jail struct {
	*room
	top string
	dir *os.Root
}

func newJail(t *testing.T) *jail {
	t.Helper()
	j := &jail{room: newRoom(t), top: t.TempDir()}
	for _, name := range []string{"in", "in/sub", "out"} {
		require.NoError(t, os.Mkdir(filepath.Join(j.top, name), 0o755))
	}
	for name, s := range map[string]string{"in/a": "alpha", "in/sub/b": "beta", "out/secret": "hunter2"} {
		require.NoError(t, os.WriteFile(filepath.Join(j.top, name), []byte(s), 0o644))
	}
	for name, to := range map[string]string{
		"in/abs": filepath.Join(j.top, "out/secret"), "in/rel": "../out/secret", "in/dir": "../out", "in/proc": "/proc/self/root",
		"in/chain": "dir", "in/up": "..", "in/good": "sub/b",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(j.top, name)))
	}
	require.NoError(t, os.Link(filepath.Join(j.top, "in/rel"), filepath.Join(j.top, "in/hard")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(j.top, "in/fifo"), 0o666))
	var err error
	j.dir, err = os.OpenRoot(filepath.Join(j.top, "in"))
	require.NoError(t, err)
	t.Cleanup(func() { j.dir.Close() })
	return j
}

func (j *jail) granted(access string) (contracts.Sandbox, Host) {
	return contracts.Sandbox{Files: map[string]string{"/d": access}}, Host{Dirs: map[string]*os.Root{"/d": j.dir}}
}

// safe reports whether the secret is what it was, and alone.
func (j *jail) safe(name string) {
	j.Helper()
	got, err := os.ReadFile(filepath.Join(j.top, "out/secret"))
	require.NoError(j, err)
	assert.Equal(j, "hunter2", string(got), name)
	left, err := os.ReadDir(filepath.Join(j.top, "out"))
	require.NoError(j, err)
	assert.Len(j, left, 1, name)
	top, err := os.ReadDir(j.top)
	require.NoError(j, err)
	assert.Len(j, top, 2, name)
}

const (
	rRead  = 1 << 1
	rWrite = 1 << 6
	oCreat = 1
	oTrunc = 8
)

// The ways out of a directory, each of which is EPERM for every function that takes a path.
func TestEscapes(t *testing.T) {
	t.Parallel()
	j := newJail(t)
	grants, h := j.granted("write")
	errs, out := j.script().open(3, "good", 0, rRead, 0).read(fdAt(0)).run(grants, h)
	require.Equal(t, []files.Errno{0, 0}, errs, "a link that stays within; or the refusals below would prove nothing")
	require.Contains(t, out, "beta")
	for name, path := range map[string]string{
		"absolute": filepath.Join(j.top, "out/secret"), "..": "../out/secret", "down and up": "sub/../../out/secret",
		"link, absolute": "abs", "link, relative": "rel", "link to a directory": "dir/secret", "two links": "chain/secret",
		"link to /proc": "proc" + j.top + "/out/secret", "link up": "up/out/secret", "hard link to a link": "hard",
		"link and ..": "up/../out/secret",
	} {
		s := j.script().
			open(3, path, 0, rRead, 0).open(3, path, 0, rWrite, 0).open(3, path, oCreat|oTrunc, rRead|rWrite, 0).
			call("path_filestat_get", 3, 1, path, at(0)).
			call("path_filestat_set_times", 3, 1, path, 5, 5, 5)
		if strings.Contains(path, "/") {
			s.call("path_unlink_file", 3, path).call("path_remove_directory", 3, path).
				call("path_rename", 3, "a", 3, path).call("path_rename", 3, path, 3, "stolen").
				call("path_create_directory", 3, path+"2").call("path_readlink", 3, path, at(0), 100, at(200)).
				call("path_filestat_get", 3, 0, path, at(0)).open(3, path[:strings.LastIndexByte(path, '/')], 2, rRead, 0)
		}
		errs, out := s.run(grants, h)
		for i, errno := range errs {
			assert.Equal(t, files.Perm, errno, "%s: call %d", name, i)
		}
		assert.NotContains(t, out, "hunter2", name)
		j.safe(name)
	}
	// No links are made, so none that leads out.
	errs, _ = j.script().call("path_symlink", "../out/secret", 3, "l").call("path_symlink", "/", 3, "l").
		call("path_link", 3, 0, "rel", 3, "l").call("path_link", 3, 1, "abs", 3, "l").
		open(3, "l", 0, rRead, 0).run(grants, h)
	assert.Equal(t, []files.Errno{files.Perm, files.Perm, files.Perm, files.Perm, files.NoEntry}, errs)
	// A FIFO and a device are not opened, and nobody waits for them.
	errs, _ = j.script().open(3, "fifo", 0, rRead, 0).open(3, "fifo", 0, rWrite, 0).open(3, "fifo", 2, rRead, 0).
		open(3, "fifo", 0, rRead|rWrite, 0).run(grants, h)
	assert.Equal(t, []files.Errno{files.Perm, files.Perm, files.Perm, files.Perm}, errs)
	// A link itself is the guest's to move and remove; what it leads to is not.
	errs, _ = j.script().call("path_rename", 3, "sub", 3, "a/../sub2").call("path_rename", 3, "rel", 3, "rel2").
		open(3, "rel2", 0, rRead, 0).call("path_unlink_file", 3, "abs").run(grants, h)
	assert.Equal(t, []files.Errno{files.NotDir, 0, files.Perm, 0}, errs)
	j.safe("moved")
}

// What is granted to be read is written by no function.
func TestReadOnlyIsReadOnly(t *testing.T) {
	t.Parallel()
	j := newJail(t)
	tree := fstest.MapFS{"a": {Data: []byte("alpha")}, "sub/b": {Data: []byte("beta")}}
	digest, err := TreeDigest(tree)
	require.NoError(t, err)
	host, h := j.granted("read")
	for name, g := range map[string]struct {
		grants contracts.Sandbox
		h      Host
	}{
		"read": {host, h},
		"tree": {contracts.Sandbox{Files: map[string]string{"/d": digest}}, Host{Trees: map[string]fs.FS{"/d": tree}}},
	} {
		errs, _ := j.script().
			open(3, "a", 0, rWrite, 0).open(3, "a", oTrunc, rRead, 0).open(3, "new", oCreat, rRead, 0).
			call("path_create_directory", 3, "new").call("path_unlink_file", 3, "a").
			call("path_remove_directory", 3, "sub").call("path_rename", 3, "a", 3, "new").
			call("path_filestat_set_times", 3, 1, "a", 5, 5, 5).
			run(g.grants, g.h)
		for i, errno := range errs {
			assert.Equal(t, files.ReadOnly, errno, "%s: call %d", name, i)
		}
		errs, out := j.script().open(3, "a", 0, rRead, 0).
			write(fdAt(0)).call("fd_pwrite", fdAt(0), at(480), 1, 0, at(496)).call("fd_filestat_set_size", fdAt(0), 0).
			call("fd_allocate", fdAt(0), 0, 100).call("fd_filestat_set_times", fdAt(0), 5, 5, 5).
			call("path_symlink", "a", 3, "new").call("path_link", 3, 0, "a", 3, "new").read(fdAt(0)).run(g.grants, g.h)
		assert.Equal(t, []files.Errno{0, files.BadFile, files.BadFile, files.BadFile, files.BadFile, files.NotSupp,
			files.Perm, files.Perm, 0}, errs, name)
		assert.Contains(t, out, "alpha", name)
	}
	got, err := os.ReadFile(filepath.Join(j.top, "in/a"))
	require.NoError(t, err)
	assert.Equal(t, "alpha", string(got))
}

// Tricks with descriptors: closed, renumbered, and used again.
func TestDescriptorTricks(t *testing.T) {
	t.Parallel()
	j := newJail(t)
	grants, h := j.granted("read")
	errs, out := j.script().
		open(3, "sub", 2, rRead, 0).call("fd_close", 3).
		open(fdAt(0), "../a", 0, rRead, 4).    // its directory does not lead up
		open(fdAt(0), "b", 0, rRead, 4).       // and becomes 3
		call("fd_prestat_get", 3, at(8)).      // which is no grant now
		open(3, "../../out/secret", 0, 0, 12). // nor a directory
		call("fd_renumber", 3, 2).read(2).
		call("fd_renumber", 2, 99).call("fd_renumber", 99, 2).
		call("fd_close", 2).read(2).run(grants, h)
	assert.Equal(t, []files.Errno{0, 0, files.Perm, 0, files.BadFile, files.NotDir, 0, 0, files.BadFile, files.BadFile, 0,
		files.BadFile}, errs)
	assert.Contains(t, out, "beta")
	// 10,000 are asked for. At 16 is how many there were, at 20 how many EPERM, at 24 the calls.
	add := func(address int64, n ...any) []byte {
		return ops(i32(address), i32(address), i32load, ops(n...), i32add, i32store)
	}
	const errno, named = 28, 64
	open := ops(i32(3), i32(1), i32(named), i32(1), i32(0), i64(rRead), i64(0), i32(0), i32(32), call(0))
	many := command(loop(
		i32(errno), open, i32store,
		add(16, i32(errno), i32load, i32eqz),
		add(20, i32(errno), i32load, i32(int64(files.Perm)), i32sub, i32eqz),
		add(24, i32(1)), i32(24), i32load, i32(10_000), i32ltu, "\x0d", u32(0)), "path_open", "fd_write")
	many.data, many.dataAt = "a", named
	many.funcs[0].code = ops(many.funcs[0].code, i32(0), i32(16), i32store, i32(4), i32(12), i32store,
		callWith(1, 1, 0, 1, 8))
	receipt := j.call(j.load(many.bytes(), grants, h))
	want := binary.LittleEndian.AppendUint32(nil, 124)
	want = binary.LittleEndian.AppendUint32(want, 10_000-124)
	want = binary.LittleEndian.AppendUint32(want, 10_000)
	assert.Equal(t, want, []byte(receipt.Output), "%+v", receipt.Record)
	long := strings.Repeat("x/", 2049)
	errs, _ = j.script().open(3, long, 0, rRead, 0).open(3, long[:4096], 0, rRead, 0).run(grants, h)
	assert.Equal(t, []files.Errno{files.NameTooLong, files.NoEntry}, errs)
}

// Without grants there is nothing: no file, no socket, no signal, no variable.
func TestPureHasNothing(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	s := r.script().open(3, "etc/passwd", 0, rRead, 0).call("fd_prestat_get", 3, at(0)).
		call("sock_accept", 3, 0, at(0)).call("sock_recv", 0, at(0), 1, 0, at(8), at(12)).
		call("sock_send", 1, at(0), 1, 0, at(8)).call("sock_shutdown", 0, 0).call("proc_raise", 9).
		call("environ_sizes_get", at(0), at(4)).call("clock_time_get", 2, 0, at(8))
	for fd := range 64 {
		s.open(fd, ".", 2, rRead, 16)
	}
	errs, out := s.run(contracts.Sandbox{}, Host{})
	assert.Equal(t, []files.Errno{files.BadFile, files.BadFile, files.NotSupp, files.NotSupp, files.NotSupp, files.NotSupp,
		files.NotSupp, 0, files.Invalid}, errs[:9])
	assert.Equal(t, make([]byte, 8), []byte(out[:8]))
	for _, errno := range errs[9:] {
		assert.NotEqual(t, files.OK, errno)
	}
}

// Links, directories and FIFOs are swapped under the guests' feet; none ever sees the secret, none
// waits.
func TestSwappedWhileItOpens(t *testing.T) {
	t.Parallel()
	j := newJail(t)
	in := func(name string) string { return filepath.Join(j.top, "in", name) }
	require.NoError(t, os.Mkdir(in("x"), 0o755))
	require.NoError(t, os.WriteFile(in("x/secret"), []byte("decoy"), 0o644))
	require.NoError(t, os.Symlink("../out", in("l")))
	grants, h := j.granted("write")
	s := j.script()
	for range 50 {
		s.open(3, "x/secret", 0, rRead, 0).read(fdAt(0)).call("fd_close", fdAt(0)).
			open(3, "x", 2, rRead, 4).call("fd_readdir", fdAt(4), at(100), 200, 0, at(96)).call("fd_close", fdAt(4)).
			open(3, "x/secret", oCreat|oTrunc, rWrite, 8).write(fdAt(8)).call("fd_close", fdAt(8)).
			call("path_filestat_set_times", 3, 1, "x/secret", 5, 5, 5)
	}
	m := j.load(s.wasm(), grants, h)
	d := 10 * time.Second
	if testing.Short() {
		d = 200 * time.Millisecond
	}
	until := time.Now().Add(d)
	var all sync.WaitGroup
	var ran, swapped atomic.Int64
	for range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(until) {
				got := j.tell(context.Background(), m, "{}")
				assert.Equal(t, contracts.ReasonAllow, got.reason, got.err)
				assert.NotContains(t, got.output, "hunter2")
				ran.Add(1)
			}
		}()
	}
	for _, with := range []string{"l", "fifo"} {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(until) {
				if os.Rename(in("x"), in("hidden."+with)) == nil {
					if os.Rename(in(with), in("x")) == nil {
						swapped.Add(1)
						time.Sleep(20 * time.Microsecond)
						os.Rename(in("x"), in(with))
					}
					os.Rename(in("hidden."+with), in("x"))
				}
			}
		}()
	}
	all.Wait()
	assert.NotZero(t, ran.Load())
	assert.NotZero(t, swapped.Load())
	j.safe("swapped")
}

//go:build unix

package filestore

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// These tests run this binary again, as another process that has the log.
const holderDir = "FILESTORE_TEST_HOLDER"

func TestHolder(t *testing.T) {
	dir := os.Getenv(holderDir)
	if dir == "" {
		t.Skip("it is for the tests below to run, in a process of its own")
	}
	s, err := open(disk.OS{}, dir, Options{}, small)
	require.NoError(t, err)
	grow(t, s, int(s.entries/2), int(s.entries/2)+3)
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin) // until the parent has enough, or kills
	mustClose(t, s)
}

type holding struct {
	*exec.Cmd
	stdin io.Closer
}

// hold starts a process that opens the directory, appends three batches, and keeps the log open.
func hold(t *testing.T, dir string) holding {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	c.Env = append(os.Environ(), holderDir+"="+dir)
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	require.NoError(t, errors.Join(err1, err2, c.Start()))
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.True(t, err == nil && line == "held\n", "the other process says %q, %v", line, err)
	return holding{c, in}
}

func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	h := hold(t, dir)
	_, err := Open(dir, Options{})
	require.True(t, err != nil && strings.Contains(err.Error(),
		dir+": process "+strconv.Itoa(h.Process.Pid)+" has it open"), "the holder, %d, is not named: %v", h.Process.Pid,
		err)
	require.ErrorIs(t, err, ErrInUse)
	r, err := OpenReadOnly(dir)
	require.NoError(t, err)
	mustHold(t, r, 3)
	h.Process.Kill()
	h.Wait()
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	defer s.Close()
	mustHold(t, s, 3)
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(),
		"this process ("+strconv.Itoa(os.Getpid())+") has it open already") {
		t.Error(err)
	}
	mustClose(t, s)
	s, err = Open(dir, Options{})
	require.NoError(t, err)
	mustClose(t, s)
}

// If the lock's file is removed as a stale one, the log is still not open to a second writer.
func TestLockRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	h := hold(t, dir)
	for range 2 { // the second time over the file that the first one made
		require.NoError(t, os.Remove(filepath.Join(dir, lockName)))
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(),
			dir+": another process has it open") {
			t.Fatalf("two processes write: %v", err)
		}
	}
	h.Process.Kill()
	h.Wait()
	s := mustOpenReal(t, dir)
	mustHold(t, s, 3)
	mustClose(t, s)
	s = mustOpenReal(t, dir)
	mustHold(t, s, 3)
}

// In a rolling restart the new process waits for the old one's end.
func TestWaitForTheOtherProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	h := hold(t, dir)
	_, err := Open(dir, Options{Wait: 50 * time.Millisecond})
	require.True(t, err != nil && strings.Contains(err.Error(), strconv.Itoa(h.Process.Pid)),
		"waited for what did not come: %v", err)
	type opened struct {
		*Store
		error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := open(disk.OS{}, dir, Options{Wait: time.Minute}, small)
		done <- opened{s, err}
	}()
	h.stdin.Close()
	s := <-done
	require.NoError(t, s.error)
	defer s.Close()
	mustHold(t, s.Store, 3)
	grow(t, s.Store, 3, 5)
	mustHold(t, s.Store, 5)
}

// A file that may not be read or written is an error with its name. Root may do anything, so the
// test drops its rights, in a process of its own.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 && os.Getenv(holderDir) == "" {
		c := exec.Command(reachable(t), "-test.run=^TestNoPermission$", "-test.v")
		c.Dir = "/"
		c.Env = append(os.Environ(), holderDir+"=-", "TMPDIR=/tmp")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if errors.Is(err, os.ErrPermission) {
			t.Skip("root, and may not change the user:", err)
		}
		require.True(t, err == nil && strings.Contains(string(out), "--- PASS: TestNoPermission"), "%v\n%s", err, out)
		return
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "log")
	s := mustOpenReal(t, dir)
	grow(t, s, 0, 8)
	mustClose(t, s)
	name := filepath.Join(dir, "00000001.log")
	for _, c := range []struct {
		path  string
		mode  os.FileMode
		write bool // reading is still possible
	}{{dir, 0, false}, {name, 0, false}, {filepath.Join(dir, "00000002.log"), 0o400, true},
		{filepath.Join(dir, lockName), 0o400, true}} {
		was, err := os.Stat(c.path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(c.path, c.mode))
		_, err = Open(dir, Options{})
		assert.True(t, errors.Is(err, os.ErrPermission) && strings.Contains(err.Error(), c.path) &&
			strings.HasPrefix(err.Error(), "filestore: "), "%s: %v", c.path, err)
		r, err := OpenReadOnly(dir)
		assert.True(t, (err == nil) == c.write, "%s: to read: %v", c.path, err)
		if err == nil {
			mustHold(t, r, 8)
		}
		require.NoError(t, os.Chmod(c.path, was.Mode()))
	}
	require.NoError(t, os.Chmod(parent, 0o500))
	defer os.Chmod(parent, 0o700)
	_, err := Open(filepath.Join(parent, "new"), Options{})
	assert.ErrorIs(t, err, os.ErrPermission)
	s = mustOpenReal(t, dir)
	mustHold(t, s, 8)
}

// reachable returns the path of a copy of this binary that any user may run.
func reachable(t *testing.T) string {
	t.Helper()
	b, err1 := os.ReadFile(os.Args[0])
	dir, err2 := os.MkdirTemp("", "filestore")
	require.NoError(t, errors.Join(err1, err2))
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "filestore.test")
	require.NoError(t, errors.Join(os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)))
	return path
}

func mustOpenReal(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := open(disk.OS{}, dir, Options{}, small)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Files are for their owner alone.
func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "log")
	s := mustOpenReal(t, dir)
	grow(t, s, 0, 8)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, failed error) error {
		if failed != nil {
			return failed
		}
		info, err := e.Info()
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		assert.True(t, err == nil && info.Mode().Perm() == want, "%s: mode %v, want %v", path, info.Mode(), want)
		return err
	})
	assert.NoError(t, err)
}

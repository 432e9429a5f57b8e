//go:build unix

package filestore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// Only regular files are files of a log. A pipe, which would be waited for without end, a link and
// a directory are refused by name.
func TestNotARegularFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"00000001.log", "00000003.log", "00000001.index", "00000004.log.new", endName,
		lockName} {
		for what, put := range map[string]func(path string) error{
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"link":      func(path string) error { return os.Symlink("elsewhere", path) },
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			dir := filepath.Join(t.TempDir(), "log")
			s := mustOpenReal(t, dir)
			grow(t, s, 0, 12)
			mustClose(t, s)
			path := filepath.Join(dir, name)
			if _, err := os.Lstat(path); err == nil {
				require.NoError(t, os.Rename(path, filepath.Join(filepath.Dir(dir), "aside")))
			}
			require.NoError(t, put(path))
			done := make(chan error, 2)
			go func() {
				_, err := Open(dir, Options{})
				done <- err
				_, err = OpenReadOnly(dir)
				done <- err
			}()
			for range 2 {
				select {
				case err := <-done:
					assert.ErrorContains(t, err, path+": not a regular file", what)
				case <-time.After(time.Minute):
					t.Fatalf("%s as %s: it hangs", what, name)
				}
			}
		}
	}
}

// The same holds for a file that becomes a pipe after the names were read.
func TestPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	done := make(chan error, 3)
	go func() {
		for _, open := range []func(string) (disk.File, error){disk.OS{}.View, disk.OS{}.Open, disk.OS{}.Create} {
			_, err := open(path)
			done <- err
		}
	}()
	for range 3 {
		select {
		case err := <-done:
			assert.ErrorContains(t, err, path+": not a regular file")
		case <-time.After(time.Minute):
			t.Fatal("it hangs")
		}
	}
}

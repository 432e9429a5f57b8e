package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// On a real disk that is full the store dies, and names the file. The log can be opened although
// there is no room for the number of the process in the lock; and when there is room again it goes
// on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("only root can mount a disk:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	dir, hog := filepath.Join(disk, "log"), filepath.Join(disk, "hog")
	s := mustOpenReal(t, dir)
	grow(t, s, 0, 2)
	require.ErrorIs(t, os.WriteFile(hog, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	n, err := 2, error(nil)
	for ; err == nil && n < 100; n++ {
		err = s.Append(t.Context(), batch(n))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	mustClose(t, s)
	if err := os.WriteFile(hog, make([]byte, 1<<20), 0o600); !errors.Is(err,
		syscall.ENOSPC) { // what was in the lock, too
		t.Fatal(err)
	}
	s = mustOpenReal(t, dir)
	there := int(s.entries / 2)
	if there != n-1 && there != n { // what was being written may be there, whole
		t.Fatalf("%d batches, and %d were acknowledged", there, n-1)
	}
	mustHold(t, s, there)
	require.NoError(t, os.Remove(hog))
	grow(t, s, there, n+5)
	mustHold(t, s, n+5)
	mustClose(t, s)
}

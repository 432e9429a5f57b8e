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

// Condensing on a disk that is full fails, and the store goes on when there is room for that. With
// room for a segment, it condenses.
func TestCondenseOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128k"); err != nil {
		t.Skip("only root can mount a disk:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	dir, hog := filepath.Join(disk, "log"), filepath.Join(disk, "hog")
	s := mustOpenReal(t, dir)
	grow(t, s, 0, 20)
	condensed := []int{0, 1, 2, 5, 9, 10, 19}
	for range 3 {
		require.ErrorIs(t, os.WriteFile(hog, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
		require.ErrorIs(t, s.condense(condensed), syscall.ENOSPC)
		left, err := filepath.Glob(filepath.Join(dir, "*"+newKind))
		require.NoError(t, err)
		require.Empty(t, left, "a file takes room, and there is none")
		mustHold(t, s, 20)
		require.NoError(t, os.Remove(hog))
	}
	mustCondense(t, s, condensed...)
	require.NoError(t, matchesBut(s, 20, condensed))
	grow(t, s, 20, 25)
	mustClose(t, s)
	s = mustOpenReal(t, dir)
	require.NoError(t, matchesBut(s, 25, condensed))
	mustClose(t, s)
}

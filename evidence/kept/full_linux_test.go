package kept

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
)

// TestRealDisk: a directory in which nothing can be written, and a disk that is full, real ones.
// The file stays as it was, and there is no report.
func TestRealDisk(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("a disk of one's own is for root, who runs this; the steps that fail are for everybody:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	f, hog := file{path: filepath.Join(disk, "log.checkpoint")}, filepath.Join(disk, "hog")
	require.NoError(t, Begin(f.path, verified(t, a)))
	refused := func(want error) {
		t.Helper()
		was := f.print(t)
		r, err := b.verify(t.Context(), f)
		assert.True(t, errors.Is(err, want) && r.Level == evidence.Invalid, "%v, %v; want %v", r, err, want)
		assert.Equal(t, was, f.print(t), "was %s\nis", was)
		r, err = a.verify(t.Context(), f)
		assert.True(t, err == nil && r.Success(evidence.Logged), "there is nothing to write: %v, %v", r, err)
		assert.ErrorIs(t, Begin(f.path+"2", verified(t, a)), want, "begun")
	}
	require.ErrorIs(t, os.WriteFile(hog, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	refused(syscall.ENOSPC)
	require.NoError(t, os.Remove(hog))
	f.mustHold(t, a, 0o600)
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	refused(syscall.EROFS)
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, ""))
	r, err := b.verify(t.Context(), f)
	assert.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
	f.mustHold(t, b, 0o600)
}

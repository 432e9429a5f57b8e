package kept

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/helmkernel/helm/evidence"
)

// TestRealDisk: a directory in which nothing can be written, and a disk that is full, real ones. The file stays as it was, and there is no report.
func TestRealDisk(t *testing.T) {
	a, b, _, _, _ := story(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("a disk of one's own is for root, who runs this; the steps that fail are for everybody:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	f, hog := file{path: filepath.Join(disk, "log.checkpoint")}, filepath.Join(disk, "hog")
	if err := Begin(f.path, verified(t, a)); err != nil {
		t.Fatal(err)
	}
	refused := func(want error) {
		t.Helper()
		was := f.print(t)
		if r, err := b.verify(t.Context(), f); !errors.Is(err, want) || r.Level != evidence.Invalid {
			t.Errorf("%v, %v; want %v", r, err, want)
		}
		if is := f.print(t); is != was {
			t.Errorf("was %s\nis  %s", was, is)
		}
		if r, err := a.verify(t.Context(), f); err != nil || !r.Success(evidence.Logged) {
			t.Errorf("there is nothing to write: %v, %v", r, err)
		}
		if err := Begin(f.path+"2", verified(t, a)); !errors.Is(err, want) {
			t.Errorf("begun: %v; want %v", err, want)
		}
	}
	if err := os.WriteFile(hog, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	refused(syscall.ENOSPC)
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	f.mustHold(t, a, 0o600)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused(syscall.EROFS)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if r, err := b.verify(t.Context(), f); err != nil || !r.Success(evidence.Logged) {
		t.Errorf("%v, %v", r, err)
	}
	f.mustHold(t, b, 0o600)
}

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package kept

import (
	"os"
	"syscall"
)

// tryLock takes the exclusive lock of a file, unless another process or goroutine holds it. The
// system releases the lock when the process ends, however it ends.
func tryLock(f *os.File) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
		return true, nil
	case syscall.EWOULDBLOCK, syscall.EINTR:
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// unlock releases the lock and closes the file. Closing alone is not enough while a process that
// was just forked has the file open as well.
func unlock(f *os.File) {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package witness

import (
	"os"
	"syscall"
)

const haveLocks = true

// tryLock takes the exclusive lock of a file, unless it is held. The system releases the lock when
// the process ends, however it ends.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK || err == syscall.EINTR {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return true, nil
}

// unlock releases the lock and closes the file. A process that was just forked may have the file
// open as well, so closing alone is not enough.
func unlock(f *os.File) {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}

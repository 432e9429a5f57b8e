//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package state

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of an open directory, and reports whether no other process has it. It ends
// with the process, if not before.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

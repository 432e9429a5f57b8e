//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lock takes the exclusive lock of a file, which the system lets go of when the process ends, however it ends. The file says who has it.
func (osDisk) lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
	case syscall.EWOULDBLOCK:
		b, _ := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		return nil, held{strings.TrimSpace(string(b)), os.Getpid()}
	default:
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	l := holder{f}
	if err := l.name(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

type holder struct{ f *os.File }

func (h holder) name(pid string) error {
	if err := h.f.Truncate(0); err != nil {
		return err
	}
	_, err := h.f.WriteAt([]byte(pid), 0)
	return err
}

// Close lets go of the lock. The file stays: if it were removed, two processes could each have a lock on a file of that name.
func (h holder) Close() error {
	h.f.Truncate(0)                                      // so that nobody is told of a process that has gone; what is left is only that
	err := syscall.Flock(int(h.f.Fd()), syscall.LOCK_UN) // closing is not enough while a process that was forked just now has the file too
	return errors.Join(err, h.f.Close())
}

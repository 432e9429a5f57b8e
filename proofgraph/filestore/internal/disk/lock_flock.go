//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// noWait opens a pipe without waiting for one who writes to it.
const noWait = syscall.O_NONBLOCK

// Lock takes the exclusive lock of a file. The system releases it when the process ends, however it
// ends. The file contains the number of the process. If the system can, Lock locks the directory
// too: a person may remove the file as a stale one, and then two processes would have a lock each.
func (OS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noWait, 0o600)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		f.Close()
		return nil, err
	}
	h := holder{f, dir}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && flock(dir, syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		err = syscall.EWOULDBLOCK
	}
	switch err {
	case nil:
		h.name(strconv.Itoa(os.Getpid()) + "\n")
		return h, nil
	case syscall.EWOULDBLOCK:
		b, _ := io.ReadAll(io.LimitReader(f, 20))
		err = HeldError{strings.TrimSpace(string(b)), os.Getpid()}
	default:
		err = &os.PathError{Op: "lock", Path: path, Err: err}
	}
	f.Close()
	dir.Close()
	return nil, err
}

func flock(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how) }

type holder struct{ file, dir *os.File }

// name writes the number of the process into the file. It is for people only, so a disk that is
// full is no reason to refuse a log.
func (h holder) name(pid string) {
	if h.file.Truncate(0) == nil {
		h.file.WriteAt([]byte(pid), 0)
	}
}

// Close releases the lock. The file stays: if it were removed, two processes could each have a lock
// on a file of that name.
func (h holder) Close() error {
	h.name("") // the number of a process that has ended would mislead
	// Closing is not enough while a process that was forked just now has the files too.
	// The directory may not be locked.
	err := errors.Join(flock(h.file, syscall.LOCK_UN), h.file.Close())
	flock(h.dir, syscall.LOCK_UN)
	return errors.Join(err, h.dir.Close())
}

package disk

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// Is asks for the number of the inode alone. If a file's times were asked for, as lstat does, Linux
// sets a new one at the next write (since 6.13) and a sync then writes the inode too: a tenth
// more for an Append.
func (f osFile) Is(path string) (bool, error) {
	var is unix.Statx_t
	var err error = unix.EINTR
	for err == unix.EINTR {
		err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &is)
	}
	opened, ok := f.info.Sys().(*syscall.Stat_t)
	switch {
	case err == unix.ENOENT:
		return false, nil
	case err == unix.ENOSYS, err == unix.EPERM: // a kernel, or a filter of system calls, from before there was statx
		return f.named(path)
	case err != nil:
		return false, &fs.PathError{Op: "statx", Path: path, Err: err}
	case !ok || is.Mask&unix.STATX_INO == 0:
		return f.named(path)
	}
	return is.Ino == opened.Ino && unix.Mkdev(is.Dev_major, is.Dev_minor) == uint64(opened.Dev), nil
}

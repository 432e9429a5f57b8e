//go:build unix

package state

import (
	"io/fs"
	"syscall"
)

const errReadOnly = syscall.EROFS

// mayWrite returns an error if this process may not make files in a directory. It makes none.
func mayWrite(dir string) error {
	const write, search = 2, 1
	if err := syscall.Access(dir, write|search); err != nil {
		return &fs.PathError{Op: "write in", Path: dir, Err: err}
	}
	return nil
}

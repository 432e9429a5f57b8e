//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package disk

import (
	"errors"
	"io"
	"os"
)

const noWait = 0

// Lock is refused if no lock ends with its process: two writers would destroy the log.
func (OS) Lock(path string) (io.Closer, error) {
	return nil, &os.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}

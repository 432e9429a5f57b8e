//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package disk

import (
	"errors"
	"io"
	"os"
)

// lock is refused where there is no lock that ends with its process: two writers would destroy the log.
func (OS) lock(path string) (io.Closer, error) {
	return nil, &os.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}

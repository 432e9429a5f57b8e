//go:build !linux && !darwin

package files

import (
	"errors"
	"os"
)

// NewDir returns an error: nobody has shown that a directory of this system is contained.
func NewDir(*os.Root, bool) (FS, error) {
	return nil, errors.New("directories can be granted on Linux and macOS only")
}

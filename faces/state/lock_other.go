//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package state

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("this system has no flock(2), without which tokens are not changed")
}

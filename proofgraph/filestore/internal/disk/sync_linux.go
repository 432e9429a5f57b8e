package disk

import (
	"os"
	"syscall"
)

// Sync is fdatasync: it writes the size with the data, but not times, which nothing needs.
func (f osFile) Sync() error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); failed != syscall.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failed)
}

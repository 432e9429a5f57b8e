package peers

import (
	"os"
	"syscall"
)

func fdatasync(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = syscall.Fdatasync(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failed)
}

package main

import (
	"io/fs"
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

// blocks is what a file takes, holes left out.
func blocks(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

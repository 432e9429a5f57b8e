package main

import (
	"io/fs"
	"os"
	"syscall"
	"time"
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

// processorTime is what this process has used, in the kernel too.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// blocks is what a file takes, holes left out.
func blocks(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

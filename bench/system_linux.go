package main

import (
	"io/fs"
	"syscall"
)

// blocks returns the bytes that a file takes on disk, without holes.
func blocks(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

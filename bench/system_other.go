//go:build !linux

package main

import (
	"io/fs"
	"os"
)

func fdatasync(f *os.File) error { return f.Sync() }

func blocks(info fs.FileInfo) int64 { return info.Size() }

//go:build !linux

package main

import (
	"io/fs"
	"os"
	"time"
)

func fdatasync(f *os.File) error { return f.Sync() }

// processorTime is not known here, and left out of the tables.
func processorTime() time.Duration { return 0 }

func blocks(info fs.FileInfo) int64 { return info.Size() }

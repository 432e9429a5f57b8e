//go:build !linux

package peers

import "os"

func fdatasync(f *os.File) error { return f.Sync() }

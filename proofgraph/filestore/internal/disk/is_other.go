//go:build !linux

package disk

// Is asks by lstat.
func (f osFile) Is(path string) (bool, error) { return f.named(path) }

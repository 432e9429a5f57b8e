// Package disk has the operations that a file store needs from the operating system.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// A Disk is a file system. Tests use another than the machine's, one that fails, tears and forgets.
type Disk interface {
	Mkdir(dir string) error              // one level, unless it is there; durable when it returns
	List(dir string) ([]string, error)   // names, sorted
	Lock(path string) (io.Closer, error) // HeldError if another process has it
	Open(path string) (File, error)      // to read and write an existing file
	View(path string) (File, error)      // to read an existing file
	Create(path string) (File, error)    // to read and write an empty file
	Rename(from, to string) error        // durable after SyncDir, as are Create and Remove
	Remove(path string) error
	SyncDir(dir string) error
}

// A File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Sync() error // the bytes that were written, and the size, are on stable storage
}

// OS is the machine's disk. Only the owner may read directories and files, since they contain the
// arguments of calls.
type OS struct{}

func (OS) Mkdir(dir string) error {
	made := os.Mkdir(dir, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	err := OS{}.SyncDir(dir + "/..")
	if made != nil && errors.Is(err, fs.ErrPermission) { // the process that made it saw to that
		return nil
	}
	return err
}

func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

func (OS) Open(path string) (File, error) { return osOpen(path, os.O_RDWR) }
func (OS) View(path string) (File, error) { return osOpen(path, os.O_RDONLY) }
func (OS) Create(path string) (File, error) {
	return osOpen(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}
func (OS) Rename(from, to string) error { return os.Rename(from, to) }
func (OS) Remove(path string) error     { return os.Remove(path) }

func (OS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// On Linux osFile has a Sync of its own.
type osFile struct{ *os.File }

func osOpen(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a regular file")}
	}
	return info.Size(), nil
}

// Package disk has the operations that a file store needs from the operating system.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Disk is a file system. Tests use another than the machine's, one that fails, tears and forgets.
type Disk interface {
	Mkdir(dir string) error              // one level, unless it is there; durable when it returns
	List(dir string) ([]Name, error)     // in order of names
	Lock(path string) (io.Closer, error) // HeldError if another process has it
	Open(path string) (File, error)      // to read and write an existing file
	View(path string) (File, error)      // to read an existing file
	Create(path string) (File, error)    // to read and write an empty file
	Rename(from, to string) error        // durable after SyncDir, as are Create and Remove
	Remove(path string) error
	SyncDir(dir string) error
}

// A Name is the name of a file in a directory.
type Name struct {
	Name    string
	Regular bool // it is that of a regular file: of no directory, link or pipe
}

// A File is an open regular file. To open any other is an error, and does not wait for one who
// writes to a pipe.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Sync() error                  // the bytes that were written, and the size, are on stable storage
	Is(path string) (bool, error) // reports whether the file has that name
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

func (OS) List(dir string) ([]Name, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var names []Name
	for _, e := range entries {
		names = append(names, Name{e.Name(), e.Type().IsRegular()})
	}
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

// On Linux osFile has a Sync and an Is of its own.
type osFile struct {
	*os.File
	info fs.FileInfo // of when it was opened: it says which file it is
}

func osOpen(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag|noWait, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f, info}, nil
}

// named is Is by what lstat says of the name.
func (f osFile) named(path string) (bool, error) {
	named, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(named, f.info), err
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

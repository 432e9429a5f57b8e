package filestore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// A disk is what the store asks of the operating system. Tests put another in its place, one that fails, tears and forgets.
type disk interface {
	mkdir(dir string) error              // one level, unless it is there; it lasts
	list(dir string) ([]string, error)   // names, sorted
	lock(path string) (io.Closer, error) // errHeld where somebody else has it
	open(path string) (file, error)      // to read and write what is there
	view(path string) (file, error)      // to read what is there
	create(path string) (file, error)    // anew, to read and write
	rename(from, to string) error        // lasts after syncDir, as creating and removing do
	remove(path string) error
	syncDir(dir string) error
}

// A file is one that is open.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Sync() error // what was written is on stable storage, and the size
}

// osDisk is the machine's. Directories and files are for their owner alone, since they hold the arguments of calls.
type osDisk struct{}

func (osDisk) mkdir(dir string) error {
	made := os.Mkdir(dir, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	err := osDisk{}.syncDir(dir + "/..")
	if made != nil && errors.Is(err, fs.ErrPermission) { // who made it there saw to that
		return nil
	}
	return err
}

func (osDisk) list(dir string) ([]string, error) {
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

func (osDisk) open(path string) (file, error) { return osOpen(path, os.O_RDWR) }
func (osDisk) view(path string) (file, error) { return osOpen(path, os.O_RDONLY) }
func (osDisk) create(path string) (file, error) {
	return osOpen(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}
func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }

func (osDisk) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type osFile struct{ *os.File }

func osOpen(path string, flag int) (file, error) {
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

// Sync is fdatasync where there is one: the size is written with the data, and times, which nobody needs, are not.
func (f osFile) Sync() error { return syncData(f.File) }

package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// A disk is what the store asks of the operating system. Tests put another in its place, one that fails, tears and forgets.
type Disk interface {
	Mkdir(dir string) error              // one level, unless it is there; it lasts
	List(dir string) ([]string, error)   // names, sorted
	Lock(path string) (io.Closer, error) // errHeld where somebody else has it
	Open(path string) (File, error)      // to read and write what is there
	View(path string) (File, error)      // to read what is there
	Create(path string) (File, error)    // anew, to read and write
	Rename(from, to string) error        // lasts after syncDir, as creating and removing do
	Remove(path string) error
	SyncDir(dir string) error
}

// A file is one that is open.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Sync() error // what was written is on stable storage, and the size
}

// osDisk is the machine's. Directories and files are for their owner alone, since they hold the arguments of calls.
type OS struct{}

func (OS) Mkdir(dir string) error {
	made := os.Mkdir(dir, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	err := OS{}.SyncDir(dir + "/..")
	if made != nil && errors.Is(err, fs.ErrPermission) { // who made it there saw to that
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

// Sync is fdatasync where there is one: the size is written with the data, and times, which nobody needs, are not.
func (f osFile) Sync() error { return syncData(f.File) }

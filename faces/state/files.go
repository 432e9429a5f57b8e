package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A demand is what is asked of a file before it is read.
type demand int

const (
	regular demand = iota // no pipe and no device: by a link, too
	itself                // and no link: of the state directory
	private               // and nobody but its owner may read it: by a link, too
	own                   // all of that
)

// readWhole reads a file that meets a demand and has at most most bytes.
func readWhole(name string, d demand, most int64) ([]byte, error) {
	f, info, err := openFile(name, d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if mode := info.Mode().Perm(); d >= private && mode&0o077 != 0 {
		return nil, faulty(name, fmt.Sprintf("others may read it (mode %#o)", mode),
			"chmod 600 it, and think about a new one", nil)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case int64(len(b)) > most:
		return nil, faulty(name, fmt.Sprintf("longer than %d bytes", most), "put the right file there", nil)
	}
	return b, nil
}

// openFile opens a file, and does not wait for what would open a pipe's other end.
func openFile(name string, d demand) (*os.File, fs.FileInfo, error) {
	look := os.Stat
	if d == itself || d == own {
		look = os.Lstat
	}
	was, err := look(name)
	switch {
	case err != nil:
		return nil, nil, err
	case was.Mode()&fs.ModeSymlink != 0:
		return nil, nil, faulty(name, "a link", "put the file itself there", nil)
	case !was.Mode().IsRegular():
		return nil, nil, faulty(name, "no regular file", "put one there", nil)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	is, err := f.Stat()
	if err == nil && !os.SameFile(was, is) {
		err = faulty(name, "it was replaced while it was opened", "try again", nil)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, is, nil
}

var errLoose = errors.New("others may look into it")

// checkDir refuses a directory that is none, is a link, or that others may look into.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return faulty(dir, "there is no such directory", "make one by helm init, or name another by dir", err)
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return faulty(dir, "a link", "name the directory itself", nil)
	case !info.IsDir():
		return faulty(dir, "no directory", "put a directory there", nil)
	case info.Mode().Perm()&0o077 != 0:
		what := fmt.Sprintf("others may look into it (mode %#o)", info.Mode().Perm())
		return faulty(dir, what, "chmod 700 it", errLoose)
	}
	return nil
}

// place writes a new file, whole or not at all. It returns an error that Is fs.ErrExist if there is
// one of the name: nothing is replaced.
func place(name string, mode fs.FileMode, b []byte) error {
	return write(name, mode, b, os.Link)
}

// replace writes a file whole, over one that may be there.
func replace(name string, mode fs.FileMode, b []byte) error {
	return write(name, mode, b, os.Rename)
}

// unfinished begins the names of files that are not yet in their place.
const unfinished = ".new-"

func write(name string, mode fs.FileMode, b []byte, to func(string, string) error) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := to(f.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

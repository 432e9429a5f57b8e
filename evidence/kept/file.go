package kept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A file is the file that holds the note.
type file struct {
	path string
	// for tests: called before each step that moves the file, and fails the step with its error
	step func(name string, h *os.File) error
}

func (f file) before(name string, h *os.File) error {
	if f.step == nil {
		return nil
	}
	return f.step(name, h)
}

// patience is how long to wait for another auditor, who holds the lock only for as long as two
// syncs take.
var patience = 10 * time.Second

var errHeld = errors.New("another process has had it locked for ten seconds: see what it is at")

// open opens the file. It refuses a symbolic link, which moving would replace, and a device.
func (f file) open() (*os.File, error) {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil,
			fmt.Errorf("no checkpoint is kept there: see that the path is right, or make the file with Begin: %w", err)
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("a symbolic link: give the path of the file itself")
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	return os.Open(f.path)
}

// read returns the note and the size of the log in it.
func (f file) read() ([]byte, uint64, error) {
	h, err := f.open()
	if err != nil {
		return nil, 0, err
	}
	defer h.Close()
	b, err := io.ReadAll(io.LimitReader(h, maxNote+1))
	if err != nil {
		return nil, 0, err
	}
	size, err := sizeOf(b)
	if err != nil {
		return nil, 0, fmt.Errorf("what is there is no checkpoint: %w", err)
	}
	return b, size, nil
}

// lock opens the file and takes its lock. It returns only if the locked file still has the path:
// another auditor may have replaced it in between.
func (f file) lock(ctx context.Context) (*os.File, error) {
	ended := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		h, err := f.open()
		if err != nil {
			return nil, err
		}
		held := false
		if err = f.before("lock", h); err == nil {
			held, err = tryLock(h)
		}
		if held && f.is(h) {
			return h, nil
		}
		if held {
			unlock(h) // another auditor has replaced this file
			continue
		}
		h.Close()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			if err := ended.Err(); err != nil {
				return nil, err
			}
			return nil, errHeld
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// is reports whether an open file still has the path.
func (f file) is(h *os.File) bool {
	a, err := h.Stat()
	b, berr := os.Lstat(f.path)
	return err == nil && berr == nil && os.SameFile(a, b)
}

// write puts a note on stable storage in a temporary file of the same directory, and calls place
// with its name.
func (f file) write(note []byte, mode fs.FileMode, place func(from string) error) error {
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	h, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*.tmp")
	if err != nil {
		return err
	}
	placed := false
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error { _, err := h.Write(note); return err }},
		{"mode", func() error { return h.Chmod(mode) }},
		{"sync", h.Sync},
		{"close", h.Close},
		{"place", func() error { err := place(h.Name()); placed = err == nil; return err }},
		{"sync of the directory", dir.Sync},
	} {
		if err = f.before(s.name, h); err == nil {
			err = s.do()
		}
		if err != nil {
			break
		}
	}
	if err != nil && !placed {
		h.Close()
		os.Remove(h.Name())
	}
	return err
}

// rename replaces the file.
func (f file) rename(from string) error { return os.Rename(from, f.path) }

// link makes the file, and fails if there is one.
func (f file) link(from string) error {
	if err := os.Link(from, f.path); err != nil {
		return err
	}
	os.Remove(from) // if that fails, the file has a second name
	return nil
}

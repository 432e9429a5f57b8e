package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

const maxText = 64 << 20 // a trust state, a list of tools or a module has no more

// read reads a file, or stdin if its name is -.
func (a *app) read(name string) ([]byte, error) {
	if name == "-" {
		return limited("stdin", a.in)
	}
	f, _, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limited(name, f)
}

func (a *app) readAll(names []string) (all [][]byte, err error) {
	for _, name := range names {
		b, err := a.read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func limited(name string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxText+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(b) > maxText:
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxText)
	}
	return b, nil
}

// open opens a file that has a size.
func open(name string) (*os.File, int64, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, 0, err
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s: a directory: name the file that was made of the log", name)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: no regular file: copy it to one first", name)
	}
	f, err := os.Open(name)
	return f, info.Size(), err
}

func (a *app) trustState(name string) (*registry.State, error) {
	b, err := a.read(name)
	if err != nil {
		return nil, err
	}
	state, err := registry.ParseState(bytes.TrimSuffix(b, []byte("\n")))
	if err != nil {
		return nil, fmt.Errorf("%s: no trust state: %w", name, err)
	}
	return state, nil
}

// key reads a private key, which nobody but its owner may be able to read.
func (a *app) key(name string) (k crypto.PrivateKey, err error) {
	if name != "-" {
		info, err := os.Stat(name)
		if err != nil {
			return k, err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return k, fmt.Errorf("%s: others may read it (mode %#o): chmod 600 it", name, info.Mode().Perm())
		}
	}
	b, err := a.read(name)
	if err != nil {
		return k, err
	}
	if k, err = crypto.LoadKey(bytes.NewReader(b)); err != nil {
		return k, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

// create writes a new file: whole, or not at all. One that is there stays as it is.
func create(name string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s: it is there already, and was not changed", name)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Link(f.Name(), name) // which fails if it has come to be there meanwhile
}

package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/helmkernel/helm/faces/auth"
)

const (
	maxTokens = 4 << 20
	patience  = 10 * time.Second // after which an edit was cut short; one takes some milliseconds
)

// EditTokens replaces the tokens of a state directory by what edit returns of them. The file is
// written whole, and no other EditTokens reads or writes it meanwhile. A process that holds the
// directory may go on: it reads the file again within 10 seconds.
func EditTokens(dir string, edit func([]auth.Token) ([]auth.Token, error)) (err error) {
	if err := checkDir(dir); err != nil {
		return err
	}
	name := filepath.Join(dir, "tokens.json")
	unlock, err := lock(name + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	list, err := ReadTokens(dir)
	if err != nil {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	b := auth.FormatTokens(list)
	if _, err := auth.ParseTokens(b); err != nil {
		return err
	}
	return replace(name, 0o600, b)
}

// ReadTokens returns the tokens of a state directory.
func ReadTokens(dir string) ([]auth.Token, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "tokens.json")
	b, err := readWhole(name, itself, maxTokens)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := auth.ParseTokens(b)
	if err != nil {
		return nil, faulty(name, "no tokens, or a part of them: "+err.Error(),
			"put it back from a backup, or write [] and make new ones by helm token new", err)
	}
	return list, nil
}

// lock makes a file that only one process can make, and waits until it can. One that is older than
// an edit takes is of a process that was killed, and is removed.
func lock(name string) (unlock func() error, err error) {
	for range 2 * patience / (20 * time.Millisecond) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return func() error { return os.Remove(name) }, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > patience {
			os.Remove(name)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, faulty(name, "another process changes the tokens", "if there is none, remove this file", nil)
}

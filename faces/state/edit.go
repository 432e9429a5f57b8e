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
	patience  = 10 * time.Second // for another edit, which takes some milliseconds
	wait      = 10 * time.Millisecond
)

// EditTokens replaces the tokens of a state directory by what edit returns of them. The file is
// written whole, and no other EditTokens reads or writes it meanwhile. A process that holds the
// directory may go on: it reads the file again within 10 seconds.
func EditTokens(dir string, edit func([]auth.Token) ([]auth.Token, error)) (err error) {
	defer func() { err = barred(err) }()
	if err := checkDir(dir); err != nil {
		return err
	}
	name := filepath.Join(dir, "tokens.json")
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	list, err := readTokens(name)
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
	return readTokens(filepath.Join(dir, "tokens.json"))
}

func readTokens(name string) ([]auth.Token, error) {
	b, err := readWhole(name, itself, maxTokens)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := auth.ParseTokens(b)
	if err != nil {
		return nil, faulty(name, "no tokens, or a part of them: "+said(err),
			"put it back from a backup, or write [] and make new ones by helm token new", err)
	}
	return list, nil
}

// lock locks a directory for an edit, and waits until no other process has it.
func lock(dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for range patience / wait {
		locked, err := tryLock(f)
		if locked {
			return f.Close, nil
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		time.Sleep(wait)
	}
	return nil, errors.Join(faulty(dir, "another process changes the tokens", "end it, and try again", nil), f.Close())
}

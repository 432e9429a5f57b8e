package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A target is where the pack goes and, beside it, the trust state: what an auditor needs, and has
// from somebody else than who made the pack.
type target struct {
	pack, trust *whole
	saved       bool
}

func trustName(pack string) string { return strings.TrimSuffix(pack, ".tar") + ".trust.json" }

// aim finds out whether both files can be written, without touching what is there.
func aim(pack string) (*target, error) {
	t := new(target)
	var err error
	if t.pack, err = begin(pack); err == nil {
		t.trust, err = begin(trustName(pack))
	}
	if err != nil {
		t.drop()
		return nil, err
	}
	return t, nil
}

// save writes both files, and only then has them take their places.
func (t *target) save(ctx context.Context, store proofgraph.Store, key crypto.Signer, state *registry.State) error {
	if err := evidence.Write(ctx, t.pack.File, store, key); err != nil {
		return fmt.Errorf("%s: %w", t.pack.name, err)
	}
	if _, err := t.trust.Write(state.Canonical()); err != nil {
		return fmt.Errorf("%s: %w", t.trust.name, err)
	}
	if err := errors.Join(t.pack.finish(), t.trust.finish()); err != nil {
		return err
	}
	t.saved = true
	return nil
}

// drop removes what is not shown. After save it removes nothing.
func (t *target) drop() {
	if t.saved {
		return
	}
	t.pack.drop()
	t.trust.drop()
}

// A whole file is written beside its place, and renamed to it when it is whole: what is there is
// the old file or the new one.
type whole struct {
	*os.File
	name string
}

func begin(name string) (*whole, error) {
	switch info, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist): // as it should be
	case err != nil:
		return nil, fmt.Errorf("-pack: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("-pack: %s: there is something which is no regular file: name another", name)
	default: // a rename would not ask
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("-pack: %w", err)
		}
		f.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".quickstart-*")
	if err != nil {
		return nil, fmt.Errorf("-pack: %s: no file can be made there: %w", name, err)
	}
	return &whole{f, name}, nil
}

func (w *whole) finish() error {
	if err := errors.Join(w.Chmod(0o644), w.Sync(), w.Close()); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if err := os.Rename(w.Name(), w.name); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}

func (w *whole) drop() {
	if w != nil {
		w.Close()
		os.Remove(w.Name())
	}
}

// apart refuses a pack, or a trust state, that would replace the key: whatever the names, there is
// one file, or would be.
func apart(pack, key string) error {
	for _, name := range []string{pack, trustName(pack)} {
		if same(name, key) || filepath.Base(name) == filepath.Base(key) && same(filepath.Dir(name), filepath.Dir(key)) {
			return fmt.Errorf("-pack and -key: %s is the file of the key: name another", name)
		}
	}
	return nil
}

// same is so for two names of one file that is there.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

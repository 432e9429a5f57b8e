// Package output writes the files of an example: the pack, the trust state and the key.
package output

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

// A Pack is a pack and its trust state, which are written next to each other. An auditor needs
// both, and has the trust state from another source than the pack.
type Pack struct {
	pack, trust *whole
	saved       bool
}

// TrustName returns the name of the trust state's file.
func TrustName(pack string) string { return strings.TrimSuffix(pack, ".tar") + ".trust.json" }

// New reports in its error if one of the files cannot be written. It does not touch existing files.
func New(pack string) (*Pack, error) {
	t := new(Pack)
	var err error
	if t.pack, err = begin(pack); err == nil {
		t.trust, err = begin(TrustName(pack))
	}
	if err != nil {
		t.Drop()
		return nil, err
	}
	return t, nil
}

// Save writes both files, and only then renames them to their names.
func (t *Pack) Save(ctx context.Context, store proofgraph.Store, key crypto.Signer, state *registry.State) error {
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

// Drop removes files that were not saved.
func (t *Pack) Drop() {
	if t.saved {
		return
	}
	t.pack.drop()
	t.trust.drop()
}

// A whole file is written under another name in its directory, and renamed when it is complete: at
// any time there is the old file or the new one.
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

// Apart refuses a pack, or a trust state, that would replace the key, by whatever name.
func Apart(pack, key string) error {
	for _, name := range []string{pack, TrustName(pack)} {
		if same(name, key) || filepath.Base(name) == filepath.Base(key) && same(filepath.Dir(name), filepath.Dir(key)) {
			return fmt.Errorf("-pack and -key: %s is the file of the key: name another", name)
		}
	}
	return nil
}

// same reports whether two names are of one existing file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

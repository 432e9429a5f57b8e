package state

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// CreateOptions say who governs the log that begins in a new directory. The zero value makes a root
// key, which belongs somewhere else than on this machine.
type CreateOptions struct {
	Threshold int            // number of roots that must sign a change; 0 is 1
	Keys      []registry.Key // the roots, and other keys of the beginning; without a root one is made
}

const configText = `helm: config/v1
dir: state
policy: [policy.yaml]
listen: {mcp: "127.0.0.1:9191"}
`

const policyText = `# Nothing is allowed. helm policy new drafts a bundle from the tools of a server: name its file in
# helm.yaml, in place of this one.
helm: policy/v1
layer: P1
bundle: {name: none, version: 1}
tools: {}
rules: []
`

// Create makes a directory from which a process can start, and which denies every call: helm.yaml,
// policy.yaml, and the state directory state with a key and a trust state. Without roots in o there
// is also root.pem, which signs changes of who may sign. It replaces nothing: if one of these is
// there, or what a Create that was killed left, it returns an error, and has made nothing.
func Create(dir string, o CreateOptions) error {
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	files := map[string][]byte{"helm.yaml": []byte(configText), "policy.yaml": []byte(policyText)}
	keys, threshold := o.Keys, max(o.Threshold, 1)
	if !hasRoot(keys) {
		root, err := crypto.GenerateKey()
		if err != nil {
			return err
		}
		public, err := crypto.PublicOf(root)
		if err != nil {
			return err
		}
		keys = append(keys[:len(keys):len(keys)], registry.Key{Name: "root", Public: public, Role: registry.Root})
		if files["root.pem"], err = keyText(root); err != nil {
			return err
		}
	}
	trust, err := initialOf(threshold, keys, key)
	if err != nil {
		return err
	}
	text, err := keyText(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := leftBehind(dir); err != nil {
		return err
	}
	for _, name := range []string{"helm.yaml", "policy.yaml", "root.pem", "state"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return faulty(filepath.Join(dir, name), "it is there already, and nothing was changed",
				"choose another directory", nil)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return put(dir, files, map[string][]byte{"key.pem": text, "trust.json": append(trust.Canonical(), '\n')})
}

// leftBehind returns an error if something that was killed, or that runs now, has not put a file of
// this directory in its place: that may be a key.
func leftBehind(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			const what = "left by an init that was killed, or that runs now: it may hold a key"
			const remedy = "if none runs, remove it, and what else helm init made there"
			return faulty(filepath.Join(dir, e.Name()), what, remedy, nil)
		}
	}
	return nil
}

// put writes the state directory next to its place and renames it, so that it is whole when it is
// there. It comes last: a directory without it is not begun.
func put(dir string, files, inside map[string][]byte) (err error) {
	var made []string
	defer func() {
		for _, name := range made {
			if err != nil {
				os.RemoveAll(name)
			}
		}
	}()
	name := filepath.Join(dir, unfinished+rand.Text())
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	made = append(made, name)
	for file, b := range inside {
		if err := place(filepath.Join(name, file), 0o600, b); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(name, "approvals"), 0o700); err != nil {
		return err
	}
	for file, b := range files {
		mode := fs.FileMode(0o644)
		if filepath.Ext(file) == ".pem" {
			mode = 0o600
		}
		if err := place(filepath.Join(dir, file), mode, b); err != nil {
			return err
		}
		made = append(made, filepath.Join(dir, file))
	}
	if err := os.Rename(name, filepath.Join(dir, "state")); err != nil {
		return err
	}
	return syncDir(dir)
}

func hasRoot(keys []registry.Key) bool {
	for _, k := range keys {
		if k.Role == registry.Root {
			return true
		}
	}
	return false
}

// initialOf returns the state in which a log of that key starts, whose log key is derived.
func initialOf(threshold int, keys []registry.Key, key crypto.PrivateKey) (*registry.State, error) {
	r, err := registry.New(threshold, keys...)
	if err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return nil, err
	}
	log, err := crypto.PublicOf(crypto.DeriveLogKey(key))
	if err != nil {
		return nil, err
	}
	return r.Initial(public, log)
}

func keyText(k crypto.PrivateKey) ([]byte, error) {
	var b bytes.Buffer
	err := crypto.WriteKey(&b, k)
	return b.Bytes(), err
}

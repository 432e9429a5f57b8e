package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/helmkernel/helm/crypto"
)

// Key reads the key in a file, or makes the key and the file.
func Key(name string) (crypto.PrivateKey, error) {
	b, err := os.ReadFile(name)
	if err == nil {
		key, err := crypto.LoadKey(bytes.NewReader(b))
		if err != nil {
			return key, fmt.Errorf("-key %s: %w", name, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return crypto.PrivateKey{}, fmt.Errorf("-key: %w", err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return key, err
	}
	var text bytes.Buffer
	if err := crypto.WriteKey(&text, key); err != nil {
		return key, err
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		return key, fmt.Errorf("-key: %w", err)
	}
	return key, nil
}

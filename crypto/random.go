package crypto

import (
	"crypto/rand"
	"fmt"
	"io"
)

// ReadRandom fills b from r, or from crypto/rand if r is nil. If the reader panics it returns an
// error.
func ReadRandom(r io.Reader, b []byte) (err error) {
	if r == nil {
		r = rand.Reader
	}
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("crypto: the source of randomness panicked")
		}
	}()
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("crypto: no randomness: %w", err)
	}
	return nil
}

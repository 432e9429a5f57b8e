package witness

import (
	"bytes"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	helmcrypto "github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/clock"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
)

// typeCosignature is the type of the keys of cosignature/v1, Ed25519, in a verifier key.
const typeCosignature = 0x04

// A cosigner makes the lines of a witness.
type cosigner struct {
	name   string
	key    crypto.Signer // pinned
	public helmcrypto.PublicKey
	hash   uint32
	clock  *clock.Clock
}

func newCosigner(name string, key crypto.Signer, now func() time.Time) (*cosigner, error) {
	if !isName(name) {
		return nil, errors.New("witness: Name is not the name of a key: it has 1 to 255 characters, no space and no +")
	}
	key, err := helmcrypto.Pin(key)
	if err != nil {
		return nil, fmt.Errorf("witness: Key: %w", err)
	}
	public, err := helmcrypto.PublicOf(key)
	if err != nil {
		return nil, fmt.Errorf("witness: Key: %w", err)
	}
	id := helmcrypto.Sum(append([]byte(name+"\n"), keyBytes(public)...))
	read := now
	if now != nil {
		read = func() (t time.Time) { // the zero Time, which the clock refuses, if it panics
			defer contain.Value(&t, time.Time{})
			return now()
		}
	}
	return &cosigner{name, key, public, binary.BigEndian.Uint32(id[:]), clock.New(read)}, nil
}

// isName reports whether a signature line can have that name.
func isName(name string) bool {
	illegal := func(r rune) bool { return r < 0x20 || r == '+' || unicode.IsSpace(r) }
	return name != "" && len(name) <= 255 && utf8.ValidString(name) && !strings.ContainsFunc(name, illegal)
}

func keyBytes(public helmcrypto.PublicKey) []byte { return append([]byte{typeCosignature}, public...) }

// verifierKey returns name+hash+base64.
func (c *cosigner) verifierKey() string {
	return fmt.Sprintf("%s+%08x+%s", c.name, c.hash, helmcrypto.AppendBase64(nil, keyBytes(c.public)))
}

// line returns the line of a cosignature over the body of a checkpoint, at the present time.
func (c *cosigner) line(ctx context.Context, body []byte, ask asker) ([]byte, error) {
	now, err := c.clock.Now()
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	seconds := now.Time().Unix()
	if seconds <= 0 {
		return nil, errors.New("witness: the clock shows 1970")
	}
	msg := strconv.AppendInt([]byte("cosignature/v1\ntime "), seconds, 10)
	msg = append(append(msg, '\n'), body...)
	sig, err := ask.sign(ctx, c.key, msg)
	if err != nil {
		return nil, fmt.Errorf("witness: Key: %w", err)
	}
	stamped := binary.BigEndian.AppendUint64(nil, uint64(seconds))
	return cosign.AppendLine(nil, proofgraph.SignatureLine{Name: c.name, KeyHash: c.hash,
		Signature: append(stamped, sig...)}), nil
}

// bodyOf returns the lines that are signed.
func bodyOf(c proofgraph.Checkpoint) []byte {
	body, _, _ := bytes.Cut(c.Note, []byte("\n\n"))
	return append(bytes.Clone(body), '\n')
}

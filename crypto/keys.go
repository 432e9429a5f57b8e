package crypto

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// PublicKey is an Ed25519 public key of 32 bytes. Pass a key from an untrusted source to
// [CheckPublicKey] first.
type PublicKey = ed25519.PublicKey

// KeyID returns the id of a public key, the SHA-256 of its 32 bytes.
func KeyID(pub PublicKey) Digest { return Sum(pub) }

// PrivateKey is an Ed25519 key in memory. It is a [Signer]. The zero PrivateKey signs nothing.
// Printed or marshalled in any way, it shows its key id and nothing else; only [WriteKey] writes
// the key. It is safe for concurrent use by multiple goroutines.
type PrivateKey struct {
	pair *keyPair
}

// keyPair holds the key through a second pointer. If a PrivateKey is in an unexported field, fmt
// cannot call its methods, and for a verb that does not apply to pointers, such as %s, it prints
// the value that the first pointer points to.
type keyPair struct {
	private *[ed25519.PrivateKeySize]byte // seed, public key
	id      Digest
}

var _ Signer = PrivateKey{}

// GenerateKey returns a new key from the system's random source.
func GenerateKey() (PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return PrivateKey{}, fmt.Errorf("crypto: generate key: %v", err)
	}
	return NewKeyFromSeed(seed)
}

// NewKeyFromSeed returns the key of an RFC 8032 seed of 32 bytes, which must be random and secret.
func NewKeyFromSeed(seed []byte) (PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return PrivateKey{}, fmt.Errorf("crypto: key seed: %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	private := [ed25519.PrivateKeySize]byte(ed25519.NewKeyFromSeed(seed))
	return PrivateKey{&keyPair{&private, KeyID(private[ed25519.SeedSize:])}}, nil
}

// logKeyInfo separates the key that signs checkpoints from other keys that might be derived from
// the same seed.
const logKeyInfo = "helm checkpoint"

// DeriveLogKey returns the key that signs checkpoints if no other is given: HKDF-SHA256 of the seed
// of k, without salt. It protects against confusing the two roles, not against theft of k. For the
// zero PrivateKey it returns the zero PrivateKey.
func DeriveLogKey(k PrivateKey) PrivateKey {
	if k.pair == nil {
		return PrivateKey{}
	}
	seed, err := hkdf.Key(sha256.New, k.pair.private[:ed25519.SeedSize], nil, logKeyInfo, ed25519.SeedSize)
	if err != nil {
		return PrivateKey{} // cannot happen: HKDF can return this length
	}
	log, _ := NewKeyFromSeed(seed)
	return log
}

// Public returns the [PublicKey], of length 0 for the zero PrivateKey.
func (k PrivateKey) Public() crypto.PublicKey {
	if k.pair == nil {
		return PublicKey(nil)
	}
	return PublicKey(bytes.Clone(k.pair.private[ed25519.SeedSize:]))
}

// Sign returns the Ed25519 signature of msg, without prehash or context: opts must be
// crypto.Hash(0). It does not use the reader.
func (k PrivateKey) Sign(_ io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != crypto.Hash(0) { // ed25519.Options too, which may ask for a context
		return nil, errPlain
	}
	return k.sign(msg)
}

var errPlain = errors.New("crypto: sign: only plain Ed25519, crypto.Hash(0), is supported")

func (k PrivateKey) sign(msg []byte) ([]byte, error) {
	if k.pair == nil {
		return nil, errors.New("crypto: sign: the zero PrivateKey signs nothing; make one with GenerateKey or LoadKey")
	}
	return ed25519.Sign(k.pair.private[:], msg), nil
}

// String returns "private key" and the key id.
func (k PrivateKey) String() string {
	if k.pair == nil {
		return "no private key"
	}
	return "private key " + k.pair.id.String()
}

// GoString returns the same as String.
func (k PrivateKey) GoString() string { return k.String() }

// Format prints the same as String for every verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { io.WriteString(s, k.String()) }

// MarshalText returns an error. Use [WriteKey].
func (k PrivateKey) MarshalText() ([]byte, error) {
	return nil, errors.New("crypto: a private key is not marshalled; WriteKey writes it")
}

// MarshalJSON returns an error. Use [WriteKey].
func (k PrivateKey) MarshalJSON() ([]byte, error) { return k.MarshalText() }

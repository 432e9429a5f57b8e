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

// PublicKey is an Ed25519 public key of 32 bytes. One that comes from elsewhere goes through [CheckPublicKey] first.
type PublicKey = ed25519.PublicKey

// KeyID names a public key: the SHA-256 of its 32 bytes.
func KeyID(pub PublicKey) Digest { return Sum(pub) }

// PrivateKey is an Ed25519 key held in memory, a [Signer]. The zero PrivateKey signs nothing. However it is printed or marshalled, it
// shows its key id and no more; only [WriteKey] writes it. It is safe for concurrent use by multiple goroutines.
type PrivateKey struct {
	pair *keyPair
}

// keyPair holds the key behind a second pointer: where a PrivateKey is an unexported field, fmt cannot call its methods, and with a verb
// that does not suit a pointer, say %s, it prints what the first one points to.
type keyPair struct {
	private *[ed25519.PrivateKeySize]byte // seed, public key
	id      Digest
}

var _ Signer = PrivateKey{}

// GenerateKey makes a key from the system's randomness.
func GenerateKey() (PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return PrivateKey{}, fmt.Errorf("crypto: generate key: %v", err)
	}
	return NewKeyFromSeed(seed)
}

// NewKeyFromSeed makes the key of an RFC 8032 seed, 32 secret random bytes.
func NewKeyFromSeed(seed []byte) (PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return PrivateKey{}, fmt.Errorf("crypto: key seed: %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	private := [ed25519.PrivateKeySize]byte(ed25519.NewKeyFromSeed(seed))
	return PrivateKey{&keyPair{&private, KeyID(private[ed25519.SeedSize:])}}, nil
}

// logKeyInfo separates the key that signs checkpoints from all else that might be derived from the same seed.
const logKeyInfo = "helm checkpoint"

// DeriveLogKey gives the key that signs checkpoints where there is no other: HKDF-SHA256 of the seed, without salt. It protects against
// mixing up roles, not against a thief of k. That of the zero PrivateKey is the zero PrivateKey.
func DeriveLogKey(k PrivateKey) PrivateKey {
	if k.pair == nil {
		return PrivateKey{}
	}
	seed, err := hkdf.Key(sha256.New, k.pair.private[:ed25519.SeedSize], nil, logKeyInfo, ed25519.SeedSize)
	if err != nil {
		return PrivateKey{} // cannot be: the length is one that HKDF gives
	}
	log, _ := NewKeyFromSeed(seed)
	return log
}

// Public gives the PublicKey, of length 0 for the zero PrivateKey.
func (k PrivateKey) Public() crypto.PublicKey {
	if k.pair == nil {
		return PublicKey(nil)
	}
	return PublicKey(bytes.Clone(k.pair.private[ed25519.SeedSize:]))
}

// Sign makes an Ed25519 signature of msg, without prehash or context: opts must be crypto.Hash(0). The reader is not used.
func (k PrivateKey) Sign(_ io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != crypto.Hash(0) { // ed25519.Options too: they may ask for a context
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

// String names the key by its id.
func (k PrivateKey) String() string {
	if k.pair == nil {
		return "no private key"
	}
	return "private key " + k.pair.id.String()
}

// GoString is String.
func (k PrivateKey) GoString() string { return k.String() }

// Format prints String, whatever the verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { io.WriteString(s, k.String()) }

// MarshalText refuses: see [WriteKey].
func (k PrivateKey) MarshalText() ([]byte, error) {
	return nil, errors.New("crypto: a private key is not marshalled; WriteKey writes it")
}

// MarshalJSON refuses: see [WriteKey].
func (k PrivateKey) MarshalJSON() ([]byte, error) { return k.MarshalText() }

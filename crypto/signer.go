package crypto

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
)

// Signer is a private key in memory or elsewhere: a standard [crypto.Signer] whose Public is an
// Ed25519 key.
type Signer = crypto.Signer

// PublicOf returns the public key of s after [CheckPublicKey]. If s panics it returns an error.
func PublicOf(s Signer) (PublicKey, error) {
	pub, err := publicOf(s)
	if err != nil {
		return nil, err
	}
	if _, made := s.(PrivateKey); made { // of a seed, so its public key is a multiple of the base point
		return pub, nil
	}
	if err := CheckPublicKey(pub); err != nil {
		return nil, err
	}
	return pub, nil
}

func publicOf(s Signer) (pub PublicKey, err error) {
	switch k := s.(type) {
	case nil:
		return nil, errors.New("crypto: signer: there is none")
	case PrivateKey:
		if k.pair == nil {
			return nil, errZeroKey
		}
	case ed25519.PrivateKey:
		if len(k) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("crypto: signer: an ed25519.PrivateKey of %d bytes, want %d", len(k),
				ed25519.PrivateKeySize)
		}
	}
	defer func() {
		if recover() != nil { // the panic value is not shown: it may hold the key
			pub, err = nil, errors.New("crypto: signer: Public panicked")
		}
	}()
	switch p := s.Public().(type) {
	case PublicKey:
		return bytes.Clone(p), nil
	default:
		return nil, fmt.Errorf("crypto: signer: public key is a %T, want an ed25519.PublicKey", p)
	}
}

var errZeroKey = errors.New("crypto: signer: the zero PrivateKey; make one with GenerateKey or LoadKey")

// InMemory returns the key of a Signer that holds it in memory: a [PrivateKey], an
// ed25519.PrivateKey, which it copies, or a pointer to one of them. It reports false for any other
// Signer, and for an ed25519.PrivateKey whose two halves do not match.
func InMemory(s Signer) (PrivateKey, bool) {
	var raw ed25519.PrivateKey
	switch k := s.(type) {
	case PrivateKey:
		return k, k.pair != nil
	case *PrivateKey:
		if k == nil {
			return PrivateKey{}, false
		}
		return *k, k.pair != nil
	case ed25519.PrivateKey:
		raw = k
	case *ed25519.PrivateKey:
		if k != nil {
			raw = *k
		}
	}
	if len(raw) != ed25519.PrivateKeySize {
		return PrivateKey{}, false
	}
	k, err := NewKeyFromSeed(raw[:ed25519.SeedSize])
	if err != nil || subtle.ConstantTimeCompare(k.pair.private[:], raw) == 0 {
		return PrivateKey{}, false
	}
	return k, true
}

// Sign returns the Ed25519 signature of msg. It does not verify the signature of a [PrivateKey].
// Any other Signer may be remote, so its signature is verified: a wrong one must not get into a
// log. Such a Signer gets a copy of msg. If it panics, Sign returns an error; if it ends the
// goroutine, the goroutine ends.
func Sign(s Signer, msg []byte) ([]byte, error) {
	switch k := s.(type) {
	case PrivateKey:
		return k.sign(msg)
	case *PrivateKey:
		if k != nil {
			return k.sign(msg)
		}
	case *pinned:
		return signVerified(k.signer, k.public, msg)
	}
	pub, err := publicOf(s)
	if err != nil {
		return nil, err
	}
	return signVerified(s, pub, msg)
}

// AppendSignature appends the signature that [Sign] returns to dst. If dst has room, a [PrivateKey]
// signs without allocating.
func AppendSignature(dst []byte, s Signer, msg []byte) ([]byte, error) {
	if k, ok := s.(PrivateKey); ok && k.pair != nil {
		return append(dst, ed25519.Sign(k.pair.private[:], msg)...), nil
	}
	sig, err := Sign(s, msg)
	if err != nil {
		return dst, err
	}
	return append(dst, sig...), nil
}

func signVerified(s Signer, pub PublicKey, msg []byte) (sig []byte, err error) {
	defer func() {
		if recover() != nil {
			sig, err = nil, errors.New("crypto: sign: the signer panicked")
		}
	}()
	sig, err = s.Sign(rand.Reader, bytes.Clone(msg), crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("crypto: sign: %w", err)
	}
	if len(sig) != ed25519.SignatureSize {
		return nil, fmt.Errorf("crypto: sign: the signer returned %d bytes, want %d", len(sig), ed25519.SignatureSize)
	}
	sig = bytes.Clone(sig) // before it is verified: the signer may keep the slice that it returned
	if !Verify(pub, msg, sig) {
		return nil, errors.New("crypto: sign: what the signer returned is not its signature of the message")
	}
	return sig, nil
}

// Pin checks the public key of a Signer and binds the Signer to it: [Sign] refuses signatures that
// do not verify under that key, even if a remote Signer changes its key. For a Signer that is
// [InMemory] it returns the [PrivateKey], whose signatures are not verified.
func Pin(s Signer) (Signer, error) {
	if k, ok := InMemory(s); ok {
		return k, nil
	}
	pub, err := PublicOf(s)
	if err != nil {
		return nil, err
	}
	return &pinned{s, pub}, nil
}

type pinned struct {
	signer Signer
	public PublicKey
}

func (p *pinned) Public() crypto.PublicKey { return PublicKey(bytes.Clone(p.public)) }

func (p *pinned) Sign(_ io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != crypto.Hash(0) {
		return nil, errPlain
	}
	return signVerified(p.signer, p.public, msg)
}

// Verify reports whether sig is an Ed25519 signature of msg, by the rule of the standard library.
// The key must be one that [CheckPublicKey] accepts.
func Verify(pub PublicKey, msg, sig []byte) bool {
	// ed25519.Verify panics on keys of another length
	return len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, msg, sig)
}

package crypto

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"io"
	"strings"
	"testing"
)

// remote is a Signer that is not in memory, as far as anyone can tell, and does what a test wants.
type remote struct {
	public func() crypto.PublicKey
	sign   func(msg []byte, opts crypto.SignerOpts) ([]byte, error)
}

func (r remote) Public() crypto.PublicKey { return r.public() }

func (r remote) Sign(random io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if random == nil {
		return nil, errors.New("no randomness")
	}
	return r.sign(msg, opts)
}

func remoteOf(k PrivateKey) remote {
	return remote{k.Public, func(msg []byte, opts crypto.SignerOpts) ([]byte, error) { return k.Sign(nil, msg, opts) }}
}

func TestRemoteSigner(t *testing.T) {
	k := testKey(t)
	far := remoteOf(k)
	_, ok := InMemory(far)
	assert.False(t, ok, "a remote signer is in memory")
	assert.True(t, bytes.Equal(mustPublic(t, far), mustPublic(t, k)), "another public key")
	near, err := Sign(k, []byte("m"))
	require.NoError(t, err)
	if sig, err := Sign(far, []byte("m")); err != nil || !bytes.Equal(sig, near) {
		t.Error("a remote key signs as one in memory", err)
	}
}

func TestBadSigners(t *testing.T) {
	k, other := testKey(t), DeriveLogKey(testKey(t))
	cause := errors.New("the network is down")
	good := func() ([]byte, error) { return Sign(k, []byte("m")) }
	for name, test := range map[string]struct {
		sign func() ([]byte, error)
		want string
	}{
		"an error":              {func() ([]byte, error) { return nil, cause }, "the network is down"},
		"a signature and error": {func() ([]byte, error) { sig, _ := good(); return sig, cause }, "the network is down"},
		"nothing":               {func() ([]byte, error) { return nil, nil }, "0 bytes"},
		"63 bytes":              {func() ([]byte, error) { sig, err := good(); return sig[:63], err }, "63 bytes"},
		"65 bytes":              {func() ([]byte, error) { sig, err := good(); return append(sig, 0), err }, "65 bytes"},
		"zeros":                 {func() ([]byte, error) { return make([]byte, 64), nil }, "not its signature"},
		"another message":       {func() ([]byte, error) { return Sign(k, []byte("n")) }, "not its signature"},
		"another key":           {func() ([]byte, error) { return Sign(other, []byte("m")) }, "not its signature"},
		"a panic":               {func() ([]byte, error) { panic("the seed is 9d61b19d") }, "panicked"},
		"a nil panic":           {func() ([]byte, error) { panic(nil) }, "panicked"},
	} {
		s := remote{k.Public, func([]byte, crypto.SignerOpts) ([]byte, error) { return test.sign() }}
		pinned, err := Pin(s)
		require.NoError(t, err)
		for _, s := range []Signer{s, pinned} {
			sig, err := Sign(s, []byte("m"))
			if err == nil || sig != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "9d61") {
				t.Errorf("%s: %x, %v", name, sig, err)
			}
			if test.want == cause.Error() && !errors.Is(err, cause) {
				t.Errorf("%s: the cause is lost", name)
			}
		}
	}
	if _, err := good(); err != nil { // or all of the above were refused for nothing
		t.Error(err)
	}
}

func TestBadPublicKeys(t *testing.T) {
	k := testKey(t)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	pub := mustPublic(t, k)
	for name, public := range map[string]func() crypto.PublicKey{
		"nothing":     func() crypto.PublicKey { return nil },
		"bytes":       func() crypto.PublicKey { return []byte(pub) },
		"a pointer":   func() crypto.PublicKey { return &pub },
		"P-256":       p256.Public,
		"short":       func() crypto.PublicKey { return pub[:31] },
		"the zero":    func() crypto.PublicKey { return PublicKey(nil) },
		"small order": func() crypto.PublicKey { return PublicKey(make([]byte, 32)) },
		"a panic":     func() crypto.PublicKey { panic("at the disco") },
	} {
		s := remote{public, remoteOf(k).sign}
		if _, err := PublicOf(s); err == nil {
			t.Errorf("%s: PublicOf accepts it", name)
		}
		if _, err := Pin(s); err == nil {
			t.Errorf("%s: Pin accepts it", name)
		}
		if sig, err := Sign(s, []byte("m")); err == nil || sig != nil {
			t.Errorf("%s: Sign accepts it", name)
		}
	}
	var none *PrivateKey
	for _, s := range []Signer{nil, none, (*remote)(nil), ed25519.PrivateKey(nil), ed25519.PrivateKey(make([]byte, 63)), (*ed25519.PrivateKey)(nil)} {
		_, ok := InMemory(s)
		assert.False(t, ok, "%T: in memory", s)
		if _, err := PublicOf(s); err == nil {
			t.Errorf("%T: PublicOf accepts it", s)
		}
		if _, err := Pin(s); err == nil {
			t.Errorf("%T: Pin accepts it", s)
		}
		if _, err := Sign(s, nil); err == nil {
			t.Errorf("%T: Sign accepts it", s)
		}
	}
}

// TestSignerThatKeepsItsArguments changes the message while it is signed, and the signature after it was returned.
func TestSignerThatKeepsItsArguments(t *testing.T) {
	k := testKey(t)
	var kept []byte
	s := remote{k.Public, func(msg []byte, opts crypto.SignerOpts) (sig []byte, err error) {
		sig, err = k.Sign(nil, msg, opts)
		clear(msg)
		kept = sig
		return sig, err
	}}
	msg := []byte("message")
	sig, err := Sign(s, msg)
	require.NoError(t, err)
	clear(kept)
	if string(msg) != "message" || !Verify(mustPublic(t, k), msg, sig) {
		t.Error("the signer could change the message or the signature")
	}
}

func TestInMemory(t *testing.T) {
	k := testKey(t)
	raw := ed25519.PrivateKey(bytes.Clone(k.pair.private[:]))
	for _, s := range []Signer{k, &k, raw, &raw} {
		got, ok := InMemory(s)
		if !ok || !bytes.Equal(mustPublic(t, got), mustPublic(t, k)) {
			t.Errorf("%T: not recognised", s)
		}
		if sig, err := Sign(s, []byte("m")); err != nil || !Verify(mustPublic(t, k), []byte("m"), sig) {
			t.Errorf("%T: %v", s, err)
		}
	}
	copied, _ := InMemory(raw)
	pinned, err := Pin(raw)
	require.NoError(t, err)
	clear(raw)
	for _, s := range []Signer{copied, pinned} {
		if sig, err := Sign(s, []byte("m")); err != nil || !Verify(mustPublic(t, k), []byte("m"), sig) {
			t.Error("the key changed with the slice it was made from", err)
		}
	}
	mixed := append(bytes.Clone(k.pair.private[:32]), mustPublic(t, DeriveLogKey(k))...) // signing with these gives the seed away
	_, ok := InMemory(ed25519.PrivateKey(mixed))
	assert.False(t, ok, "two halves of two keys are a key")
	if sig, err := Sign(ed25519.PrivateKey(mixed), []byte("m")); err == nil || sig != nil {
		t.Error("two halves of two keys sign")
	}
}

// TestPin exchanges the key behind a remote signer: its signatures are good, but not those of the key that was pinned.
func TestPin(t *testing.T) {
	first, second := testKey(t), DeriveLogKey(testKey(t))
	now := first
	s := remote{func() crypto.PublicKey { return now.Public() },
		func(msg []byte, opts crypto.SignerOpts) ([]byte, error) { return now.Sign(nil, msg, opts) }}
	pinned, err := Pin(s)
	require.NoError(t, err)
	sign := func(s Signer) error {
		sig, err := Sign(s, []byte("m"))
		if err == nil && !Verify(mustPublic(t, s), []byte("m"), sig) {
			t.Error("a signature of no key")
		}
		direct, derr := s.Sign(rand.Reader, []byte("m"), crypto.Hash(0))
		if s == pinned && ((err == nil) != (derr == nil) || !bytes.Equal(sig, direct)) {
			t.Error("the pinned signer's own Sign differs:", derr)
		}
		return err
	}
	require.NoError(t, sign(pinned))
	now = second
	assert.Error(t, sign(pinned), "another key signed for the pinned one")
	assert.True(t, bytes.Equal(mustPublic(t, pinned), mustPublic(t, first)), "the pinned key changed")
	if again, err := Pin(pinned); err != nil || !bytes.Equal(mustPublic(t, again), mustPublic(t, first)) {
		t.Error("a pinned signer cannot be pinned again", err)
	}
	_, err = pinned.Sign(rand.Reader, []byte("m"), crypto.SHA512)
	assert.Error(t, err, "the pinned signer signed a hash")
	if k, err := Pin(first); err != nil || k != Signer(first) {
		t.Error("a key in memory is pinned as it is", err)
	}
}

func TestVerifyMangled(t *testing.T) {
	k := testKey(t)
	pub, msg := mustPublic(t, k), []byte("a message")
	sig, err := Sign(k, msg)
	if err != nil || !Verify(pub, msg, sig) {
		t.Fatal("a good signature is refused", err)
	}
	for i := range 8 * len(sig) {
		bad := bytes.Clone(sig)
		bad[i/8] ^= 1 << (i % 8)
		if Verify(pub, msg, bad) || Verify(pub, msg, sig[:i/8]) {
			t.Fatalf("bit %d", i)
		}
	}
	for i := range 8 * len(pub) {
		bad := bytes.Clone(pub)
		bad[i/8] ^= 1 << (i % 8)
		if Verify(bad, msg, sig) || Verify(pub[:i/8], msg, sig) {
			t.Fatalf("bit %d of the key", i)
		}
	}
	if Verify(nil, msg, sig) || Verify(append(bytes.Clone(pub), 0), msg, sig) || Verify(pub, msg, nil) || Verify(pub, msg, append(sig, 0)) {
		t.Error("a wrong length is accepted")
	}
	// S + L is the same scalar: the standard library's rule refuses it, or every signature would have a second form.
	order := unhexed(t, "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	var carry uint
	bad := bytes.Clone(sig)
	for i := range 32 {
		carry += uint(bad[32+i]) + uint(order[i])
		bad[32+i] = byte(carry)
		carry >>= 8
	}
	assert.False(t, Verify(pub, msg, bad), "S + L is accepted")
}

func TestAppendSignature(t *testing.T) {
	k := testKey(t)
	want, err := Sign(k, []byte("m"))
	require.NoError(t, err)
	for _, s := range []Signer{k, &k, remoteOf(k)} {
		if got, err := AppendSignature([]byte("x"), s, []byte("m")); err != nil || string(got) != "x"+string(want) {
			t.Errorf("%T: %x, %v", s, got, err)
		}
	}
	for _, s := range []Signer{nil, PrivateKey{}, (*PrivateKey)(nil), remote{k.Public, func([]byte, crypto.SignerOpts) ([]byte, error) { return make([]byte, 64), nil }}} {
		if got, err := AppendSignature([]byte("x"), s, []byte("m")); err == nil || string(got) != "x" {
			t.Errorf("%T: %x, %v", s, got, err)
		}
	}
	room, s := make([]byte, 0, 64), Signer(k)
	if n := testing.AllocsPerRun(50, func() {
		if sig, err := AppendSignature(room, s, []byte("m")); err != nil || len(sig) != 64 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package crypto

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// remote is a Signer that looks as if it were not in memory, and behaves as a test needs.
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
	t.Parallel()
	k := testKey(t)
	far := remoteOf(k)
	_, ok := InMemory(far)
	assert.False(t, ok, "a remote signer is in memory")
	assert.True(t, bytes.Equal(mustPublic(t, far), mustPublic(t, k)), "another public key")
	near, err := Sign(k, []byte("m"))
	require.NoError(t, err)
	sig, err := Sign(far, []byte("m"))
	assert.True(t, err == nil && bytes.Equal(sig, near), "a remote key signs as one in memory %v", err)
}

func TestBadSigners(t *testing.T) {
	t.Parallel()
	k, other := testKey(t), DeriveLogKey(testKey(t))
	cause := errors.New("the network is down")
	good := func() ([]byte, error) { return Sign(k, []byte("m")) }
	for name, test := range map[string]struct {
		sign func() ([]byte, error)
		want string
	}{
		"an error": {func() ([]byte, error) { return nil, cause }, "the network is down"},
		"a signature and error": {func() ([]byte, error) { sig, _ := good(); return sig, cause },
			"the network is down"},
		"nothing":         {func() ([]byte, error) { return nil, nil }, "0 bytes"},
		"63 bytes":        {func() ([]byte, error) { sig, err := good(); return sig[:63], err }, "63 bytes"},
		"65 bytes":        {func() ([]byte, error) { sig, err := good(); return append(sig, 0), err }, "65 bytes"},
		"zeros":           {func() ([]byte, error) { return make([]byte, 64), nil }, "not its signature"},
		"another message": {func() ([]byte, error) { return Sign(k, []byte("n")) }, "not its signature"},
		"another key":     {func() ([]byte, error) { return Sign(other, []byte("m")) }, "not its signature"},
		"a panic":         {func() ([]byte, error) { panic("the seed is 9d61b19d") }, "panicked"},
		"a nil panic":     {func() ([]byte, error) { panic(nil) }, "panicked"},
	} {
		s := remote{k.Public, func([]byte, crypto.SignerOpts) ([]byte, error) { return test.sign() }}
		pinned, err := Pin(s)
		require.NoError(t, err)
		for _, s := range []Signer{s, pinned} {
			sig, err := Sign(s, []byte("m"))
			assert.True(t, err != nil && sig == nil && strings.Contains(err.Error(), test.want) &&
				!strings.Contains(err.Error(), "9d61"), "%s: %x, %v", name, sig, err)
			assert.False(t, test.want == cause.Error() && !errors.Is(err, cause), "%s: the cause is lost", name)
		}
	}
	if _, err := good(); err != nil { // or all of the above were refused for nothing
		t.Error(err)
	}
}

func TestBadPublicKeys(t *testing.T) {
	t.Parallel()
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
		_, err := PublicOf(s)
		assert.Error(t, err, "%s: PublicOf accepts it", name)
		_, err = Pin(s)
		assert.Error(t, err, "%s: Pin accepts it", name)
		sig, err := Sign(s, []byte("m"))
		assert.True(t, err != nil && sig == nil, "%s: Sign accepts it", name)
	}
	var none *PrivateKey
	for _, s := range []Signer{nil, none, (*remote)(nil), ed25519.PrivateKey(nil), ed25519.PrivateKey(make([]byte, 63)),
		(*ed25519.PrivateKey)(nil)} {
		_, ok := InMemory(s)
		assert.False(t, ok, "%T: in memory", s)
		_, err := PublicOf(s)
		assert.Error(t, err, "%T: PublicOf accepts it", s)
		_, err = Pin(s)
		assert.Error(t, err, "%T: Pin accepts it", s)
		_, err = Sign(s, nil)
		assert.Error(t, err, "%T: Sign accepts it", s)
	}
}

// TestSignerThatKeepsItsArguments changes the message while it is signed, and the signature after
// it was returned.
func TestSignerThatKeepsItsArguments(t *testing.T) {
	t.Parallel()
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
	assert.True(t, string(msg) == "message" && Verify(mustPublic(t, k), msg, sig),
		"the signer could change the message or the signature")
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	k := testKey(t)
	raw := ed25519.PrivateKey(bytes.Clone(k.pair.private[:]))
	for _, s := range []Signer{k, &k, raw, &raw} {
		got, ok := InMemory(s)
		assert.True(t, ok && bytes.Equal(mustPublic(t, got), mustPublic(t, k)), "%T: not recognised", s)
		sig, err := Sign(s, []byte("m"))
		assert.True(t, err == nil && Verify(mustPublic(t, k), []byte("m"), sig), "%T: %v", s, err)
	}
	copied, _ := InMemory(raw)
	pinned, err := Pin(raw)
	require.NoError(t, err)
	clear(raw)
	for _, s := range []Signer{copied, pinned} {
		sig, err := Sign(s, []byte("m"))
		assert.True(t, err == nil && Verify(mustPublic(t, k), []byte("m"), sig),
			"the key changed with the slice it was made from %v", err)
	}
	// signing with both would reveal the seed
	mixed := append(bytes.Clone(k.pair.private[:32]), mustPublic(t, DeriveLogKey(k))...)
	_, ok := InMemory(ed25519.PrivateKey(mixed))
	assert.False(t, ok, "two halves of two keys are a key")
	sig, err := Sign(ed25519.PrivateKey(mixed), []byte("m"))
	assert.True(t, err != nil && sig == nil, "two halves of two keys sign")
}

// TestPin changes the key of a remote signer: its signatures are good, but not of the pinned key.
func TestPin(t *testing.T) {
	t.Parallel()
	first, second := testKey(t), DeriveLogKey(testKey(t))
	now := first
	s := remote{func() crypto.PublicKey { return now.Public() },
		func(msg []byte, opts crypto.SignerOpts) ([]byte, error) { return now.Sign(nil, msg, opts) }}
	pinned, err := Pin(s)
	require.NoError(t, err)
	sign := func(s Signer) error {
		sig, err := Sign(s, []byte("m"))
		assert.False(t, err == nil && !Verify(mustPublic(t, s), []byte("m"), sig), "a signature of no key")
		direct, derr := s.Sign(rand.Reader, []byte("m"), crypto.Hash(0))
		assert.False(t, s == pinned && ((err == nil) != (derr == nil) || !bytes.Equal(sig, direct)),
			"the pinned signer's own Sign differs: %v", derr)
		return err
	}
	require.NoError(t, sign(pinned))
	now = second
	assert.Error(t, sign(pinned), "another key signed for the pinned one")
	assert.True(t, bytes.Equal(mustPublic(t, pinned), mustPublic(t, first)), "the pinned key changed")
	again, err := Pin(pinned)
	assert.True(t, err == nil && bytes.Equal(mustPublic(t, again), mustPublic(t, first)),
		"a pinned signer cannot be pinned again %v", err)
	_, err = pinned.Sign(rand.Reader, []byte("m"), crypto.SHA512)
	assert.Error(t, err, "the pinned signer signed a hash")
	k, err := Pin(first)
	assert.True(t, err == nil && k == Signer(first), "a key in memory is pinned as it is %v", err)
}

func TestVerifyMangled(t *testing.T) {
	t.Parallel()
	k := testKey(t)
	pub, msg := mustPublic(t, k), []byte("a message")
	sig, err := Sign(k, msg)
	require.True(t, err == nil && Verify(pub, msg, sig), "a good signature is refused %v", err)
	for i := range 8 * len(sig) {
		bad := bytes.Clone(sig)
		bad[i/8] ^= 1 << (i % 8)
		require.True(t, !Verify(pub, msg, bad) && !Verify(pub, msg, sig[:i/8]), "bit %d", i)
	}
	for i := range 8 * len(pub) {
		bad := bytes.Clone(pub)
		bad[i/8] ^= 1 << (i % 8)
		require.True(t, !Verify(bad, msg, sig) && !Verify(pub[:i/8], msg, sig), "bit %d of the key", i)
	}
	assert.True(t, !Verify(nil, msg, sig) && !Verify(append(bytes.Clone(pub), 0), msg, sig) && !Verify(pub, msg, nil) &&
		!Verify(pub, msg, append(sig, 0)), "a wrong length is accepted")
	// S + L is the same scalar: the standard library's rule refuses it, or every signature would
	// have a second form.
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
		got, err := AppendSignature([]byte("x"), s, []byte("m"))
		assert.True(t, err == nil && string(got) == "x"+string(want), "%T: %x, %v", s, got, err)
	}
	for _, s := range []Signer{nil, PrivateKey{}, (*PrivateKey)(nil),
		remote{k.Public, func([]byte, crypto.SignerOpts) ([]byte, error) { return make([]byte, 64), nil }}} {
		got, err := AppendSignature([]byte("x"), s, []byte("m"))
		assert.True(t, err != nil && string(got) == "x", "%T: %x, %v", s, got, err)
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

// TestPublicOfOwnKeys: the public key of a PrivateKey is not checked, since it passes the check
// whatever the seed is.
func TestPublicOfOwnKeys(t *testing.T) {
	t.Parallel()
	seed := make([]byte, ed25519.SeedSize)
	for i := range 200 {
		sum := Sum(seed)
		copy(seed, sum[:])
		k, err := NewKeyFromSeed(seed)
		require.NoError(t, err)
		pub, err := PublicOf(k)
		require.NoError(t, err)
		require.NoError(t, CheckPublicKey(pub), "seed %d", i)
		require.Equal(t, ed25519.NewKeyFromSeed(seed).Public(), pub)
	}
}

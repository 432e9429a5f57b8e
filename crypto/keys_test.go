package crypto

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testKey returns the key of RFC 8032, section 7.1, test 1.
func testKey(t testing.TB) PrivateKey {
	t.Helper()
	k, err := NewKeyFromSeed(unhexed(t, "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
	require.NoError(t, err)
	return k
}

func unhexed(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func mustPublic(t testing.TB, s Signer) PublicKey {
	t.Helper()
	pub, err := PublicOf(s)
	require.NoError(t, err)
	return pub
}

func TestKeyVector(t *testing.T) { // RFC 8032, section 7.1, test 1
	k := testKey(t)
	pub := mustPublic(t, k)
	assert.Equal(t, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", hex.EncodeToString(pub),
		"public key")
	sig, err := Sign(k, nil)
	want := "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
	assert.True(t, err == nil && hex.EncodeToString(sig) == want, "signature %x, %v", sig, err)
	assert.Equal(t, "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9", KeyID(pub).String(), "key id")
}

func TestGenerateKey(t *testing.T) {
	t.Parallel()
	a, err := GenerateKey()
	require.NoError(t, err)
	b, err := GenerateKey()
	require.NoError(t, err)
	assert.False(t, bytes.Equal(mustPublic(t, a), mustPublic(t, b)), "two keys are one")
	msg := []byte("a message")
	sig, err := Sign(a, msg)
	assert.True(t, err == nil && Verify(mustPublic(t, a), msg, sig) && !Verify(mustPublic(t, b), msg, sig),
		"a signature verifies under its own key alone %v", err)
}

func TestSeedLength(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 31, 33, 64} {
		k, err := NewKeyFromSeed(make([]byte, n))
		assert.True(t, err != nil && k == (PrivateKey{}), "a seed of %d bytes was taken", n)
	}
}

func TestSeedIsCopied(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{7}, 32)
	k, err := NewKeyFromSeed(seed)
	require.NoError(t, err)
	before := mustPublic(t, k)
	clear(seed)
	sig, err := Sign(k, []byte("m"))
	assert.True(t, err == nil && Verify(before, []byte("m"), sig), "changing the seed changed the key %v", err)
	clear(before)
	assert.False(t, bytes.Equal(mustPublic(t, k), before), "Public gives out the key's own bytes")
}

// TestDeriveLogKey does RFC 5869 again with HMAC: without salt the extraction has 32 zero bytes,
// and 32 bytes are one block.
func TestDeriveLogKey(t *testing.T) {
	t.Parallel()
	mac := func(key, msg []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(msg)
		return h.Sum(nil)
	}
	k := testKey(t)
	prk := mac(make([]byte, 32), k.pair.private[:32])
	want, err := NewKeyFromSeed(mac(prk, []byte("helm checkpoint\x01")))
	require.NoError(t, err)
	got := DeriveLogKey(k)
	assert.True(t, bytes.Equal(mustPublic(t, got), mustPublic(t, want)), "not HKDF-SHA256 of the seed")
	assert.False(t, bytes.Equal(mustPublic(t, got), mustPublic(t, k)), "the log key is the key")
	if DeriveLogKey(PrivateKey{}) != (PrivateKey{}) {
		t.Error("a log key was derived from no key")
	}
}

// TestKeyNeverShown prints and marshals a key in every way we know, looking for the seed in every
// spelling we know.
func TestKeyNeverShown(t *testing.T) {
	t.Parallel()
	k := testKey(t)
	type inside struct {
		Shown  PrivateKey
		hidden PrivateKey
		any    any
	}
	var out strings.Builder
	for _, v := range []any{k, &k, inside{k, k, k}, &inside{k, k, k}, []PrivateKey{k}, map[string]any{"k": k},
		Signer(k)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "%p",
			"%T", "%w"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		assert.Error(t, err, "%T was marshalled: %s", v, b)
		log := slog.New(slog.NewTextHandler(&out, nil))
		log.Info("key", "k", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("key", "k", v)
		out.WriteString(fmt.Sprint(v) + fmt.Sprintln(errors.Join(fmt.Errorf("%v", v))))
	}
	b, err := k.MarshalText()
	assert.Error(t, err, "marshalled as text: %s", b)
	assert.Contains(t, out.String(), "private key "+k.pair.id.String(), "nothing was printed, so nothing was checked")
	secret := k.pair.private
	for _, part := range [][]byte{secret[:8], secret[24:32]} {
		for _, spelling := range []string{string(part), fmt.Sprintf("%x", part), fmt.Sprintf("%X", part),
			fmt.Sprintf("%d", part)[1:],
			fmt.Sprintf("%#v", part)[7:20], string(AppendBase64(nil, part))[:8]} {
			assert.NotContains(t, out.String(), strings.TrimSuffix(spelling, "]"), "the key was shown as %q", spelling)
		}
	}
	assert.Equal(t, "no private key no private key", fmt.Sprintf("%v %#v", PrivateKey{}, &PrivateKey{}),
		"the zero key prints as")
}

func TestPlainEd25519Only(t *testing.T) {
	t.Parallel()
	k := testKey(t)
	for _, opts := range []crypto.SignerOpts{nil, crypto.SHA512, crypto.SHA256, &ed25519.Options{Context: "c"},
		&ed25519.Options{Hash: crypto.SHA512}} {
		sig, err := k.Sign(nil, make([]byte, 64), opts)
		assert.True(t, err != nil && sig == nil, "%v: signed", opts)
	}
	_, err := k.Sign(nil, nil, crypto.Hash(0))
	assert.NoError(t, err)
}

func TestZeroKey(t *testing.T) {
	t.Parallel()
	var zero PrivateKey
	if sig, err := Sign(zero, []byte("m")); err == nil || sig != nil {
		t.Error("the zero key signed")
	}
	if sig, err := Sign(&zero, []byte("m")); err == nil || sig != nil {
		t.Error("a pointer to the zero key signed")
	}
	_, err := PublicOf(zero)
	assert.Error(t, err, "the zero key has a public key")
	_, ok := InMemory(zero)
	assert.False(t, ok, "the zero key is in memory")
	_, err = Pin(zero)
	assert.Error(t, err, "the zero key was pinned")
	assert.Error(t, WriteKey(new(bytes.Buffer), zero), "the zero key was written")
}

func TestSignAllocatesTheSignatureAlone(t *testing.T) {
	k, msg := Signer(testKey(t)), make([]byte, 1000)
	n := testing.AllocsPerRun(50, func() {
		if _, err := Sign(k, msg); err != nil {
			t.Fatal(err)
		}
	})
	assert.LessOrEqual(t, n, float64(1), "%v allocations", n)
}

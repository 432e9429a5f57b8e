package kerneltest

import (
	"bytes"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/stretchr/testify/require"
)

// Must returns x if there is no error, and panics otherwise.
func Must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// SeedKey is the key whose seed is one byte, repeated. The kernel of a new world has the key of
// seed 1.
func SeedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// NamedKey is the key whose seed is the digest of a name.
func NamedKey(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	k, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return k
}

// Public is the public key of a seed.
func Public(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(SeedKey(t, seed))
	require.NoError(t, err)
	return p
}

// NamedPublic is the public key of a name.
func NamedPublic(t testing.TB, name string) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(NamedKey(t, name))
	require.NoError(t, err)
	return p
}

// KeyID is the ID of a seed's public key.
func KeyID(t testing.TB, seed byte) *contracts.Digest {
	t.Helper()
	id := crypto.KeyID(Public(t, seed))
	return &id
}

// Value parses a JSON value.
func Value(t testing.TB, text string) crypto.Value {
	t.Helper()
	tree := new(crypto.Tree)
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}))
	return tree.Root()
}

package forge

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const (
	Origin = "example.test/log"
	Start  = contracts.Time(1790000000000)
)

// Seeds of the test keys: K1 is the kernel key of the initial state, L its log key. X is in no
// state.
const (
	SeedK1 = 1 + iota
	seedK2
	seedK3
	SeedL
	seedL2
	SeedX
	SeedB  // an attestor
	seedR1 // from here on the second implementation has the keys too, and spoils events which they sign
	seedR2
	seedR3
	seedR4
	SeedA // an approver
	seedA2
	seedF  // a freezer
	SeedD  // a delegator
	seedG1 // of the packs that the second implementation makes: kernel, kernel after that, log
	seedG2
	seedGL
	SeedW1 // witnesses
	seedW2
)

const oracleSeed = "helm oracle test key, not secret"

var oracleLabels = map[byte]string{seedR1: "root1", seedR2: "root2", seedR3: "root3", seedR4: "root4",
	SeedA: "approver", seedA2: "approver2",
	seedF: "freezer", SeedD: "delegator", seedG2: "kernel2"}

var testKeys, testPublics sync.Map // by seed: points are slow to check

// Key returns the private key of a seed.
func Key(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	if k, ok := testKeys.Load(seed); ok {
		return k.(crypto.PrivateKey)
	}
	k, err := crypto.NewKeyFromSeed(longSeed(seed))
	require.NoError(t, err)
	if seed == seedGL {
		k = crypto.DeriveLogKey(k)
	}
	testKeys.Store(seed, k)
	return k
}

func longSeed(seed byte) []byte {
	label, ok := oracleLabels[seed]
	switch {
	case ok:
		d := crypto.Sum([]byte(oracleSeed + ": " + label))
		return d[:]
	case seed == seedG1 || seed == seedGL:
		return []byte(oracleSeed)
	}
	return bytes.Repeat([]byte{seed}, 32)
}

// Public returns the public key of a seed.
func Public(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	if p, ok := testPublics.Load(seed); ok {
		return p.(crypto.PublicKey)
	}
	p, err := crypto.PublicOf(Key(t, seed))
	require.NoError(t, err)
	testPublics.Store(seed, p)
	return p
}

package crypto

import (
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"

	"filippo.io/edwards25519"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/table"
)

// TestPoints tries the eight points of small order, each in every encoding that a lenient reader
// accepts, and other bytes that are not keys.
func TestPoints(t *testing.T) {
	t.Parallel()
	refused := map[string][]string{
		"the identity": {
			"0100000000000000000000000000000000000000000000000000000000000000",
		},
		"prime-order":        table.Read[string](t, "points_order", 7),
		"canonical encoding": table.Read[string](t, "points_encoding", 6),
		"on the curve": {
			"0200000000000000000000000000000000000000000000000000000000000000",
		},
		"want 32": {"", "00", strings.Repeat("01", 31), strings.Repeat("01", 33), strings.Repeat("01", 64)},
	}
	for why, keys := range refused {
		for _, key := range keys {
			err := CheckPublicKey(unhexed(t, key))
			assert.True(t, err != nil && strings.Contains(err.Error(), why), "%s: %v, want %s", key, err, why)
		}
	}
	assert.Error(t, CheckPublicKey(nil), "no key was accepted")
}

// TestPointsOfMixedOrder adds each point of small order to good keys: they verify signatures as
// well as the good one, under some rules.
func TestPointsOfMixedOrder(t *testing.T) {
	t.Parallel()
	torsion, err := new(edwards25519.Point).SetBytes(unhexed(t,
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))
	require.NoError(t, err)
	for i := range 50 {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i)
		k, err := NewKeyFromSeed(seed)
		require.NoError(t, err)
		pub := mustPublic(t, k)
		p, err := new(edwards25519.Point).SetBytes(pub)
		require.NoError(t, err)
		for range 7 {
			p.Add(p, torsion)
			if CheckPublicKey(p.Bytes()) == nil {
				t.Error("accepted", hex.EncodeToString(p.Bytes()))
			}
		}
		if p.Add(p, torsion); CheckPublicKey(p.Bytes()) != nil ||
			hex.EncodeToString(p.Bytes()) != hex.EncodeToString(pub) {
			t.Error("eight times the point of order 8 is not nothing") // or the refusals above prove nothing
		}
	}
}

package registry

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// A state has at most 4,096 keys, those that were revoked included: a state of more is none, and an
// event that would add one is refused. All other events are taken.
func TestMostKeys(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := &world{t, nil, large(t, maxKeys-1, 0), 1, nil}
	take := func(e contracts.TrustEvent, by ...string) {
		t.Helper()
		next, err := w.state.Apply(sign(t, e, by...), origin, 5)
		require.NoError(t, err)
		w.state = next
	}
	take(w.key("the last", Attestor), "r1", "r2")
	require.Len(t, w.state.keys, maxKeys)
	w.refuse("keys: more than 4096", w.key("one more", Attestor), "r1", "r2")
	w.refuse("keys: more than 4096", w.roots(2, "r1", "r2", "r4"), "r1", "r2", "r4")
	take(w.revoke("the last"), "r1", "r2")
	w.refuse("keys: more than 4096", w.key("one more", Attestor), "r1", "r2")
	take(w.undelegate("a grant", "bob"), "bob")
	take(w.freeze(), "freezer")
	take(w.roots(1, "r1", "r2"), "r1", "r2")

	w.mustHold(w.state)
	over := large(t, maxKeys+1, 0)
	_, err := ParseState(over.Canonical())
	require.ErrorContains(t, err, "keys: more than 4096")
	r := &Registry{threshold: over.threshold, keys: over.keys[:maxKeys]}
	_, err = r.Initial(public(t, "another kernel"), public(t, "log"))
	require.ErrorContains(t, err, "keys: more than 4096")
}

// At most 65,536 delegations have ended.
func TestMostDelegations(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := &world{t, nil, large(t, 0, maxEnded-1), 1, nil}
	w.must(w.undelegate("a grant", "bob"), "bob")
	require.Equal(t, maxEnded, w.state.ended.len())
	w.refuse("revoked: more than 65536", w.undelegate("another", "bob"), "bob")
	w.must(w.revoke("bob"), "r1", "r2")
	w.must(w.freeze(), "freezer")
	_, err := ParseState(large(t, 0, maxEnded+1).Canonical())
	require.ErrorContains(t, err, "revoked: more than 65536")
}

// Delegations end in any order; those of a state stay what they are when others end after them.
func TestEnded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	var e ended
	var past []ended
	want := map[contracts.Digest]bool{}
	digest := func(n uint64) contracts.Digest {
		return contracts.Digest(binary.BigEndian.AppendUint64(make([]byte, 24), n))
	}
	for len(want) < 3*maxLate {
		d := digest(r.Uint64N(1 << 16))
		require.Equal(t, want[d], e.has(d))
		if !want[d] {
			e.with(digest(1 << 20)) // of another state after this one
			past = append(past, e)
			e = e.with(d)
			want[d] = true
		}
		require.False(t, e.has(digest(1<<20)))
	}
	all := e.all()
	assert.True(t, slices.IsSortedFunc(all, compareDigests))
	assert.Len(t, all, len(want))
	for i, p := range past {
		require.Equal(t, i, p.len())
		require.Len(t, p.all(), i)
	}
	for _, d := range all {
		assert.True(t, want[d] && e.has(d))
	}
}

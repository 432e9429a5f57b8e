package registry

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// attestors are as many as a state may have keys.
var attestors struct {
	sync.Once
	keys []*held
}

// large returns the state of full with other keys, so that there are so many, and so many ended
// delegations.
func large(t testing.TB, keys, delegations int) *State {
	t.Helper()
	s := full(t)
	if keys > len(s.keys) {
		attestors.Do(func() {
			for i := range maxKeys {
				name := fmt.Sprint("attestor ", i)
				h, err := newHeld(Key{Name: name, Public: public(t, name), Role: Attestor})
				require.NoError(t, err)
				attestors.keys = append(attestors.keys, h)
			}
		})
		s.keys = append(s.keys, attestors.keys[:keys-len(s.keys)]...)
	}
	slices.SortFunc(s.keys, func(a, b *held) int { return compareDigests(a.id, b.id) })
	for i := range delegations {
		s.ended.sorted = append(s.ended.sorted,
			contracts.Digest(binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))))
	}
	return s
}

// BenchmarkApply measures events on states with few and with many keys and ended delegations.
func BenchmarkApply(b *testing.B) {
	for _, n := range []struct{ keys, ended int }{{0, 0}, {4000, 0}, {0, 65_000}} {
		b.Run(fmt.Sprintf("keys=%d,ended=%d", n.keys, n.ended), func(b *testing.B) {
			w := &world{b, nil, large(b, n.keys, n.ended), 1, nil}
			for name, r := range map[string]*contracts.TrustRecord{
				"freeze":     sign(b, w.freeze(), "freezer"),
				"undelegate": sign(b, w.undelegate("a grant", "bob"), "bob"),
				"key":        sign(b, w.key("new", Attestor), "r1", "r2"),
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						_, err := w.state.Apply(r, origin, 5)
						require.NoError(b, err)
					}
				})
			}
		})
	}
}

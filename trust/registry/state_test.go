package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

// state writes the canonical form of a state that need not be valid.
func state(frozen bool, threshold, version uint64, revoked []contracts.Digest, keys ...held) []byte {
	slices.SortFunc(keys, func(a, b held) int { return bytes.Compare(a.id[:], b.id[:]) })
	return write(frozen, keys, revoked, threshold, version)
}

func write(frozen bool, keys []held, revoked []contracts.Digest, threshold, version uint64) []byte {
	s := &State{frozen: frozen, ended: ended{sorted: revoked}, threshold: threshold, version: version}
	for i := range keys {
		s.keys = append(s.keys, &keys[i])
	}
	return s.append(nil)
}

func keyOf(t testing.TB, name string, role Role, change ...func(*held)) held {
	e := held{id: id(t, name), public: public(t, name), name: name, role: role}
	for _, c := range change {
		c(&e)
	}
	return e
}

func since(n uint64) func(*held)   { return func(e *held) { e.since = n } }
func revoked(n uint64) func(*held) { return func(e *held) { e.revoked, e.wasRevoked = n, true } }

// A key is valid for index i iff (since = 0 or since < i) and (not revoked or i <= revoked).
func TestKeyValidity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change []func(*held)
		valid  map[uint64]bool
	}{
		{nil, map[uint64]bool{0: true, 1: true, 1 << 52: true}},
		{[]func(*held){since(5)}, map[uint64]bool{0: false, 4: false, 5: false, 6: true, 7: true}},
		{[]func(*held){revoked(5)}, map[uint64]bool{0: true, 4: true, 5: true, 6: false, 1 << 52: false}},
		{[]func(*held){revoked(0)}, map[uint64]bool{0: true, 1: false}},
		{[]func(*held){since(5), revoked(8)}, map[uint64]bool{0: false, 5: false, 6: true, 8: true, 9: false}},
		{[]func(*held){since(5), revoked(6)}, map[uint64]bool{5: false, 6: true, 7: false}},
		{[]func(*held){since(5), revoked(5)}, map[uint64]bool{4: false, 5: false, 6: false}},
		{[]func(*held){since(1)}, map[uint64]bool{0: false, 1: false, 2: true}},
	} {
		for _, role := range []Role{Kernel, Log, Approver} {
			s, err := ParseState(state(false, 0, 1, nil, keyOf(t, "first", Kernel), keyOf(t, "it", role, c.change...)))
			require.NoError(t, err)
			for index, want := range c.valid {
				key, ok := s.Key(id(t, "it"), role, index)
				assert.True(t, ok == want && ok == bytes.Equal(key, public(t, "it")) && ok != (key == nil),
					"%s since and revoked %v at %d: %v, want %v", role, len(c.change), index, ok, want)
				listed := slices.ContainsFunc(s.Keys(role, index),
					func(k crypto.PublicKey) bool { return bytes.Equal(k, public(t, "it")) })
				assert.Equal(t, want, listed, "%s at %d", role, index)
				for _, other := range roles { // a key has one role
					_, ok := s.Key(id(t, "it"), other, index)
					assert.False(t, ok && other != role, "a %s key is a %s key", role, other)
				}
			}
		}
	}
	s := full(t)
	found := 0
	for _, k := range everyone(t) {
		if key, ok := s.Key(crypto.KeyID(k.Public), k.Role, 7); ok && bytes.Equal(key, k.Public) {
			found++
		}
	}
	_, ok := s.Key(id(t, "a stranger"), Kernel, 0)
	assert.True(t, !ok && found == len(everyone(t)), "%d keys found; a stranger %v", found, ok)
}

// The rules for every state, one departure a case. Each is otherwise well-formed canonical JSON.
func TestParseStateRefuses(t *testing.T) {
	t.Parallel()
	kernel, log, root := keyOf(t, "kernel", Kernel), keyOf(t, "log", Log), keyOf(t, "root", Root)
	d := []contracts.Digest{id(t, "a grant"), id(t, "another")}
	slices.SortFunc(d, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	good := func() []byte {
		return state(true, 1, 7, d, kernel, log, root, keyOf(t, "ann", Approver, since(3), revoked(9),
			func(e *held) { e.roles = []string{"a", "b"} }))
	}
	s, err := ParseState(good())
	require.True(t, err == nil && s.Frozen() && s.version == 7 && s.threshold == 1,
		err) // or the refusals below would prove nothing
	for name, bad := range map[string][]byte{
		"version 0":                state(false, 0, 0, nil, kernel),
		"no keys":                  state(false, 0, 1, nil),
		"no kernel key":            state(false, 0, 1, nil, log),
		"the kernel key revoked":   state(false, 0, 1, nil, keyOf(t, "kernel", Kernel, revoked(3)), log),
		"threshold over the roots": state(false, 2, 1, nil, kernel, root),
		"roots without threshold":  state(false, 0, 1, nil, kernel, root),
		"threshold without roots":  state(false, 1, 1, nil, kernel),
		"threshold of the revoked": state(false, 1, 1, nil, kernel, keyOf(t, "root", Root, revoked(3))),
		"threshold of one revoked": state(false, 2, 1, nil, kernel, root, keyOf(t, "root 2", Root, revoked(3))),
		"keys not in order":        write(false, reversed(kernel, log), nil, 0, 1),
		"a key twice":              write(false, []held{kernel, kernel}, nil, 0, 1),
		"a key in two roles":       write(false, []held{kernel, keyOf(t, "kernel", Log)}, nil, 0, 1),
		"id of another": state(false, 0, 1, nil, kernel,
			keyOf(t, "log", Log, func(e *held) { e.id = id(t, "x") })),
		"public of 31 bytes": state(false, 0, 1, nil, kernel,
			keyOf(t, "log", Log, func(e *held) { e.public = e.public[:31]; e.id = crypto.KeyID(e.public) })),
		"role of nobody": state(false, 0, 1, nil, kernel, keyOf(t, "x", "admin")),
		"no role":        state(false, 0, 1, nil, kernel, keyOf(t, "x", "")),
		"no name":        state(false, 0, 1, nil, kernel, keyOf(t, "log", Log, func(e *held) { e.name = "" })),
		"name of 129 bytes": state(false, 0, 1, nil, kernel,
			keyOf(t, "log", Log, func(e *held) { e.name = strings.Repeat("x", 129) })),
		"roles of a log key": state(false, 0, 1, nil, kernel,
			keyOf(t, "log", Log, func(e *held) { e.roles = []string{"a"} })),
		"roles not sorted": state(false, 0, 1, nil, kernel,
			keyOf(t, "a", Approver, func(e *held) { e.roles = []string{"b", "a"} })),
		"a role twice": state(false, 0, 1, nil, kernel,
			keyOf(t, "a", Approver, func(e *held) { e.roles = []string{"a", "a"} })),
		"since beyond doubles":   state(false, 0, 1, nil, kernel, keyOf(t, "a", Approver, since(1<<53))),
		"revoked beyond doubles": state(false, 0, 1, nil, kernel, keyOf(t, "a", Approver, revoked(1<<53))),
		"grants not in order":    state(false, 0, 1, []contracts.Digest{d[1], d[0]}, kernel),
		"a grant twice":          state(false, 0, 1, []contracts.Digest{d[0], d[0]}, kernel),
	} {
		s, err := ParseState(bad)
		assert.True(t, err != nil && s == nil && strings.HasPrefix(err.Error(), "registry: trust state: "), "%s: %v",
			name, err)
	}
	text := string(good())
	for _, c := range table.Read[struct{ Old, New string }](t, "state_refuses", 37) {

		bad := strings.Replace(text, c.Old, c.New, 1)
		if s, err := ParseState([]byte(bad)); bad == text || err == nil || s != nil {
			t.Errorf("%s: %v", c.New, err)
		}
	}
	for _, bad := range []string{"", "null", "[]", "{}", `"x"`, "{", strings.ToUpper(text),
		`{"keys":` + strings.Repeat("[", 200)} {
		s, err := ParseState([]byte(bad))
		assert.True(t, err != nil && s == nil, "%.40q: taken", bad)
	}
}

func reversed(keys ...held) []held {
	slices.SortFunc(keys, func(a, b held) int { return bytes.Compare(b.id[:], a.id[:]) })
	return keys
}

// Every flipped bit and every truncation of a state makes another state or none, never the same
// one.
func TestStateMangled(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	good := state(false, 1, 1, nil, keyOf(t, "kernel", Kernel), keyOf(t, "root", Root, since(3)),
		keyOf(t, "a", Approver, revoked(9)))
	whole, err := ParseState(good)
	require.NoError(t, err)
	digest := whole.Digest()
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		s, err := ParseState(bad)
		require.False(t, err == nil && (s.Digest() == digest || !bytes.Equal(s.Canonical(), bad)),
			"bit %d changes nothing", i)
		_, err = ParseState(good[:i/8])
		require.Error(t, err, "the first %d bytes are a state", i/8)
	}
}

// A revoked delegation is known by its digest; without a state every one is revoked.
func TestRevokedDelegations(t *testing.T) {
	t.Parallel()
	d := []contracts.Digest{id(t, "a"), id(t, "b"), id(t, "c")}
	slices.SortFunc(d, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	s, err := ParseState(state(false, 0, 1, []contracts.Digest{d[0], d[2]}, keyOf(t, "kernel", Kernel)))
	require.NoError(t, err)
	assert.True(t, s.Revoked(d[0]) && !s.Revoked(d[1]) && s.Revoked(d[2]) && !s.Revoked(contracts.Digest{}) &&
		!full(t).Revoked(d[0]), "not those of the list")
	s = nil
	assert.True(t, s.Revoked(d[1]), "no state revokes nothing")
}

// A state of many keys is found in as quickly as one of few, and read in the same way.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	var keys []Key
	for i := range 300 {
		name := fmt.Sprint("approver ", i)
		keys = append(keys, Key{name, public(t, name), Approver, nil})
	}
	r, err := New(0, keys...)
	require.NoError(t, err)
	s, err := ParseState(initial(t, r).Canonical())
	require.NoError(t, err)
	for _, k := range keys {
		key, ok := s.Key(crypto.KeyID(k.Public), Approver, 0)
		require.True(t, ok && bytes.Equal(key, k.Public), "%s is not found", k.Name)
	}
	list := s.Keys(Approver, 0)
	if len(list) != 300 || !slices.IsSortedFunc(list, func(a, b crypto.PublicKey) int {
		x, y := crypto.KeyID(a), crypto.KeyID(b)
		return bytes.Compare(x[:], y[:])
	}) {
		t.Errorf("%d keys, in order of their ids or not", len(list))
	}
}

// Any bytes: no panic, and an accepted state is written again in the same bytes.
func FuzzParseState(f *testing.F) {
	f.Add(full(f).Canonical())
	f.Add(initial(f, nil).Canonical())
	f.Add(state(true, 1, 7, []contracts.Digest{id(f, "g")}, keyOf(f, "kernel", Kernel), keyOf(f, "root", Root),
		keyOf(f, "x", Log, since(1), revoked(2))))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		require.Equal(t, s != nil, err == nil, "%v with %v", err, s)
		if err == nil && (!bytes.Equal(s.Canonical(), b) || s.Digest() != crypto.Sum(b)) {
			t.Fatalf("was\n%s\nand is\n%s", b, s.Canonical())
		}
	})
}

package registry

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

// public makes the key of a name.
func public(t testing.TB, name string) crypto.PublicKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return key.Public().(crypto.PublicKey)
}

func id(t testing.TB, name string) contracts.Digest { return crypto.KeyID(public(t, name)) }

// everyone is a key of each role, and three roots.
func everyone(t testing.TB) []Key {
	keys := []Key{{"root 1", public(t, "r1"), Root, nil}, {"root 2", public(t, "r2"), Root, nil},
		{"root 3", public(t, "r3"), Root, nil}}
	for _, role := range []Role{Kernel, Log, Publisher, Attestor, Freezer, Witness} {
		keys = append(keys, Key{Name: "the \"" + string(role) + "\"", Public: public(t, string(role)), Role: role})
	}
	return append(keys, Key{"ann", public(t, "ann"), Approver, []string{"owner", "clerk", "owner"}},
		Key{"bob", public(t, "bob"), Delegator, []string{"clerk"}}, Key{"eve", public(t, "eve"), Approver, nil})
}

func initial(t testing.TB, r *Registry) *State {
	t.Helper()
	s, err := r.Initial(public(t, "kernel"), public(t, "log"))
	require.NoError(t, err)
	return s
}

func full(t testing.TB) *State {
	t.Helper()
	r, err := New(2, everyone(t)...)
	require.NoError(t, err)
	return initial(t, r)
}

// Without a registry the state has the two keys that the kernel signs with, and nothing can ever
// change.
func TestInitialStateOfNoRegistry(t *testing.T) {
	t.Parallel()
	s := initial(t, nil)
	a, b := `{"id":"`+id(t, "kernel").String()+`","name":"kernel","public":"`+b64(t,
		"kernel")+`","role":"kernel","since":0}`, `{"id":"`+id(t, "log").String()+`","name":"log","public":"`+b64(t,
		"log")+`","role":"log","since":0}`
	if id(t, "kernel").String() > id(t, "log").String() {
		a, b = b, a
	}
	want := `{"frozen":false,"keys":[` + a + `,` + b + `],"revoked":[],"threshold":0,"version":1}`
	assert.True(t, string(s.Canonical()) == want && s.Digest() == crypto.Sum([]byte(want)) && !s.Frozen(),
		"%s\nwant\n%s", s.Canonical(), want)
	empty, err := New(0)
	assert.True(t, err == nil && initial(t, empty).Digest() == s.Digest(), "an empty registry is another: %v", err)
}

func b64(t testing.TB, name string) string {
	return string(crypto.AppendBase64(nil, public(t, name)))
}

// A state is read from its canonical form, which a second implementation of RFC 8785 agrees with.
func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*State{"bare": initial(t, nil), "full": full(t)} {
		b := s.Canonical()
		if want, err := jcs.Transform(b); err != nil || !bytes.Equal(want, b) {
			t.Errorf("%s: %s, want %s, %v", name, b, want, err)
		}
		again, err := ParseState(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		assert.True(t, bytes.Equal(again.Canonical(), b) && again.Digest() == s.Digest() &&
			again.Digest() == crypto.Sum(b) && again.Frozen() == s.Frozen(), "%s: read as %s", name, again.Canonical())
		text, err := json.Marshal(s)
		assert.True(t, err == nil && bytes.Equal(text, b), "%s: as JSON %s %v", name, text, err)
		for _, role := range roles {
			if got, want := again.Keys(role, 5), s.Keys(role, 5); !slices.EqualFunc(got, want,
				func(a, b crypto.PublicKey) bool { return bytes.Equal(a, b) }) {
				t.Errorf("%s: %s keys %v, want %v", name, role, got, want)
			}
		}
	}
	text := string(full(t).Canonical())
	assert.True(t, strings.Contains(text, `"role":"approver","roles":["clerk","owner"]`) && strings.Contains(text,
		`"name":"the \"log\""`), text)
}

// The order in which keys are listed makes no difference.
func TestOrderOfKeysMakesNoDifference(t *testing.T) {
	t.Parallel()
	want := full(t).Digest()
	keys := everyone(t)
	random := rand.New(rand.NewPCG(1, 2))
	moved := 0
	for range 50 {
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i]; moved++ })
		for _, k := range keys {
			random.Shuffle(len(k.Roles), func(i, j int) { k.Roles[i], k.Roles[j] = k.Roles[j], k.Roles[i] })
		}
		r, err := New(2, keys...)
		require.NoError(t, err)
		require.Equal(t, want, initial(t, r).Digest())
	}
	assert.NotEqual(t, 0, moved, "nothing was moved")
}

// The state does not change with the keys that it was made from, nor with the bytes and keys that
// it returned.
func TestStateNeverChanges(t *testing.T) {
	t.Parallel()
	keys := everyone(t)
	r, err := New(2, keys...)
	require.NoError(t, err)
	kernel, log := public(t, "kernel"), public(t, "log")
	for i := range keys {
		clear(keys[i].Public)
		for j := range keys[i].Roles {
			keys[i].Roles[j] = "root"
		}
	}
	s, err := r.Initial(kernel, log)
	require.NoError(t, err)
	clear(kernel)
	clear(log)
	text := s.Canonical()
	parsed, err := ParseState(text)
	require.NoError(t, err)
	clear(text)
	for _, s := range []*State{s, parsed} {
		key, _ := s.Key(id(t, "kernel"), Kernel, 1)
		clear(key)
		for _, k := range s.Keys(Root, 1) {
			clear(k)
		}
		clear(s.Canonical())
		if key, ok := s.Key(id(t, "kernel"), Kernel, 1); !ok || !bytes.Equal(key, public(t, "kernel")) ||
			s.Digest() != full(t).Digest() || !bytes.Equal(s.Canonical(), full(t).Canonical()) {
			t.Errorf("the state changed: %s", s.Canonical())
		}
	}
}

// A nil State returns nothing, and is frozen.
func TestNoState(t *testing.T) {
	t.Parallel()
	var s *State
	key, ok := s.Key(id(t, "kernel"), Kernel, 0)
	assert.True(t, !ok && key == nil && s.Frozen() && s.Keys(Kernel, 0) == nil && s.Canonical() == nil &&
		s.Digest() == (contracts.Digest{}), "no state says something")
	_, err := s.MarshalJSON()
	assert.Error(t, err, "no state is JSON")
	key, ok = new(State).Key(id(t, "kernel"), Kernel, 0)
	assert.True(t, !ok && key == nil, "the zero State has a key")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	key := func(name string, role Role, rs ...string) Key { return Key{name, public(t, name), role, rs} }
	root := key("root", Root)
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	_, err := New(1, root, key("k", Kernel), key("a", Approver, many[:32]...), key(strings.Repeat("x", 128), Log),
		key(strings.Repeat("x", 256), Delegator))
	require.NoError(t, err) // or the refusals below would prove nothing
	for name, c := range map[string]struct {
		threshold int
		keys      []Key
	}{
		"threshold without roots":      {1, []Key{key("k", Kernel)}},
		"roots without threshold":      {0, []Key{root}},
		"threshold over the roots":     {2, []Key{root}},
		"negative threshold":           {-1, nil},
		"negative threshold and roots": {-1, []Key{root}},
		"a key twice":                  {1, []Key{root, root}},
		"a key in two roles":           {1, []Key{root, {"again", root.Public, Kernel, nil}}},
		"role of nobody":               {0, []Key{key("x", "admin")}},
		"no role":                      {0, []Key{key("x", "")}},
		"role in capitals":             {0, []Key{key("x", "Kernel")}},
		"no name":                      {0, []Key{{"", public(t, "x"), Kernel, nil}}},
		"name of 129 bytes":            {0, []Key{key(strings.Repeat("x", 129), Kernel)}},
		"delegator of 257 bytes":       {0, []Key{key(strings.Repeat("x", 257), Delegator)}},
		"control character":            {0, []Key{key("a\nb", Kernel)}},
		"broken UTF-8":                 {0, []Key{key("a\xff", Kernel)}},
		"roles of a kernel key":        {0, []Key{key("k", Kernel, "owner")}},
		"roles of a root":              {1, []Key{key("root", Root, "owner")}},
		"33 roles":                     {0, []Key{key("a", Approver, many...)}},
		"an empty role":                {0, []Key{key("a", Approver, "")}},
		"a role of 65 bytes":           {0, []Key{key("a", Approver, strings.Repeat("x", 65))}},
		"a role with a control":        {0, []Key{key("a", Approver, "a\x00")}},
		"no public key":                {0, []Key{{"k", nil, Kernel, nil}}},
		"31 bytes":                     {0, []Key{{"k", public(t, "k")[:31], Kernel, nil}}},
		"33 bytes":                     {0, []Key{{"k", append(public(t, "k"), 0), Kernel, nil}}},
	} {
		if r, err := New(c.threshold, c.keys...); err == nil || r != nil {
			t.Errorf("%s: taken", name)
		} else if !strings.HasPrefix(err.Error(), "registry: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The kernel's keys are added if they are missing, and have no second role.
func TestInitialRefuses(t *testing.T) {
	t.Parallel()
	kernel, log := public(t, "kernel"), public(t, "log")
	listed, err := New(0, Key{"my kernel", kernel, Kernel, nil}, Key{"my log", log, Log, nil},
		Key{"old kernel", public(t, "old"), Kernel, nil})
	require.NoError(t, err)
	s := initial(t, listed)
	assert.True(t, !strings.Contains(string(s.Canonical()), `"name":"kernel"`) && len(s.Keys(Kernel, 0)) == 2 &&
		len(s.Keys(Log, 0)) == 1, "keys that are listed were added: %s", s.Canonical())
	swapped, err := New(0, Key{"k", kernel, Log, nil})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		r           *Registry
		kernel, log crypto.PublicKey
	}{
		"one key for both":            {nil, kernel, kernel},
		"no kernel key":               {nil, nil, log},
		"no log key":                  {nil, kernel, nil},
		"kernel key listed as log":    {swapped, kernel, log},
		"log key listed as kernel":    {listed, public(t, "another"), kernel},
		"kernel key of small order":   {nil, small(t)[0], log},
		"log key that is not reduced": {nil, kernel, small(t)[len(small(t))-1]},
	} {
		s, err := c.r.Initial(c.kernel, c.log)
		assert.True(t, err != nil && s == nil, "%s: taken", name)
	}
}

// small returns the points of small order, and encodings that are not canonical.
func small(t testing.TB) []crypto.PublicKey {
	var out []crypto.PublicKey
	for _, text := range table.Read[string](t, "small", 14) {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}

// A key under which one signature could be valid for every message is refused in every role.
func TestWeakKeys(t *testing.T) {
	t.Parallel()
	for i, weak := range small(t) {
		for _, role := range roles {
			r, err := New(1, Key{"root", public(t, "root"), Root, nil}, Key{"weak", weak, role, nil})
			assert.True(t, err != nil && r == nil, "%d as %s: taken", i, role)
		}
		good := initial(t, nil).Canonical()
		bad := bytes.Replace(good, []byte(b64(t, "log")), crypto.AppendBase64(nil, weak), 1)
		bad = bytes.Replace(bad, []byte(id(t, "log").String()), []byte(crypto.KeyID(weak).String()), 1)
		var parsed struct{ Keys []json.RawMessage }
		if err := json.Unmarshal(bad, &parsed); err != nil || len(parsed.Keys) != 2 {
			t.Fatal(err)
		}
		// they begin with the id
		slices.SortFunc(parsed.Keys, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
		bad = []byte(`{"frozen":false,"keys":[` + string(parsed.Keys[0]) + `,` + string(parsed.Keys[1]) +
			`],"revoked":[],"threshold":0,"version":1}`)
		s, err := ParseState(bad)
		assert.True(t, err != nil && s == nil && strings.Contains(err.Error(), "public key"), "%d: %v", i, err)
	}
}

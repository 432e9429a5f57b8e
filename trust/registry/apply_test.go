package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The keys of a log as an operator changes them: every event once, and its effects.
func TestLifeOfATrustState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(20)
	w.must(w.key("kernel 2", Kernel), "r1", "r2") // index 21
	w.mustBeValid("kernel 2", Kernel, []uint64{22, 23, 1 << 52}, []uint64{0, 1, 20, 21})
	w.pass(3)
	w.must(w.revoke("kernel"), "r2", "r3") // index 25
	w.mustBeValid("kernel", Kernel, []uint64{0, 1, 21, 24, 25}, []uint64{26, 27, 1 << 52})
	w.must(w.key("dora", Approver, "owner", "clerk"), "r1", "r3") // 26
	h, ok := w.state.Holder(id(w, "dora"), Approver, 27)
	assert.True(t, ok && h.Name == "dora" && h.Role == Approver && slices.Equal(h.Roles, []string{"clerk", "owner"}) &&
		bytes.Equal(h.Public, public(w, "dora")), "%+v %v", h, ok)
	h, ok = w.state.Holder(id(w, "dora"), Approver, 26)
	assert.True(t, !ok && h.Name == "" && h.Public == nil, "before her time: %+v", h)
	w.must(w.freeze(), "freezer") // 27
	assert.True(t, w.state.Frozen() && !w.start.Frozen(), "not frozen")
	w.must(w.unfreeze(), "r1", "r2") // 28
	assert.False(t, w.state.Frozen(), "frozen")
	w.must(w.undelegate("a grant", "bob"), "bob")                 // 29
	w.must(w.undelegate("another grant", "nobody"), "r1", "r2")   // 30
	w.must(w.roots(1, "r1", "r4"), "r1", "r2")                    // 31
	w.mustBeValid("r4", Root, []uint64{32}, []uint64{0, 31})      //
	w.mustBeValid("r2", Root, []uint64{0, 31}, []uint64{32})      //
	w.mustBeValid("r1", Root, []uint64{0, 31, 32, 1 << 40}, nil)  //
	w.must(w.key("log 2", Log), "r4")                             // 32
	w.must(w.revoke("log"), "r1")                                 // 33
	w.mustBeValid("log", Log, []uint64{0, 33}, []uint64{34})      //
	w.mustBeValid("log 2", Log, []uint64{33, 34}, []uint64{0, 1}) //
	for _, grant := range []string{"a grant", "another grant"} {
		d := crypto.Sum([]byte(grant))
		assert.True(t, w.state.Revoked(d) && !w.start.Revoked(d), grant)
	}
	if w.state.Version() != 11 || w.start.Version() != 1 || len(w.events) != 10 {
		t.Errorf("version %d after %d events", w.state.Version(), len(w.events))
	}
	// The state contains all of it, also the old keys.
	text := string(w.state.Canonical())
	for name, want := range map[string]string{
		"kernel":   `"revoked":25,"role":"kernel","since":0}`,
		"kernel 2": `"role":"kernel","since":21}`,
		"dora":     `"role":"approver","roles":["clerk","owner"],"since":26}`,
		"r2":       `"revoked":31,"role":"root","since":0}`,
		"r4":       `"role":"root","since":31}`,
	} {
		from := strings.Index(text, `{"id":"`+id(w, name).String())
		assert.True(t, from >= 0 && strings.HasSuffix(text[from:from+strings.Index(text[from:], "}")+1], want),
			"%s: want %s in %s", name, want, text)
	}
	assert.True(t, strings.HasSuffix(text, `"threshold":1,"version":11}`), text)
	// The state at any index is the fold of the events before it.
	for n := range len(w.events) + 1 {
		s := w.start
		for _, p := range w.events[:n] {
			var err error
			s, err = s.Apply(p.record, origin, p.index)
			require.NoError(t, err)
		}
		assert.False(t, n == len(w.events) && s.Digest() != w.state.Digest(), "folded again it is another")
	}
}

func TestKeyEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(9)
	change := func(e contracts.TrustEvent, f func(*contracts.TrustEvent)) contracts.TrustEvent {
		f(&e)
		return e
	}
	good := w.key("new", Publisher)
	proof := func(e contracts.TrustEvent, by string) contracts.TrustEvent {
		var err error
		e.Proof, err = crypto.Sign(private(t, by), e.ProofMessage())
		require.NoError(t, err)
		return e
	}
	roots := []string{"r1", "r2"}
	w.refuse("only an event of type root", proof(change(good, func(e *contracts.TrustEvent) { e.Role = "root" }),
		"new"), roots...)
	for _, role := range []string{"", "admin", "Kernel", "kernel ", "ROOT"} {
		w.refuse("role", proof(change(good, func(e *contracts.TrustEvent) { e.Role = role }), "new"), roots...)
	}
	for _, name := range []string{"", strings.Repeat("x", 129), "a\nb", "a\xff"} {
		w.refuse("name", proof(change(good, func(e *contracts.TrustEvent) { e.Name = name }), "new"), roots...)
	}
	w.refuse("roles", proof(change(good, func(e *contracts.TrustEvent) { e.Roles = []string{"owner"} }), "new"),
		roots...)
	for _, rs := range [][]string{{"b", "a"}, {"a", "a"}, {""}, {strings.Repeat("x", 65)}, make([]string, 33)} {
		w.refuse("roles", proof(change(good, func(e *contracts.TrustEvent) { e.Role, e.Roles = "approver", rs }),
			"new"), roots...)
	}
	w.refuse("id: missing", change(good, func(e *contracts.TrustEvent) { e.ID = nil }))
	w.refuse("id: not that of", proof(change(good, func(e *contracts.TrustEvent) { e.ID = digestOf(id(t, "x")) }),
		"new"), roots...)
	w.refuse("id: not that of", proof(change(good, func(e *contracts.TrustEvent) { e.Public = public(t, "x") }), "x"),
		roots...)
	w.refuse("id: not that of", proof(change(good, func(e *contracts.TrustEvent) { e.Public = nil }), "new"), roots...)
	w.refuse("bytes", proof(change(good, func(e *contracts.TrustEvent) {
		e.Public = e.Public[:31]
		e.ID = digestOf(crypto.KeyID(e.Public))
	}), "new"), roots...)
	w.refuse("proof", change(good, func(e *contracts.TrustEvent) { e.Proof = nil }), roots...)
	w.refuse("proof", change(good, func(e *contracts.TrustEvent) { e.Proof = make([]byte, 64) }), roots...)
	// by another key
	w.refuse("proof", proof(good, "x"), roots...)
	// a root's word is no proof
	w.refuse("proof", proof(good, "r1"), roots...)
	// for another role
	w.refuse("proof", change(good, func(e *contracts.TrustEvent) { e.Role = "kernel" }), roots...)
	// for another name
	w.refuse("proof", change(good, func(e *contracts.TrustEvent) { e.Name = "another" }), roots...)
	// over the event with its proof
	w.refuse("proof", change(good, func(e *contracts.TrustEvent) { e.Proof = sigOf(t, "new", *e) }), roots...)
	w.refuse("version", change(good, func(e *contracts.TrustEvent) { e.Version++ }), roots...) //
	// a key has one role
	w.refuse("known", proof(change(w.key("ann", Publisher), func(*contracts.TrustEvent) {}), "ann"), roots...)
	// and is there already
	w.refuse("known", w.key("kernel", Kernel), roots...)
	for i, weak := range small(t) {
		e := change(good, func(e *contracts.TrustEvent) {
			e.Public, e.ID = weak, digestOf(crypto.KeyID(weak))
			// R is the identity, S is 0: verifies for every message under the identity
			e.Proof = append([]byte{1}, make([]byte, 63)...)
		})
		if w.refuse("public key", e, roots...); t.Failed() {
			t.Fatalf("weak key %d", i)
		}
	}
	w.must(good, roots...)
	for _, role := range []Role{Kernel, Log, Publisher, Approver, Delegator, Attestor, Freezer, Witness} {
		w.must(w.key("another "+string(role), role), roots...)
	}
	w.must(w.key(strings.Repeat("x", 128), Log), roots...)
	w.must(w.key(strings.Repeat("x", 256), Delegator, "a"), roots...)
	w.must(w.revoke("new"), roots...)
	w.refuse("never returns", w.key("new", Publisher), roots...)
	w.refuse("never returns", w.key("new", Kernel), "r1", "r2", "r3")
}

func sigOf(t testing.TB, name string, e contracts.TrustEvent) []byte {
	sig, err := crypto.Sign(private(t, name), e.Message())
	require.NoError(t, err)
	return sig
}

func TestRevocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuse("id: missing", w.event(contracts.TrustEvent{Type: "revoke", Why: "x"}))
	w.refuse("of no key", w.revoke("a stranger"), "r1", "r2")
	w.refuse("only an event of type root", w.revoke("r3"), "r1", "r2")
	w.refuse("no kernel key", w.revoke("kernel"), "r1", "r2", "r3")
	w.refuse("no log key", w.revoke("log"), "r1", "r2", "r3")
	w.must(w.revoke("ann"), "r1", "r2")
	w.refuse("revoked before", w.revoke("ann"), "r1", "r2")
	w.must(w.key("kernel 2", Kernel), "r1", "r2")
	w.must(w.key("log 2", Log), "r1", "r2")
	w.must(w.revoke("kernel 2"), "r1", "r2") // whichever of the two
	w.refuse("no kernel key", w.revoke("kernel"), "r1", "r2")
	w.must(w.revoke("log"), "r1", "r2")
	w.refuse("no log key", w.revoke("log 2"), "r1", "r2")
	// no key of these roles is needed
	for _, name := range []string{"publisher", "attestor", "freezer", "witness", "bob", "eve"} {
		w.must(w.revoke(name), "r1", "r2")
		w.refuse("revoked before", w.revoke(name), "r1", "r2")
	}
	w.refuse("no say", w.freeze(), "freezer")
	w.refuse("no say", w.undelegate("g", "bob"), "bob")
	w.must(w.freeze(), "r3")
}

// A key that is revoked at the index at which it was added may never sign.
func TestRevokedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.key("freezer 2", Freezer), "r1", "r2")
	at := w.index
	w.must(w.revoke("freezer 2"), "r1", "r2")
	w.mustBeValid("freezer 2", Freezer, []uint64{at}, []uint64{at - 1, at + 1})
	w.refuse("no say", w.freeze(), "freezer 2")
}

func TestRootRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(4)
	reproved := func(e contracts.TrustEvent, names ...string) contracts.TrustEvent {
		for i, name := range names {
			e.Keys[i].Proof = proofOf(t, name, e)
		}
		return e
	}
	// Old threshold and new threshold.
	w.refuse("0 of root keys, want 2", w.roots(2, "r4", "r5", "r6"), "r4", "r5", "r6")
	w.refuse("0 of root keys, want 2", w.roots(2, "r4", "r5", "r6"), "r4", "r5")
	w.refuse("1 of root keys, want 2", w.roots(2, "r4", "r5", "r6"), "r1", "r4", "r5")
	w.refuse("0 of the new root keys, want 2", w.roots(2, "r4", "r5", "r6"), "r1", "r2", "r3")
	w.refuse("1 of the new root keys, want 2", w.roots(2, "r4", "r5", "r6"), "r1", "r2", "r3", "r4")
	w.refuse("1 of the new root keys, want 2", w.roots(2, "r1", "r4"), "r1", "r2", "r3") // r1 counts in both
	w.refuse("no say", w.roots(1, "r1", "r4"), "r1", "r2", "a stranger")
	w.refuse("no say", w.roots(1, "r1", "r4"), "r1", "r2", "kernel")
	// The keys that it lists.
	w.refuse("threshold", w.roots(0, "r1"), "r1", "r2")
	w.refuse("threshold", w.roots(3, "r1", "r4"), "r1", "r2", "r4")
	w.refuse("threshold", w.roots(1), "r1", "r2")
	w.refuse("threshold", w.event(contracts.TrustEvent{Type: "root", Threshold: 1 << 53}), "r1", "r2")
	w.refuse("known", w.roots(1, "r1", "freezer"), "r1", "r2")
	w.refuse("known", w.roots(1, "r1", "kernel"), "r1", "r2")
	w.refuse("nothing changes", w.roots(2, "r1", "r2", "r3"), "r1", "r2", "r3")
	e := w.roots(1, "r1", "r4")
	first, last := e.Keys[0].Name, e.Keys[1].Name
	e.Keys = []contracts.RootKey{e.Keys[1], e.Keys[0]}
	w.refuse("keys.1: not sorted by id and unique", reproved(e, last, first), "r1", "r2")
	e.Keys = []contracts.RootKey{e.Keys[1], e.Keys[0], e.Keys[0]}
	w.refuse("keys.2: not sorted by id and unique", reproved(e, first, last, last), "r1", "r2")
	for says, change := range map[string]func(*contracts.RootKey){
		"name: not 1 to 128":  func(k *contracts.RootKey) { k.Name = "" },
		"name: not 1 to 128 ": func(k *contracts.RootKey) { k.Name = strings.Repeat("x", 129) },
		"id: not that of":     func(k *contracts.RootKey) { k.Public = public(t, "x") },
		"id: not that of the": func(k *contracts.RootKey) { k.Public = nil },
		"id: not that":        func(k *contracts.RootKey) { k.ID[31] ^= 1 },
	} {
		for i := range 2 { // of the root that stays too
			e := w.roots(1, "r1", "r4")
			change(&e.Keys[i])
			w.refuse(fmt.Sprintf("keys.%d: %s", i, says), reproved(e, first, last), "r1", "r2")
		}
	}
	for _, proof := range [][]byte{nil, make([]byte, 64), proofOf(t, "x", w.roots(1, "r1", "r4")),
		proofOf(t, "r1", w.roots(2, "r1", "r4"))} {
		for i := range 2 {
			e := w.roots(1, "r1", "r4")
			e.Keys[i].Proof = proof
			w.refuse(fmt.Sprintf("keys.%d: proof", i), e, "r1", "r2")
		}
	}
	for _, weak := range small(t) {
		e := w.event(contracts.TrustEvent{Type: "root", Threshold: 1,
			Keys: []contracts.RootKey{{ID: crypto.KeyID(weak), Name: "weak", Public: weak,
				Proof: append([]byte{1}, make([]byte, 63)...)}}})
		w.refuse("public key", e, "r1", "r2")
	}
	// And its effects.
	w.must(w.roots(2, "r1", "r2", "r3", "r4"), "r2", "r3") // the new threshold is of those that stay, too
	w.must(w.roots(1, "r1", "r2", "r3", "r4"), "r1", "r4") // only the threshold
	w.must(w.roots(2, "r4", "r5"), "r4", "r5")             // the rest is left out
	for _, gone := range []string{"r1", "r2", "r3"} {
		w.refuse("no say", w.freeze(), gone)
		w.refuse("no say", w.revoke("ann"), "r4", gone)
		w.refuse("never returns", w.roots(1, "r4", gone), "r4", "r5", gone)
		w.refuse("never returns", w.key(gone, Approver), "r4", "r5")
	}
	w.refuse("1 of root keys, want 2", w.revoke("ann"), "r4")
	w.must(w.revoke("ann"), "r5", "r4")
	e = w.roots(1, "r4")
	e.Keys[0].Name = "another name"
	e = w.proved(e, "r4")
	w.must(e, "r4", "r5")
	h, ok := w.state.Holder(id(w, "r4"), Root, w.index)
	assert.True(t, ok && h.Name == "r4", "a root that stays is now %q", h.Name)
	w.refuse("nothing changes",
		w.proved(w.event(contracts.TrustEvent{Type: "root", Threshold: 1,
			Keys: []contracts.RootKey{{Name: "a third name", Public: public(t, "r4")}}}), "r4"), "r4")
}

func proofOf(t testing.TB, name string, e contracts.TrustEvent) []byte {
	sig, err := crypto.Sign(private(t, name), e.ProofMessage())
	require.NoError(t, err)
	return sig
}

func TestUndelegations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.key("dan", Delegator), "r1", "r2")
	w.refuse("0 of root keys", w.undelegate("g", "bob"))
	w.refuse("1 of root keys", w.undelegate("g", "bob"), "r1")
	w.refuse("no say", w.undelegate("g", "bob"), "dan")       // a delegator of another name
	w.refuse("no say", w.undelegate("g", "bob"), "dan", "r1") // not with a root either
	w.refuse("no say", w.undelegate("g", "bob"), "r1", "r2", "dan")
	w.refuse("no say", w.undelegate("g", "BOB"), "bob")
	w.refuse("no say", w.undelegate("g", "freezer"), "freezer")
	w.refuse("no say", w.undelegate("g", "ann"), "ann")
	w.refuse("delegation: missing", w.event(contracts.TrustEvent{Type: "undelegate", Delegator: "bob"}))
	w.must(w.undelegate("g", "bob"), "bob")
	w.refuse("revoked before", w.undelegate("g", "bob"), "bob")
	w.refuse("revoked before", w.undelegate("g", "dan"), "r1", "r2")
	w.must(w.undelegate("h", "bob"), "bob", "r1")
	w.must(w.undelegate("i", "nobody"), "r1", "r2")
	w.must(w.revoke("bob"), "r1", "r2")
	w.refuse("no say", w.undelegate("j", "bob"), "bob")
	w.must(w.undelegate("j", "bob"), "r3", "r2")
	for i, grant := range []string{"g", "h", "i", "j"} {
		assert.True(t, w.state.Revoked(crypto.Sum([]byte(grant))), "grant %d", i)
	}
}

func TestFreezes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuse("nothing changes", w.unfreeze(), "r1", "r2")
	for _, who := range []string{"kernel", "log", "publisher", "attestor", "witness", "ann", "bob", "a stranger"} {
		w.refuse("no say", w.freeze(), who)
		w.refuse("no say", w.freeze(), who, "freezer")
	}
	w.refuse("want that of a root or a freezer", w.freeze())
	w.must(w.freeze(), "r3")
	w.refuse("nothing changes", w.freeze(), "freezer")
	w.refuse("no say", w.unfreeze(), "freezer")
	w.refuse("no say", w.unfreeze(), "freezer", "r1", "r2")
	w.refuse("1 of root keys", w.unfreeze(), "r1")
	w.must(w.key("freezer 2", Freezer), "r1", "r2") // keys can change while it is frozen
	w.must(w.unfreeze(), "r1", "r2")
	w.must(w.freeze(), "freezer", "r1", "freezer 2")
}

// Apply accepts the result of Sign and Prove, in any order of signers.
func TestApplyTakesEnvelopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, order := range [][]string{{"r1", "r2"}, {"r2", "r1"}, {"r3", "r1", "r2"}} {
		for _, e := range []contracts.TrustEvent{w.key("new", Approver, "z", "a"), w.roots(2, "r2", "r1", "r9"),
			w.undelegate("g", "bob"), w.freeze(), w.revoke("bob")} {
			r, err := contracts.ParseTrust(mustSign(t, e, order...))
			require.NoError(t, err)
			got, err := w.state.Apply(r, origin, 5)
			if err != nil {
				t.Errorf("%s by %v: %v", e.Type, order, err)
				continue
			}
			want, err := w.state.Apply(sign(t, e, "r1", "r2"), origin, 5)
			assert.True(t, err == nil && got.Digest() == want.Digest(), "%s by %v: another state: %v", e.Type, order,
				err)
		}
	}
}

// A state does not change when the event that made it or a copy of its content is changed, nor when
// a later state is made.
func TestApplyCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.state.Canonical()
	key, roots := sign(t, w.key("new", Approver, "a", "b"), "r1", "r2"), (*contracts.TrustRecord)(nil)
	w.take(key)
	roots = sign(t, w.roots(1, "r1", "r4"), "r1", "r2")
	w.take(roots)
	w.must(w.undelegate("g", "bob"), "bob")
	kept := w.state
	text := kept.Canonical()
	for _, b := range [][]byte{key.Event.Public, key.Event.Proof, roots.Event.Keys[0].Public,
		roots.Event.Keys[1].Public} {
		for i := range b {
			b[i] = 0
		}
	}
	key.Event.Roles[0], *key.Event.ID = "root", contracts.Digest{}
	w.must(w.undelegate("a", "bob"), "bob") // one sorts before the other, one after
	w.must(w.undelegate("z", "bob"), "bob")
	w.must(w.revoke("ann"), "r1")
	assert.True(t, bytes.Equal(kept.Canonical(), text) && bytes.Equal(kept.append(nil), text) &&
		bytes.Equal(w.start.append(nil), start), "an earlier state changed")
	if h, ok := w.state.Holder(id(t, "new"), Approver, 99); !ok || !bytes.Equal(h.Public, public(t, "new")) ||
		!slices.Equal(h.Roles, []string{"a", "b"}) {
		t.Errorf("%+v", h)
	} else {
		h.Roles[0], h.Public[0] = "x", 0
	}
	w.mustHold(w.state)
	assert.True(t, bytes.Equal(w.state.append(nil), w.state.Canonical()), "what was handed out changes the state")
}

// The numbers in a state are as large as can be read again, and no larger.
func TestStateLimits(t *testing.T) {
	t.Parallel()
	s, err := ParseState(state(false, 1, 1<<53-1, nil, keyOf(t, "kernel", Kernel), keyOf(t, "log", Log),
		keyOf(t, "r1", Root)))
	require.NoError(t, err)
	w := &world{t, s, s, 1, nil}
	w.refuse("version: not from 1 to", w.freeze(), "r1")
	if s, err := ParseState(bytes.Replace(s.Canonical(), []byte(`"version":9007199254740991`),
		[]byte(`"version":9007199254740992`), 1)); err == nil {
		t.Errorf("version %d", s.Version())
	}
	assert.True(t, (*State)(nil).Version() == 0 && full(t).Version() == 1, "versions")
}

// Many goroutines read and apply, and all get the same result.
func TestStateIsSafeForManyGoroutines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := sign(t, w.key("new", Approver, "owner"), "r1", "r2")
	want, err := w.state.Apply(r, origin, 5)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				next, err := w.state.Apply(r, origin, 5)
				assert.True(t, err == nil && next.Digest() == want.Digest() && len(next.Keys(Approver, 9)) == 3 &&
					!next.Revoked(next.Digest()) && !next.Frozen(), err)
				next.Canonical()[0] = 'x'
			}
		})
	}
	wg.Wait()
}

package registry

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const origin = "example.test/log"

// private is the key of a name.
func private(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return key
}

// A world is a log as its trust state sees it: events, at indexes with other entries in between.
type world struct {
	testing.TB
	start, state *State
	index        uint64 // of the next entry
	events       []placed
}

// placed is an event and its place.
type placed struct {
	index  uint64
	record *contracts.TrustRecord
}

// newWorld has the keys of everyone: three roots, two of which decide.
func newWorld(t testing.TB) *world {
	t.Helper()
	s := full(t)
	return &world{t, s, s, 1, nil}
}

// event sets the fields that every event has.
func (w *world) event(e contracts.TrustEvent) contracts.TrustEvent {
	e.Origin, e.Version = origin, w.state.Version()+1
	return e
}

// key is an event that adds the key of a name, which proves itself.
func (w *world) key(name string, role Role, rs ...string) contracts.TrustEvent {
	w.Helper()
	e, err := w.event(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: rs}).Prove(private(w,
		name))
	require.NoError(w, err)
	return e
}

func (w *world) revoke(name string) contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "revoke", ID: digestOf(id(w, name)), Why: "a test"})
}

// roots is an event that replaces the roots.
func (w *world) roots(threshold uint64, names ...string) contracts.TrustEvent {
	w.Helper()
	e := w.event(contracts.TrustEvent{Type: "root", Threshold: threshold})
	for _, name := range names {
		e.Keys = append(e.Keys, contracts.RootKey{Name: name, Public: public(w, name)})
	}
	return w.proved(e, names...)
}

func (w *world) proved(e contracts.TrustEvent, names ...string) contracts.TrustEvent {
	w.Helper()
	for _, name := range names {
		var err error
		e, err = e.Prove(private(w, name))
		require.NoError(w, err)
	}
	return e
}

func (w *world) undelegate(grant, delegator string) contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "undelegate", Delegation: digestOf(crypto.Sum([]byte(grant))),
		Delegator: delegator})
}

func (w *world) freeze() contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "freeze", Why: "a test"})
}

func (w *world) unfreeze() contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "unfreeze", Why: "a test"})
}

func digestOf(d contracts.Digest) *contracts.Digest { return &d }

// sign makes the record of an event by hand, so that wrong ones can be made too; signatures are in
// order.
func sign(t testing.TB, e contracts.TrustEvent, by ...string) *contracts.TrustRecord {
	t.Helper()
	r := &contracts.TrustRecord{Event: e}
	for _, name := range by {
		sig, err := crypto.Sign(private(t, name), e.Message())
		require.NoError(t, err)
		r.Signatures = append(r.Signatures, contracts.Signature{KeyID: id(t, name), Sig: sig})
	}
	slices.SortFunc(r.Signatures, func(a, b contracts.Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	return r
}

// pass puts other entries into the log.
func (w *world) pass(n uint64) { w.index += n }

// must applies an event, signed by these.
func (w *world) must(e contracts.TrustEvent, by ...string) {
	w.Helper()
	w.take(sign(w, e, by...))
}

func (w *world) take(r *contracts.TrustRecord) {
	w.Helper()
	next, err := w.state.Apply(r, origin, w.index)
	if err != nil {
		w.Fatalf("%s at %d: %v", r.Event.Type, w.index, err)
	}
	w.mustHold(next)
	assert.True(w, next.Version() == w.state.Version()+1 && next.Digest() != w.state.Digest(), "version %d after %d",
		next.Version(), w.state.Version())
	w.state, w.events = next, append(w.events, placed{w.index, r})
	w.index++
}

// mustHold reads a state again from its canonical form.
func (w *world) mustHold(s *State) {
	w.Helper()
	again, err := ParseState(s.Canonical())
	if err != nil {
		w.Fatalf("%v: %s", err, s.Canonical())
	}
	if again.Digest() != s.Digest() || again.Digest() != crypto.Sum(s.Canonical()) || again.Version() != s.Version() ||
		again.Frozen() != s.Frozen() {
		w.Fatalf("%s", s.Canonical())
	}
}

// refuse has an event refused, for a reason, and the state stay as it is.
func (w *world) refuse(says string, e contracts.TrustEvent, by ...string) {
	w.Helper()
	w.reject(says, sign(w, e, by...))
}

func (w *world) reject(says string, r *contracts.TrustRecord) {
	w.Helper()
	before := w.state.Canonical()
	next, err := w.state.Apply(r, origin, w.index)
	assert.True(w, err != nil && next == nil && strings.HasPrefix(err.Error(), "registry: trust event: ") &&
		strings.Contains(err.Error(), says), "%v, want a refusal that says %q", err, says)
	assert.True(w, bytes.Equal(w.state.Canonical(), before) && w.state.Digest() == crypto.Sum(before),
		"the state changed: %s", w.state.Canonical())
}

// valid returns the indexes at which a key may sign.
func (w *world) valid(name string, role Role, indexes ...uint64) (out []uint64) {
	for _, i := range indexes {
		if _, ok := w.state.Key(id(w, name), role, i); ok {
			out = append(out, i)
		}
	}
	return out
}

func (w *world) mustBeValid(name string, role Role, at []uint64, notAt []uint64) {
	w.Helper()
	got := w.valid(name, role, at...)
	assert.True(w, slices.Equal(got, at), "%s is valid as %s at %v, want %v", name, role, got, at)
	got = w.valid(name, role, notAt...)
	assert.Nil(w, got, "%s is valid as %s", name, role)
}

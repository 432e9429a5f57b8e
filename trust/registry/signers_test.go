package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// An event is for one log, one state and one place; it can be neither held back nor replayed.
func TestReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	again := sign(t, w.freeze(), "freezer")
	w.take(again)
	w.must(w.unfreeze(), "r1", "r2")
	w.reject("version: 2, want 4", again)
	ahead := w.freeze()
	ahead.Version++
	w.refuse("version: 5, want 4", ahead, "freezer")
	other := w.freeze()
	other.Origin = "example.test/log2"
	w.refuse("another log than example.test/log", other, "freezer")
	other.Origin = ""
	w.refuse("another log than example.test/log", other, "freezer")
	good := sign(t, w.freeze(), "freezer")
	for _, index := range []uint64{0, 1 << 53, ^uint64(0)} {
		next, err := w.state.Apply(good, origin, index)
		assert.True(t, err != nil && next == nil && strings.Contains(err.Error(), "index"), "at %d: %v", index, err)
	}
	next, err := w.state.Apply(good, "example.test/log2", w.index)
	assert.True(t, err != nil && next == nil, "in another log: %v", err)
	for name, s := range map[string]*State{"none": nil, "the zero State": new(State)} {
		next, err := s.Apply(good, origin, 1)
		assert.True(t, err != nil && next == nil, "%s: %v", name, err)
	}
	w.reject("there is none", nil)
	w.reject("another log", new(contracts.TrustRecord))
}

// Threshold 0 means that nothing can ever change, freeze included, never that anyone may change it.
func TestThresholdZero(t *testing.T) {
	t.Parallel()
	r, err := New(0, everyone(t)[3:]...) // all but the roots
	require.NoError(t, err)
	w := &world{t, initial(t, r), initial(t, r), 1, nil}
	for _, e := range []contracts.TrustEvent{w.freeze(), w.unfreeze(), w.key("new", Freezer), w.roots(1, "r1"),
		w.undelegate("g", "bob"), w.revoke("ann")} {
		for _, by := range [][]string{nil, {"freezer"}, {"bob"}, {"kernel"}, {"r1"}} {
			w.refuse("nothing can ever change", e, by...)
		}
	}
	bare := &world{t, initial(t, nil), initial(t, nil), 1, nil}
	bare.refuse("nothing can ever change", bare.freeze(), "kernel")
}

// Signatures are of distinct keys that count, in order, and every one verifies.
func TestSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.revoke("ann")
	with := func(change func(r *contracts.TrustRecord), by ...string) *contracts.TrustRecord {
		r := sign(t, e, by...)
		change(r)
		return r
	}
	w.refuse("0 of root keys, want 2: ask root 1, root 2, root 3", e)
	w.refuse("1 of root keys, want 2: ask root 2, root 3", e, "r1")
	for _, other := range []string{"kernel", "log", "publisher", "attestor", "freezer", "witness", "ann", "bob",
		"a stranger"} {
		w.refuse("no say", e, other, "r1")
		w.refuse("no say", e, other, "r1", "r2") // though the others are enough
	}
	w.reject("not sorted", with(func(r *contracts.TrustRecord) { r.Signatures[1] = r.Signatures[0] }, "r1", "r2"))
	w.reject("not sorted", with(func(r *contracts.TrustRecord) { slices.Reverse(r.Signatures) }, "r1", "r2"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) {
		r.Signatures[0].Sig, r.Signatures[1].Sig = r.Signatures[1].Sig, r.Signatures[0].Sig
	}, "r1", "r2"))
	// though the others are enough
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { r.Signatures[2].Sig[5] ^= 1 }, "r1", "r2", "r3"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { r.Signatures[0].Sig = nil }, "r1", "r2"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { r.Event.Why = "another reason" }, "r1", "r2"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { r.Event.ID = digestOf(id(t, "bob")) }, "r1",
		"r2"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { // over the bare event, not the encoding of DSSE
		sig, err := crypto.Sign(private(t, "r1"), r.Event.Append(nil))
		require.NoError(t, err)
		r.Signatures[0] = contracts.Signature{KeyID: id(t, "r1"), Sig: sig}
	}, "r1"))
	w.reject("does not verify", with(func(r *contracts.TrustRecord) { // as a statement
		sig, err := crypto.Sign(private(t, "r1"), crypto.AppendPAE(nil, contracts.PayloadType, r.Event.Append(nil)))
		require.NoError(t, err)
		r.Signatures[0] = contracts.Signature{KeyID: id(t, "r1"), Sig: sig}
	}, "r1"))
	w.must(e, "r1", "r2", "r3") // more than enough is enough
}

// A root that an event adds may sign only from the next entry on, but for the new threshold of that
// event.
func TestNewRootsSignTheirOwnEventOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pass(6)
	at := w.index
	w.must(w.roots(2, "r1", "r2", "r4"), "r1", "r2")
	e := w.freeze()
	next, err := w.state.Apply(sign(t, e, "r4"), origin, at)
	assert.True(t, err != nil && next == nil, "it signs at the index where it was added: %v", err)
	w.must(e, "r4")
}

func TestUnknownEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, typ := range []string{"", "rotate", "Key", "key ", "thaw"} {
		w.refuse("not a type of event", w.event(contracts.TrustEvent{Type: typ, Why: "x"}), "r1", "r2")
	}
	// One that came in an entry, and that this version does not know.
	env := string(mustSign(t, w.freeze(), "r1"))
	event := `{"origin":"` + origin + `","type":"rotate","version":2}`
	r, err := contracts.ParseTrust(contracts.Envelope(strings.Replace(env,
		string(crypto.AppendBase64(nil, ptrTo(w.freeze()).Append(nil))),
		string(crypto.AppendBase64(nil, []byte(event))), 1)))
	require.True(t, err == nil && r.Event.Type == "rotate", err)
	w.reject("another log", r)
}

func ptrTo[T any](x T) *T { return &x }

// mustSign makes the envelope of an event as its signers would.
func mustSign(t testing.TB, e contracts.TrustEvent, by ...string) contracts.Envelope {
	t.Helper()
	r := &contracts.TrustRecord{Event: e}
	var env contracts.Envelope
	for _, name := range by {
		var err error
		env, err = r.Sign(private(t, name))
		require.NoError(t, err)
		r, err = contracts.ParseTrust(env)
		require.NoError(t, err)
	}
	return env
}

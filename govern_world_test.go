package helm_test

import (
	"context"
	"slices"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Seeds of those who govern the log. The kernel's own key has 1.
const (
	seedR1 = 11 + iota // two of three roots decide
	seedR2
	seedR3
	seedR4 // no root yet
	seedF  // a freezer
	seedA  // an approver
	seedD  // a delegator
	seedK2 // nobody yet
	seedL2
	seedX
)

func public(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(seedKey(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func keyID(t testing.TB, seed byte) *contracts.Digest { return keyIDOf(public(t, seed)) }

func keyIDOf(p crypto.PublicKey) *contracts.Digest {
	id := crypto.KeyID(p)
	return &id
}

// governors are who governs the log, and more keys.
func governors(t testing.TB, more ...registry.Key) *registry.Registry {
	t.Helper()
	r, err := registry.New(2, append([]registry.Key{
		{Name: "root 1", Public: public(t, seedR1), Role: registry.Root},
		{Name: "root 2", Public: public(t, seedR2), Role: registry.Root},
		{Name: "root 3", Public: public(t, seedR3), Role: registry.Root},
		{Name: "on call", Public: public(t, seedF), Role: registry.Freezer},
		{Name: "ann", Public: public(t, seedA), Role: registry.Approver, Roles: []string{"owner"}},
		{Name: "dan", Public: public(t, seedD), Role: registry.Delegator, Roles: []string{"owner"}}}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// roots is an option: who governs the log.
func roots(t testing.TB) func(*helm.Options) {
	t.Helper()
	r := governors(t)
	return func(o *helm.Options) { o.Trust = r }
}

// newRealm is a world with roots. The kernels after the first have the keys of that in their registry, for they may have others.
func newRealm(t *testing.T, change ...func(*helm.Options)) *world {
	t.Helper()
	w := newWorld(t, append([]func(*helm.Options){roots(t)}, change...)...)
	w.governed = true
	s := w.k.Trust()
	w.o.Trust = governors(t, registry.Key{Name: "kernel", Public: s.Keys(registry.Kernel, 0)[0], Role: registry.Kernel},
		registry.Key{Name: "log", Public: s.Keys(registry.Log, 0)[0], Role: registry.Log})
	return w
}

// fold applies the trust events of the log, and gives the state at its end. At each entry it gives the state there to see.
func (w *world) fold(see func(index uint64, st *contracts.Statement, s *registry.State)) *registry.State {
	w.t.Helper()
	s := w.k.Trust()
	for i, st := range w.statements() {
		if see != nil {
			see(i, st, s)
		}
		if st.Trust != nil {
			var err error
			if s, err = s.Apply(st.Trust, origin, i); err != nil {
				w.t.Fatalf("entry %d: %v", i, err)
			}
		}
	}
	return s
}

// present is the trust state of now.
func (w *world) present() *registry.State {
	w.t.Helper()
	if !w.governed {
		return w.k.Trust()
	}
	return w.fold(nil)
}

// event fills in what every event has, and has the keys that it adds prove themselves.
func (w *world) event(e contracts.TrustEvent, adds ...byte) contracts.TrustEvent {
	w.t.Helper()
	if e.Origin == "" {
		e.Origin = origin
	}
	if e.Version == 0 {
		e.Version = w.present().Version() + 1
	}
	if e.Why == "" && (e.Type == "revoke" || e.Type == "freeze" || e.Type == "unfreeze") {
		e.Why = "a test"
	}
	for _, seed := range adds {
		var err error
		if e, err = e.Prove(seedKey(w.t, seed)); err != nil {
			w.t.Fatal(err)
		}
	}
	return e
}

// signed gives the envelope of an event, signed by these.
func signed(t testing.TB, e contracts.TrustEvent, by ...byte) contracts.Envelope {
	t.Helper()
	record := &contracts.TrustRecord{Event: e}
	envelope := contracts.Envelope(record.Append(nil))
	for _, seed := range by {
		var err error
		if envelope, err = record.Sign(seedKey(t, seed)); err != nil {
			t.Fatal(err)
		}
		if record, err = contracts.ParseTrust(envelope); err != nil {
			t.Fatal(err)
		}
	}
	return envelope
}

func (w *world) adding(seed byte, name string, role registry.Role, roles ...string) contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, seed)
}

func (w *world) revoking(seed byte) contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "revoke", ID: keyID(w.t, seed)})
}

func (w *world) enthroning(threshold uint64, seeds ...byte) contracts.TrustEvent {
	e := contracts.TrustEvent{Type: "root", Threshold: threshold}
	for _, seed := range seeds {
		e.Keys = append(e.Keys, contracts.RootKey{Name: "root " + string('1'+rune(seed-seedR1)), Public: public(w.t, seed)})
	}
	return w.event(e, seeds...)
}

func (w *world) freezing() contracts.TrustEvent { return w.event(contracts.TrustEvent{Type: "freeze"}) }
func (w *world) thawing() contracts.TrustEvent {
	return w.event(contracts.TrustEvent{Type: "unfreeze"})
}

// govern enters an event that nobody has a reason to refuse.
func (w *world) govern(e contracts.TrustEvent, by ...byte) {
	w.t.Helper()
	size := w.size()
	if err := w.k.Govern(context.Background(), signed(w.t, e, by...)); err != nil {
		w.t.Fatal(err)
	}
	if n := w.size(); n <= size {
		w.t.Fatalf("%s: Govern returned before its entry was stored", e.Type)
	}
}

// mustRule holds the log to the trust state at each of its places: who signed, under which state was judged, frozen or not. It gives the
// number of judgements that it saw.
func (w *world) mustRule() (judged int) {
	w.t.Helper()
	var reader contracts.Reader
	w.fold(func(i uint64, st *contracts.Statement, s *registry.State) {
		if _, ok := s.Key(st.Key, registry.Kernel, i); !ok {
			w.t.Errorf("entry %d: signed by no kernel key of the state there", i)
		}
		d := st.Judgement()
		if d == nil {
			return
		}
		judged++
		if d.Verdict == contracts.Allow && s.Frozen() {
			w.t.Errorf("entry %d: an ALLOW while frozen", i)
		}
		if (d.Reason == contracts.ReasonSystemFrozen) != s.Frozen() && !slices.Contains(beforeFrozen, d.Reason) {
			w.t.Errorf("entry %d: %s, and frozen is %v", i, d.Reason, s.Frozen())
		}
		b, err := w.store.Store.Blob(context.Background(), d.InputsHash)
		if err != nil {
			w.t.Fatal(err)
		}
		in, err := reader.Inputs(b)
		if err != nil {
			w.t.Fatal(err)
		}
		if in.State.Trust != s.Digest() {
			w.t.Errorf("entry %d: judged under another trust state than that of its place", i)
		}
	})
	return judged
}

// beforeFrozen are the reasons that come before SYSTEM_FROZEN.
var beforeFrozen = []contracts.ReasonCode{contracts.ReasonIntentMalformed, contracts.ReasonArgsCanonicalization, contracts.ReasonSessionClosed}

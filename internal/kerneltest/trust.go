package kerneltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Seeds of those who govern the log. The kernel's own key has 1.
const (
	SeedRoot1 = 11 + iota // two of three roots decide
	SeedRoot2
	SeedRoot3
	SeedRoot4     // no root yet
	SeedFreezer   // a freezer
	SeedApprover  // an approver
	SeedDelegator // a delegator
	SeedKernel2   // nobody yet
	SeedLog2
	SeedOther
)

func Public(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(SeedKey(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func KeyID(t testing.TB, seed byte) *contracts.Digest { return KeyIDOf(Public(t, seed)) }

func KeyIDOf(p crypto.PublicKey) *contracts.Digest {
	id := crypto.KeyID(p)
	return &id
}

// governors are who governs the log, and more keys.
func Governors(t testing.TB, more ...registry.Key) *registry.Registry {
	t.Helper()
	r, err := registry.New(2, append([]registry.Key{
		{Name: "root 1", Public: Public(t, SeedRoot1), Role: registry.Root},
		{Name: "root 2", Public: Public(t, SeedRoot2), Role: registry.Root},
		{Name: "root 3", Public: Public(t, SeedRoot3), Role: registry.Root},
		{Name: "on call", Public: Public(t, SeedFreezer), Role: registry.Freezer},
		{Name: "ann", Public: Public(t, SeedApprover), Role: registry.Approver, Roles: []string{"owner"}},
		{Name: "dan", Public: Public(t, SeedDelegator), Role: registry.Delegator, Roles: []string{"owner"}}}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// roots is an option: who governs the log.
func Roots(t testing.TB) func(*helm.Options) {
	t.Helper()
	r := Governors(t)
	return func(o *helm.Options) { o.Trust = r }
}

// newRealm is a world with roots. The kernels after the first have the keys of that in their registry, for they may have others.
func NewGoverned(t *testing.T, change ...func(*helm.Options)) *World {
	t.Helper()
	w := New(t, append([]func(*helm.Options){Roots(t)}, change...)...)
	w.Governed = true
	s := w.Kernel.Trust()
	w.Options.Trust = Governors(t, registry.Key{Name: "kernel", Public: s.Keys(registry.Kernel, 0)[0], Role: registry.Kernel},
		registry.Key{Name: "log", Public: s.Keys(registry.Log, 0)[0], Role: registry.Log})
	return w
}

// fold applies the trust events of the log, and gives the state at its end. At each entry it gives the state there to see.
func (w *World) Fold(see func(index uint64, st *contracts.Statement, s *registry.State)) *registry.State {
	w.T.Helper()
	s := w.Kernel.Trust()
	for i, st := range w.Statements() {
		if see != nil {
			see(i, st, s)
		}
		if st.Trust != nil {
			var err error
			if s, err = s.Apply(st.Trust, Origin, i); err != nil {
				w.T.Fatalf("entry %d: %v", i, err)
			}
		}
	}
	return s
}

// present is the trust state of now.
func (w *World) TrustState() *registry.State {
	w.T.Helper()
	if !w.Governed {
		return w.Kernel.Trust()
	}
	return w.Fold(nil)
}

// event fills in what every event has, and has the keys that it adds prove themselves.
func (w *World) Event(e contracts.TrustEvent, adds ...byte) contracts.TrustEvent {
	w.T.Helper()
	if e.Origin == "" {
		e.Origin = Origin
	}
	if e.Version == 0 {
		e.Version = w.TrustState().Version() + 1
	}
	if e.Why == "" && (e.Type == "revoke" || e.Type == "freeze" || e.Type == "unfreeze") {
		e.Why = "a test"
	}
	for _, seed := range adds {
		var err error
		if e, err = e.Prove(SeedKey(w.T, seed)); err != nil {
			w.T.Fatal(err)
		}
	}
	return e
}

// signed gives the envelope of an event, signed by these.
func SignEvent(t testing.TB, e contracts.TrustEvent, by ...byte) contracts.Envelope {
	t.Helper()
	record := &contracts.TrustRecord{Event: e}
	envelope := contracts.Envelope(record.Append(nil))
	for _, seed := range by {
		var err error
		if envelope, err = record.Sign(SeedKey(t, seed)); err != nil {
			t.Fatal(err)
		}
		if record, err = contracts.ParseTrust(envelope); err != nil {
			t.Fatal(err)
		}
	}
	return envelope
}

func (w *World) Adding(seed byte, name string, role registry.Role, roles ...string) contracts.TrustEvent {
	return w.Event(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, seed)
}

func (w *World) Revoking(seed byte) contracts.TrustEvent {
	return w.Event(contracts.TrustEvent{Type: "revoke", ID: KeyID(w.T, seed)})
}

func (w *World) Freezing() contracts.TrustEvent { return w.Event(contracts.TrustEvent{Type: "freeze"}) }

func (w *World) Unfreezing() contracts.TrustEvent {
	return w.Event(contracts.TrustEvent{Type: "unfreeze"})
}

// govern enters an event that nobody has a reason to refuse.
func (w *World) Govern(e contracts.TrustEvent, by ...byte) {
	w.T.Helper()
	size := w.Size()
	if err := w.Kernel.Govern(context.Background(), SignEvent(w.T, e, by...)); err != nil {
		w.T.Fatal(err)
	}
	if n := w.Size(); n <= size {
		w.T.Fatalf("%s: Govern returned before its entry was stored", e.Type)
	}
}

// mustRule holds the log to the trust state at each of its places: who signed, under which state was judged, frozen or not. It gives the
// number of judgements that it saw.
func (w *World) MustFollowTrust() (judged int) {
	w.T.Helper()
	var reader contracts.Reader
	w.Fold(func(i uint64, st *contracts.Statement, s *registry.State) {
		if _, ok := s.Key(st.Key, registry.Kernel, i); !ok {
			w.T.Errorf("entry %d: signed by no kernel key of the state there", i)
		}
		d := st.Judgement()
		if d == nil {
			return
		}
		judged++
		if d.Verdict == contracts.Allow && s.Frozen() {
			w.T.Errorf("entry %d: an ALLOW while frozen", i)
		}
		if (d.Reason == contracts.ReasonSystemFrozen) != s.Frozen() && !slices.Contains(beforeFrozen, d.Reason) {
			w.T.Errorf("entry %d: %s, and frozen is %v", i, d.Reason, s.Frozen())
		}
		b, err := w.Store.Store.Blob(context.Background(), d.InputsHash)
		if err != nil {
			w.T.Fatal(err)
		}
		in, err := reader.Inputs(b)
		if err != nil {
			w.T.Fatal(err)
		}
		if in.State.Trust != s.Digest() {
			w.T.Errorf("entry %d: judged under another trust state than that of its place", i)
		}
	})
	return judged
}

// beforeFrozen are the reasons that come before SYSTEM_FROZEN.
var beforeFrozen = []contracts.ReasonCode{contracts.ReasonIntentMalformed, contracts.ReasonArgsCanonicalization, contracts.ReasonSessionClosed}

func RootKeys(t testing.TB) (list []registry.Key) {
	for i, seed := range []byte{SeedRoot1, SeedRoot2, SeedRoot3} {
		list = append(list, registry.Key{Name: fmt.Sprint("root ", i+1), Public: Public(t, seed), Role: registry.Root})
	}
	return list
}

// turn makes the options those of other keys; a log key of 0 is one that is derived.
func (w *World) UseKeys(key, log byte) {
	w.T.Helper()
	w.Key = &FaultySigner{PrivateKey: SeedKey(w.T, key)}
	w.Options.Key, w.Options.LogKey = w.Key, nil
	if log != 0 {
		w.Options.LogKey = SeedKey(w.T, log)
	} else {
		w.Options.Key = w.Key.PrivateKey // a log key is derived of one in memory
	}
}

// mustRefuse has New refuse, for that reason, and write nothing.
func (w *World) MustRefuseNew(what, says string) {
	w.T.Helper()
	size := w.Size()
	k, err := helm.New(w.Options)
	if k != nil || err == nil || !strings.HasPrefix(err.Error(), "helm: ") || !strings.Contains(err.Error(), says) {
		w.T.Errorf("%s: %v, want %s", what, err, says)
	}
	if n := w.Size(); n != size {
		w.T.Errorf("%s: wrote %d entries", what, n-size)
	}
}

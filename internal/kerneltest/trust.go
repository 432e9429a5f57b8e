package kerneltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Seeds of those who govern the log, and of those who may come to.
const (
	Root1     = 11 + iota // two of the three roots decide
	Root2                 //
	Root3                 //
	Root4                 // not a root yet
	Freezer               // may freeze
	Approver              // approves
	Delegator             // delegates
	Kernel2               // a kernel key to be added
	Log2                  // a log key to be added
	Stranger              // in no registry; nor is the seed after it
)

// RootKeys are the three roots.
func RootKeys(t testing.TB) (list []registry.Key) {
	t.Helper()
	for i, seed := range []byte{Root1, Root2, Root3} {
		list = append(list, registry.Key{Name: fmt.Sprint("root ", i+1), Public: Public(t, seed), Role: registry.Root})
	}
	return list
}

// Governors are a registry of three roots, of which two decide, a freezer, an approver and a
// delegator, and of more keys.
func Governors(t testing.TB, more ...registry.Key) *registry.Registry {
	t.Helper()
	owner := []string{"owner"}
	r, err := registry.New(2, append(append(RootKeys(t),
		registry.Key{Name: "on call", Public: Public(t, Freezer), Role: registry.Freezer},
		registry.Key{Name: "ann", Public: Public(t, Approver), Role: registry.Approver, Roles: owner},
		registry.Key{Name: "dan", Public: Public(t, Delegator), Role: registry.Delegator, Roles: owner}), more...)...)
	require.NoError(t, err)
	return r
}

// Roots is an option: the log is governed by [Governors].
func Roots(t testing.TB) func(*helm.Options) {
	t.Helper()
	r := Governors(t)
	return func(o *helm.Options) { o.Trust = r }
}

// NewGoverned is a world with [Governors]. The registry of later kernels has the keys of the first
// one as well, since later kernels may have other keys.
func NewGoverned(t *testing.T, change ...func(*helm.Options)) *World {
	t.Helper()
	w := New(t, append([]func(*helm.Options){Roots(t)}, change...)...)
	w.Governed = true
	s := w.Kernel.Trust()
	w.Options.Trust = Governors(t,
		registry.Key{Name: "kernel", Public: s.Keys(registry.Kernel, 0)[0], Role: registry.Kernel},
		registry.Key{Name: "log", Public: s.Keys(registry.Log, 0)[0], Role: registry.Log})
	return w
}

// Fold applies the trust events of the log and returns the state at its end. It calls see, if it is
// not nil, for each entry with the state there.
func (w *World) Fold(see func(index uint64, st *contracts.Statement, s *registry.State)) *registry.State {
	w.T.Helper()
	s := w.Kernel.Trust()
	for i, st := range w.Statements() {
		if see != nil {
			see(i, st, s)
		}
		if st.Trust != nil {
			var err error
			s, err = s.Apply(st.Trust, Origin, i)
			require.NoError(w.T, err, "entry %d", i)
		}
	}
	return s
}

// TrustState is the trust state at the end of the log.
func (w *World) TrustState() *registry.State {
	w.T.Helper()
	if !w.Governed {
		return w.Kernel.Trust()
	}
	return w.Fold(nil)
}

// Event fills in what every event has, and has the keys that it adds prove themselves.
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
		e, err = e.Prove(SeedKey(w.T, seed))
		require.NoError(w.T, err)
	}
	return e
}

// SignEvent returns the envelope of an event, signed by these.
func SignEvent(t testing.TB, e contracts.TrustEvent, by ...byte) contracts.Envelope {
	t.Helper()
	record := &contracts.TrustRecord{Event: e}
	envelope := contracts.Envelope(record.Append(nil))
	for _, seed := range by {
		var err error
		envelope, err = record.Sign(SeedKey(t, seed))
		require.NoError(t, err)
		record, err = contracts.ParseTrust(envelope)
		require.NoError(t, err)
	}
	return envelope
}

// Adding is the event that adds a key.
func (w *World) Adding(seed byte, name string, role registry.Role, roles ...string) contracts.TrustEvent {
	w.T.Helper()
	return w.Event(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, seed)
}

// Revoking is the event that revokes a key.
func (w *World) Revoking(seed byte) contracts.TrustEvent {
	w.T.Helper()
	return w.Event(contracts.TrustEvent{Type: "revoke", ID: KeyID(w.T, seed)})
}

// Freezing is the event that freezes the system.
func (w *World) Freezing() contracts.TrustEvent {
	w.T.Helper()
	return w.Event(contracts.TrustEvent{Type: "freeze"})
}

// Unfreezing is the event that ends a freeze.
func (w *World) Unfreezing() contracts.TrustEvent {
	w.T.Helper()
	return w.Event(contracts.TrustEvent{Type: "unfreeze"})
}

// Govern enters an event, which must be durable when the kernel returns.
func (w *World) Govern(e contracts.TrustEvent, by ...byte) {
	w.T.Helper()
	size := w.Size()
	require.NoError(w.T, w.Kernel.Govern(context.Background(), SignEvent(w.T, e, by...)))
	require.Greater(w.T, w.Size(), size, "%s: Govern returned before its entry was stored", e.Type)
}

// GovernByRoots enters an event that two roots sign.
func (w *World) GovernByRoots(e contracts.TrustEvent) {
	w.T.Helper()
	w.Govern(e, Root1, Root2)
}

// Freeze freezes the system, and Unfreeze ends that.
func (w *World) Freeze() {
	w.T.Helper()
	w.Govern(w.Freezing(), Freezer)
}

// Unfreeze ends a freeze.
func (w *World) Unfreeze() {
	w.T.Helper()
	w.GovernByRoots(w.Unfreezing())
}

// beforeFrozen are the reasons that come before SYSTEM_FROZEN.
var beforeFrozen = []contracts.ReasonCode{
	contracts.ReasonIntentMalformed, contracts.ReasonArgsCanonicalization, contracts.ReasonSessionClosed,
}

// MustFollowTrust holds the log to the trust state at each of its places: who signed, under which
// state was judged, frozen or not. It returns how many judgements it saw.
func (w *World) MustFollowTrust() (judged int) {
	w.T.Helper()
	var reader contracts.Reader
	w.Fold(func(i uint64, st *contracts.Statement, s *registry.State) {
		_, ok := s.Key(st.Key, registry.Kernel, i)
		assert.True(w.T, ok, "entry %d: signed by no kernel key of the state there", i)
		d := st.Judgement()
		if d == nil {
			return
		}
		judged++
		assert.False(w.T, d.Verdict == contracts.Allow && s.Frozen(), "entry %d: an ALLOW while frozen", i)
		if !slices.Contains(beforeFrozen, d.Reason) {
			assert.Equal(w.T, s.Frozen(), d.Reason == contracts.ReasonSystemFrozen, "entry %d: %s", i, d.Reason)
		}
		b, err := w.Store.Store.Blob(context.Background(), d.InputsHash)
		require.NoError(w.T, err)
		in, err := reader.Inputs(b)
		require.NoError(w.T, err)
		assert.Equal(w.T, s.Digest(), in.State.Trust,
			"entry %d: judged under another trust state than the one of its place", i)
	})
	return judged
}

// UseKeys makes the options those of other keys. A log key of 0 is derived.
func (w *World) UseKeys(key, log byte) {
	w.T.Helper()
	w.Key = &FaultySigner{PrivateKey: SeedKey(w.T, key)}
	w.Options.Key, w.Options.LogKey = w.Key, nil
	if log != 0 {
		w.Options.LogKey = SeedKey(w.T, log)
	} else {
		w.Options.Key = w.Key.PrivateKey // a log key is derived from a key in memory alone
	}
}

// MustRefuseNew has New refuse the options with an error that contains says, and write nothing.
func (w *World) MustRefuseNew(what, says string) {
	w.T.Helper()
	size := w.Size()
	k, err := helm.New(w.Options)
	if k != nil || err == nil || !strings.HasPrefix(err.Error(), "helm: ") || !strings.Contains(err.Error(), says) {
		w.T.Errorf("%s: %v, want %s", what, err, says)
	}
	assert.Equal(w.T, size, w.Size(), "%s: wrote entries", what)
}

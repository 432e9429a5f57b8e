package govern

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every type of event, by the kernel and by one that was narrowed from it. Each call is judged
// under the state of its place. An auditor needs the initial state alone, and the second
// implementation finds the same.
func TestGovern(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	initial := w.Kernel.Trust()
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	w.MustAllow(w.Kernel, 1)
	w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
	w.MustAllow(w.Kernel, 1)
	w.Govern(w.Adding(kerneltest.Log2, "log 2", registry.Log), kerneltest.Root3, kerneltest.Root2)
	w.Govern(enthroning(w, 1, kerneltest.Root1, kerneltest.Root4), kerneltest.Root1, kerneltest.Root2, kerneltest.Root4)
	w.MustAllow(task, 1)
	w.Govern(w.Revoking(kerneltest.Approver), kerneltest.Root4)
	require.NoError(t, task.Govern(context.Background(), kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)))
	w.MustEcho(kerneltest.Denied(contracts.ReasonSystemFrozen), w.Kernel, 1)
	w.Govern(w.Unfreezing(), kerneltest.Root1)
	w.MustAllow(w.Kernel, 1)
	grant := crypto.Sum([]byte("a grant"))
	w.Govern(w.Event(contracts.TrustEvent{Type: "undelegate", Delegation: &grant, Delegator: "dan"}),
		kerneltest.Delegator)
	w.MustDeny(task, 6, "P2:task:few")

	s := w.TrustState()
	_, ok := s.Holder(*kerneltest.KeyID(t, kerneltest.Approver), registry.Approver, w.Size())
	assert.False(t, ok, "in the end")
	assert.Equal(t, uint64(8), s.Version())
	assert.True(t, s.Revoked(grant))
	assert.False(t, s.Frozen())
	assert.Same(t, initial, w.Kernel.Trust(), "what auditors are given has changed")
	assert.Same(t, initial, task.Trust())
	assert.Equal(t, 6, w.MustFollowTrust(), "judgements")
	report := w.MustVerify()
	assert.Equal(t, s.Digest(), report.Trust, "the report")
	assert.Zero(t, report.Replay.NotReplayable)
	w.MustAgree(report)
}

// A refused event leaves no entry and the state as it was, and the error says what is wrong. The
// kernel lets in only what the log's own rules let in.
func TestGovernRefused(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	other := kerneltest.NewGoverned(t)
	w.MustAllow(w.Kernel, 1)
	old := w.Freezing()
	w.Govern(old, kerneltest.Freezer)
	w.Unfreeze()
	// and root 3 is no longer one
	w.Govern(enthroning(w, 2, kerneltest.Root1, kerneltest.Root2, kerneltest.Root4), kerneltest.Root1, kerneltest.Root2,
		kerneltest.Root4)
	w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
	w.GovernByRoots(w.Revoking(kerneltest.Kernel2))

	set := func(e contracts.TrustEvent, f func(e *contracts.TrustEvent)) contracts.TrustEvent { f(&e); return e }
	add := w.Adding(kerneltest.Stranger, "new", registry.Approver, "owner")
	twice := func(e contracts.Envelope) contracts.Envelope { // the first signature once more
		from := bytes.Index(e, []byte(`"signatures":[`)) + len(`"signatures":[`)
		end := from + bytes.IndexByte(e[from:], '}') + 1
		return append(bytes.Clone(e[:end]), append([]byte(","), e[from:]...)...)
	}
	before, digest := w.Size(), w.TrustState().Digest()
	for name, x := range map[string]struct {
		event contracts.Envelope
		says  string
	}{
		"nothing":     {nil, "ENCODING"},
		"no JSON":     {contracts.Envelope("freeze!"), "ENCODING"},
		"no envelope": {contracts.Envelope("{}"), "ENVELOPE"},
		"white space": {append(kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer), '\n'), "ENCODING"},
		"too large": {kerneltest.SignEvent(t, set(add, func(e *contracts.TrustEvent) {
			e.Type, e.ID = "key", kerneltest.KeyID(t, kerneltest.Stranger)
			e.Roles = make([]string, 5000)
		})), "over"},
		"of another type": {contracts.Envelope(strings.Replace(string(kerneltest.SignEvent(t, w.Freezing(),
			kerneltest.Freezer)), "trust-event", "in-toto", 1)), "payloadType"},
		"that nobody knows": {kerneltest.SignEvent(t,
			set(w.Freezing(), func(e *contracts.TrustEvent) { e.Type = "melt" })), ""},
		"for another log": {kerneltest.SignEvent(t,
			w.Event(contracts.TrustEvent{Type: "freeze", Origin: "example.test/other"}), kerneltest.Freezer),
			"another log than example.test/helm"},
		"of a log of the same name": {kerneltest.SignEvent(t, other.Freezing(), kerneltest.Freezer),
			"version: 2, want 7"},
		"again": {kerneltest.SignEvent(t, old, kerneltest.Freezer), "version: 2, want 7"},
		"the version of now": {kerneltest.SignEvent(t,
			set(w.Freezing(), func(e *contracts.TrustEvent) { e.Version-- }), kerneltest.Freezer),
			"version: 6, want 7"},
		"a version ahead": {kerneltest.SignEvent(t,
			set(w.Freezing(), func(e *contracts.TrustEvent) { e.Version++ }), kerneltest.Freezer),
			"version: 8, want 7"},
		"unsigned": {kerneltest.SignEvent(t, add), ""},
		"one signature of two": {kerneltest.SignEvent(t, add, kerneltest.Root1),
			"1 of root keys, want 2: ask root 2, root 4"},
		"one signature twice":      {twice(kerneltest.SignEvent(t, add, kerneltest.Root1)), "not sorted"},
		"a root that was replaced": {kerneltest.SignEvent(t, add, kerneltest.Root1, kerneltest.Root3), "no say"},
		"… though two are enough": {kerneltest.SignEvent(t, add, kerneltest.Root1, kerneltest.Root2,
			kerneltest.Root3), "no say"},
		"the kernel itself": {kerneltest.SignEvent(t, add, 1, kerneltest.Root1), "no say"},
		"an approver":       {kerneltest.SignEvent(t, add, kerneltest.Approver, kerneltest.Root1), "no say"},
		"another's signature": {bytes.Replace(kerneltest.SignEvent(t, add, kerneltest.Root1, kerneltest.Root2),
			b64of(t, kerneltest.Root1, add), b64of(t, kerneltest.Root2, add), 1), "does not verify"},
		"no proof": {kerneltest.SignEvent(t,
			set(add, func(e *contracts.TrustEvent) { e.Proof = make([]byte, 64) }), kerneltest.Root1, kerneltest.Root2),
			"proof: not the new key's"},
		"another's proof": {kerneltest.SignEvent(t,
			set(add, func(e *contracts.TrustEvent) { e.Proof = sig(t, kerneltest.Root1, e.ProofMessage()) }),
			kerneltest.Root1, kerneltest.Root2), "proof: not the new key's"},
		"the proof of another event": {kerneltest.SignEvent(t,
			set(add, func(e *contracts.TrustEvent) { e.Name = "eve" }), kerneltest.Root1, kerneltest.Root2),
			"proof: not the new key's"},
		"a root by an event key": {kerneltest.SignEvent(t, w.Adding(kerneltest.Stranger, "eve", registry.Root),
			kerneltest.Root1, kerneltest.Root2), "only an event of type root"},
		"a key that was revoked": {kerneltest.SignEvent(t, w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel),
			kerneltest.Root1, kerneltest.Root2), "never returns"},
		"a root that was left out": {kerneltest.SignEvent(t, enthroning(w, 1, kerneltest.Root1, kerneltest.Root3),
			kerneltest.Root1, kerneltest.Root2, kerneltest.Root3), "never returns"},
		"by the old roots alone": {kerneltest.SignEvent(t, enthroning(w, 1, kerneltest.Stranger), kerneltest.Root1,
			kerneltest.Root2), "0 of the new root keys, want 1"},
		"by the new root alone": {kerneltest.SignEvent(t, enthroning(w, 1, kerneltest.Stranger), kerneltest.Stranger),
			"0 of root keys, want 2: ask root 1, root 2, root 4"},
		"a freeze by an approver": {kerneltest.SignEvent(t, w.Freezing(), kerneltest.Approver), "no say"},
		"a freeze by the kernel":  {kerneltest.SignEvent(t, w.Freezing(), 1), "no say"},
		"a freeze by nobody":      {kerneltest.SignEvent(t, w.Freezing()), ""},
		"an unfreeze, unfrozen": {kerneltest.SignEvent(t, w.Unfreezing(), kerneltest.Root1, kerneltest.Root2),
			"nothing changes"},
		"a key that nobody has": {kerneltest.SignEvent(t, w.Revoking(kerneltest.Stranger), kerneltest.Root1,
			kerneltest.Root2), "of no key"},
		"a key revoked before": {kerneltest.SignEvent(t, w.Revoking(kerneltest.Kernel2), kerneltest.Root1,
			kerneltest.Root2), "revoked before"},
		"the one kernel key": {kerneltest.SignEvent(t, w.Revoking(1), kerneltest.Root1, kerneltest.Root2),
			"no kernel key or no log key"},
	} {
		for _, k := range []*helm.Kernel{w.Kernel, w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))} {
			before = max(before, w.Size())
			err := k.Govern(context.Background(), x.event)
			require.Error(t, err, name)
			assert.True(t, strings.HasPrefix(err.Error(), "helm: govern: "), name)
			assert.ErrorContains(t, err, x.says, name)
			n := w.Size()
			assert.Equal(t, before, n, "%s: wrote %d entries", name, n-before)
		}
	}
	bg := context.Background()
	good := kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)
	ended, cancel := context.WithCancel(bg)
	cancel()
	err := w.Kernel.Govern(ended, good)
	assert.ErrorIs(t, err, context.Canceled, "with an ended context")
	assert.ErrorContains(t, err, "nothing was changed")
	for n := range int64(3) {
		touches := new(atomic.Int64)
		touches.Store(n)
		assert.Error(t, w.Kernel.Govern(kerneltest.HostileContext{Context: bg, Left: touches}, good),
			"with a context that panics at touch %d", n)
	}
	var none *helm.Kernel
	for _, k := range []*helm.Kernel{none, new(helm.Kernel)} {
		err := k.Govern(bg, good)
		assert.ErrorContains(t, err, "no kernel", "no kernel")
	}
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	require.NoError(t, task.Close())
	assert.Error(t, task.Govern(bg, good), "a narrowed kernel that is closed governs")
	w.MustAllow(w.Kernel, 1)
	assert.Equal(t, digest, w.TrustState().Digest(), "the state has changed")
	var nowhere context.Context
	assert.NoError(t, w.Kernel.Govern(nowhere, good), "without a context") // or the refusals would prove nothing
	d, _ := w.Echo(w.Kernel, 1)
	assert.Equal(t, contracts.ReasonSystemFrozen, d.Reason, "after the good one")
	before = w.Size()
	for name, e := range map[string]contracts.Envelope{
		"a freeze, frozen":          kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer),
		"an unfreeze by a freezer":  kerneltest.SignEvent(t, w.Unfreezing(), kerneltest.Freezer),
		"… by one root":             kerneltest.SignEvent(t, w.Unfreezing(), kerneltest.Root2),
		"… by a freezer and a root": kerneltest.SignEvent(t, w.Unfreezing(), kerneltest.Freezer, kerneltest.Root2),
	} {
		err := w.Kernel.Govern(bg, e)
		assert.Error(t, err, name)
		assert.Equal(t, before, w.Size(), name)
	}
	w.MustFollowTrust()
	w.MustAgree(w.MustVerify())
	thaw := kerneltest.SignEvent(t, w.Unfreezing(), kerneltest.Root1, kerneltest.Root2)
	w.Close()
	err = w.Kernel.Govern(bg, thaw)
	assert.Error(t, err, "a closed kernel governs")
	assert.Equal(t, before, w.Size())
}

// b64of is a signature as it is in an envelope.
func b64of(t *testing.T, seed byte, e contracts.TrustEvent) []byte {
	return []byte(base64.StdEncoding.EncodeToString(sig(t, seed, e.Message())))
}

func sig(t *testing.T, seed byte, message []byte) []byte {
	t.Helper()
	s, err := crypto.Sign(kerneltest.SeedKey(t, seed), message)
	require.NoError(t, err)
	return s
}

// Without roots nothing can ever change, by a freeze neither.
func TestGovernWithoutRoots(t *testing.T) {
	t.Parallel()
	freezer, err := registry.New(0, registry.Key{Name: "on call", Public: kerneltest.Public(t, kerneltest.Freezer),
		Role: registry.Freezer})
	require.NoError(t, err)
	for name, r := range map[string]*registry.Registry{"no registry": nil, "one without roots": freezer} {
		w := kerneltest.New(t, func(o *helm.Options) { o.Trust = r })
		for _, e := range []contracts.TrustEvent{w.Freezing(),
			w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel), enthroning(w, 1, kerneltest.Root1),
			w.Revoking(1)} {
			size := w.Size()
			for _, by := range [][]byte{{kerneltest.Freezer}, {1}, {kerneltest.Root1}} {
				err := w.Kernel.Govern(context.Background(), kerneltest.SignEvent(t, e, by...))
				assert.ErrorContains(t, err, "no root keys, and nothing can ever change", name)
				assert.Equal(t, size, w.Size(), name)
			}
		}
		w.MustAllow(w.Kernel, 1)
		w.MustVerify()
	}
}

// The envelope is the caller's: a change to it afterwards changes nothing.
func TestGovernCopies(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	e := kerneltest.SignEvent(t, w.Adding(kerneltest.Stranger, "eve", registry.Approver, "owner"), kerneltest.Root1,
		kerneltest.Root2)
	require.NoError(t, w.Kernel.Govern(context.Background(), e))
	clear(e)
	w.Freeze()
	w.MustFollowTrust()
	h, ok := w.TrustState().Holder(*kerneltest.KeyID(t, kerneltest.Stranger), registry.Approver, w.Size())
	assert.True(t, ok)
	assert.Equal(t, "eve", h.Name)
	w.MustVerify()
}

// If an event cannot be stored or signed the kernel seals. Whether the event holds is up to the
// log, which the next kernel reads.
func TestGovernFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *kerneltest.World){
		"the store": func(w *kerneltest.World) { w.Store.FailIn(1) },
		"the store, after it wrote": func(w *kerneltest.World) {
			w.Store.OnFail = func(error) error { return kerneltest.ErrDisk }
			w.Store.FailIn(1)
		},
		"the store, after it wrote, by a panic": func(w *kerneltest.World) {
			w.Store.OnFail = func(error) error { panic("disk") }
			w.Store.FailIn(1)
		},
		"the key":             func(w *kerneltest.World) { w.Key.FailIn(1) },
		"the key, by a panic": func(w *kerneltest.World) { w.Key.Panics = true; w.Key.FailIn(1) },
	} {
		for _, own := range []bool{false, true} { // the event revokes the key that signs it
			w := kerneltest.NewGoverned(t)
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
			w.MustAllow(w.Kernel, 1)
			e := w.Freezing()
			by := []byte{kerneltest.Freezer}
			if own {
				e, by = w.Revoking(1), []byte{kerneltest.Root1, kerneltest.Root3}
			}
			fail(w)
			size := w.Size()
			err := w.Kernel.Govern(context.Background(), kerneltest.SignEvent(t, e, by...))
			require.Error(t, err, name)
			assert.True(t, strings.HasPrefix(err.Error(), "helm: govern: "), name)
			assert.Error(t, w.Kernel.Govern(context.Background(), kerneltest.SignEvent(t, e, by...)),
				"%s: a sealed kernel governs", name)
			w.MustBeClosed(task)
			w.MustBeSealed()
			there := w.Size() > size
			assert.Equal(t, strings.Contains(name, "after it wrote"), there, "%s: entries", name)
			if own && there {
				w.Options.Key = kerneltest.SeedKey(t, 1)
				k, err := helm.New(w.Options)
				assert.Nil(t, k, "%s: the next kernel, with the same key", name)
				assert.ErrorContains(t, err, "revoked it", "%s: the next kernel, with the same key", name)
				w.Key = &kerneltest.FaultySigner{PrivateKey: kerneltest.SeedKey(t, kerneltest.Kernel2)}
				w.Options.Key = w.Key
			}
			w.Runs.Store(0)
			w.MustRecover(nil)
			d, _ := w.Echo(w.Kernel, 1)
			assert.Equal(t, there && !own, d.Reason == contracts.ReasonSystemFrozen, "%s: afterwards", name)
			w.MustFollowTrust()
		}
	}
}

func enthroning(w *kerneltest.World, threshold uint64, seeds ...byte) contracts.TrustEvent {
	e := contracts.TrustEvent{Type: "root", Threshold: threshold}
	for _, seed := range seeds {
		e.Keys = append(e.Keys, contracts.RootKey{Name: "root " + string('1'+rune(seed-kerneltest.Root1)),
			Public: kerneltest.Public(w.T, seed)})
	}
	return w.Event(e, seeds...)
}

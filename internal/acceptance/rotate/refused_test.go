package rotate

import (
	"context"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
)

// The log holds which keys it was begun with. The registry must be the one that it was begun with,
// whatever keys are used now.
func TestRotateRefused(t *testing.T) {
	kerneltest.OneWriter(t, "a shared store refuses another origin itself")
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
	w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
	w.MustAllow(w.Kernel, 1)
	w.Close()
	good := w.Options
	for name, x := range map[string]struct {
		change func(o *helm.Options)
		says   string
	}{
		"no registry": {func(o *helm.Options) { o.Trust = nil }, "another trust state than that of Options.Trust"},
		"another threshold": {func(o *helm.Options) {
			o.Trust = kerneltest.Must(registry.New(1, kerneltest.RootKeys(t)...))
		}, "another trust state"},
		"one who is not in it": {func(o *helm.Options) {
			o.Trust = kerneltest.Must(registry.New(2, append(kerneltest.RootKeys(t),
				registry.Key{Name: "eve", Public: kerneltest.Public(t, kerneltest.Stranger),
					Role: registry.Freezer})...))
		}, "another trust state"},
		"with the new key in it": {func(o *helm.Options) {
			o.Trust = kerneltest.Must(registry.New(2, append(kerneltest.RootKeys(t),
				registry.Key{Name: "kernel 2", Public: kerneltest.Public(t, kerneltest.Kernel2),
					Role: registry.Kernel})...))
		}, "another trust state"},
		"no origin": {func(o *helm.Options) { o.Origin = "" }, "this store has the log " + kerneltest.Origin},
		"an approver's key": {func(o *helm.Options) { o.Key = kerneltest.SeedKey(t, kerneltest.Approver) },
			"the kernel key is listed with the role approver"},
		"keys exchanged": {func(o *helm.Options) {
			o.Key, o.LogKey = kerneltest.SeedKey(t, kerneltest.Log2), kerneltest.SeedKey(t, kerneltest.Kernel2)
		}, "Options.Key: not a kernel key"},
		"a stranger's": {func(o *helm.Options) { o.Key = kerneltest.SeedKey(t, kerneltest.Stranger) },
			"give the key " + kerneltest.KeyID(t, 1).String() + ` of "kernel" or the key `},
	} {
		for _, key := range []byte{1, kerneltest.Kernel2} {
			w.Options = good
			w.UseKeys(key, kerneltest.Log2)
			x.change(&w.Options)
			if key == 1 && name == "no origin" {
				continue // under the first key it is another origin, likewise
			}
			w.MustRefuseNew(name, x.says)
		}
	}
	w.Options = good
	store := w.Store.Store
	lost := true
	w.Store.Store = kerneltest.ReadStore{Store: store, OnBlob: func(d contracts.Digest) ([]byte, error) {
		if lost && d == w.Kernel.Trust().Digest() { // no trust state is taken from a store: New has it, and stores it
			lost = false
			return nil, proofgraph.ErrNoBlob
		}
		return store.Blob(context.Background(), d)
	}}
	w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
	w.Open() // or the refusals would prove nothing
	assert.False(t, lost, "the trust state was not looked for")
	w.MustAllow(w.Kernel, 1)
	w.Store.Store = store
	w.MustVerify()
}

// Without roots a log has its keys and no others, ever. The same store under another key is
// refused, also if the first keys are listed.
func TestRotateWithoutRoots(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.MustAllow(w.Kernel, 1)
	began := w.Kernel.Trust()
	for _, listed := range []bool{false, true} {
		const none = "no roots, so no other is ever added"
		key, log := none, none
		if listed {
			w.Options.Trust = kerneltest.Must(registry.New(0,
				registry.Key{Name: "kernel", Public: began.Keys(registry.Kernel, 0)[0], Role: registry.Kernel},
				registry.Key{Name: "log", Public: began.Keys(registry.Log, 0)[0], Role: registry.Log}))
			key, log = "Options.Key: not a kernel key of the log's trust state, which has "+none,
				"Options.LogKey: not a log key of the log's trust state, which has "+none
		}
		w.UseKeys(kerneltest.Kernel2, 0)
		w.MustRefuseNew("another key", key)
		w.UseKeys(1, kerneltest.Log2)
		w.MustRefuseNew("another log key", log)
		w.UseKeys(1, 0)
		w.Open()
		w.MustAllow(w.Kernel, 1)
	}
}

// Whatever call of the store fails while New reads a log that was begun with other keys: New
// returns an error and no kernel, and the next New continues.
func TestRotateFailsAtEveryCallOfTheStore(t *testing.T) {
	t.Parallel()
	kerneltest.MustFailNew(t, 11, func() *kerneltest.World {
		w := kerneltest.NewGoverned(t)
		w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
		w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
		w.Store.FailIn(2)
		w.Call("echo", `{}`) // stays open
		w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
		return w
	})
}

// New accepts no trust event that Govern would have refused, and no entry of a key that was not
// valid at its place.
func TestNewRefusesForeignRule(t *testing.T) {
	kerneltest.OneWriter(t, "it plants a log in a store of its own")
	t.Parallel()
	entering := func(e func(w *kerneltest.World) contracts.TrustEvent, by ...byte) func(w *kerneltest.World) {
		return func(w *kerneltest.World) {
			record := kerneltest.Must(contracts.ParseTrust(kerneltest.SignEvent(t, e(w), by...)))
			kerneltest.AppendEntry(t, w.Store.Store, kerneltest.SeedKey(t, 1), "",
				func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
					return &contracts.Statement{Trust: record}
				})
		}
	}
	closing := func(seed byte) func(w *kerneltest.World) {
		return func(w *kerneltest.World) {
			kerneltest.AppendEntry(t, w.Store.Store, kerneltest.SeedKey(t, seed), fmt.Sprint("foreign-", seed),
				func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
					return &contracts.Statement{Close: new(contracts.Close)}
				})
		}
	}
	for name, x := range map[string]struct {
		spoil func(w *kerneltest.World)
		says  string
	}{
		"an event of one root": {entering(func(w *kerneltest.World) contracts.TrustEvent {
			return w.Adding(kerneltest.Stranger, "eve", registry.Kernel)
		}, kerneltest.Root1), "1 of root keys, want 2"},
		"an event of the kernel": {entering((*kerneltest.World).Freezing, 1), "no say"},
		"an event for another state": {entering(func(w *kerneltest.World) contracts.TrustEvent {
			return w.Event(contracts.TrustEvent{Type: "freeze", Version: 9})
		}, kerneltest.Freezer), "version: 9"},
		"an event for another log": {entering(func(w *kerneltest.World) contracts.TrustEvent {
			return w.Event(contracts.TrustEvent{Type: "freeze", Origin: "o"})
		}, kerneltest.Freezer), "another log"},
		"the key that was revoked": {closing(kerneltest.Log2), "not of a kernel key of the log's trust state there"},
		"a key that comes later": {func(w *kerneltest.World) {
			closing(kerneltest.Stranger)(w)
			entering(func(w *kerneltest.World) contracts.TrustEvent {
				return w.Adding(kerneltest.Stranger, "late", registry.Kernel)
			}, kerneltest.Root1, kerneltest.Root2)(w)
		}, "not of a kernel key of the log's trust state there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.NewGoverned(t)
			w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
			w.GovernByRoots(w.Adding(kerneltest.Log2, "kernel 3", registry.Kernel))
			w.GovernByRoots(w.Revoking(kerneltest.Log2))
			w.Close()
			closing(kerneltest.Kernel2)(w) // by a valid key
			w.Open()
			w.Close()
			size := w.Size()
			x.spoil(w)
			w.MustRefuseNew(name, fmt.Sprintf("entry %d: ", size))
			w.MustRefuseNew(name, x.says)
		})
	}
}

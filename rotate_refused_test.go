package helm_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// The log tells which keys it was begun with; the registry has to be that which it was begun with, whatever keys there are now.
func TestRotateRefused(t *testing.T) {
	w := newRealm(t)
	w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
	w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
	w.mustAllow(w.k, 1)
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	good := w.o
	for name, x := range map[string]struct {
		change func(o *helm.Options)
		says   string
	}{
		"no registry":       {func(o *helm.Options) { o.Trust = nil }, "another trust state than Options.Trust gives"},
		"another threshold": {func(o *helm.Options) { o.Trust = must(registry.New(1, rootKeys(t)...)) }, "another trust state"},
		"one who is not in it": {func(o *helm.Options) {
			o.Trust = must(registry.New(2, append(rootKeys(t), registry.Key{Name: "eve", Public: public(t, seedX), Role: registry.Freezer})...))
		}, "another trust state"},
		"with the new key in it": {func(o *helm.Options) {
			o.Trust = must(registry.New(2, append(rootKeys(t), registry.Key{Name: "kernel 2", Public: public(t, seedK2), Role: registry.Kernel})...))
		}, "another trust state"},
		"no origin":         {func(o *helm.Options) { o.Origin = "" }, "this store has the log " + origin},
		"an approver's key": {func(o *helm.Options) { o.Key = seedKey(t, seedA) }, "the kernel key is listed with the role approver"},
		"keys exchanged":    {func(o *helm.Options) { o.Key, o.LogKey = seedKey(t, seedL2), seedKey(t, seedK2) }, "Options.Key: not a kernel key"},
		"a stranger's":      {func(o *helm.Options) { o.Key = seedKey(t, seedX) }, "give the key " + keyID(t, 1).String() + ` of "kernel" or the key `},
	} {
		for _, key := range []byte{1, seedK2} {
			w.o = good
			w.turn(key, seedL2)
			x.change(&w.o)
			if key == 1 && name == "no origin" {
				continue // of the first key it is another name, likewise
			}
			w.mustRefuse(name, x.says)
		}
	}
	w.o = good
	store := w.store.Store
	w.store.Store = reader{Store: store, blob: func(d contracts.Digest) ([]byte, error) {
		if d == w.k.Trust().Digest() {
			t.Error("a trust state was asked of the store")
		}
		return store.Blob(context.Background(), d)
	}}
	w.turn(seedK2, seedL2)
	w.open() // or the refusals would prove nothing
	w.mustAllow(w.k, 1)
	w.store.Store = store
	w.mustVerify()
}

func rootKeys(t testing.TB) (list []registry.Key) {
	for i, seed := range []byte{seedR1, seedR2, seedR3} {
		list = append(list, registry.Key{Name: fmt.Sprint("root ", i+1), Public: public(t, seed), Role: registry.Root})
	}
	return list
}

// Without roots a log has its keys and no others, ever. The same store under another key is refused, and where the first ones are listed, too.
func TestRotateWithoutRoots(t *testing.T) {
	w := newWorld(t)
	w.mustAllow(w.k, 1)
	began := w.k.Trust()
	for _, listed := range []bool{false, true} {
		const none = "no roots, so no other is ever added"
		key, log := none, none
		if listed {
			w.o.Trust = must(registry.New(0, registry.Key{Name: "kernel", Public: began.Keys(registry.Kernel, 0)[0], Role: registry.Kernel},
				registry.Key{Name: "log", Public: began.Keys(registry.Log, 0)[0], Role: registry.Log}))
			key, log = "Options.Key: not a kernel key of the log's trust state, which has "+none, "Options.LogKey: not a log key of the log's trust state, which has "+none
		}
		w.turn(seedK2, 0)
		w.mustRefuse("another key", key)
		w.turn(1, seedL2)
		w.mustRefuse("another log key", log)
		w.turn(1, 0)
		w.open()
		w.mustAllow(w.k, 1)
	}
}

// Whatever call of the store fails while New goes over a log that was begun with other keys: an error, no kernel, and the next New goes on.
func TestRotateFailsAtEveryCallOfTheStore(t *testing.T) {
	failNew(t, 11, func() *world {
		w := newRealm(t)
		w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
		w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
		w.store.in(2)
		w.call("echo", `{}`) // stays open
		w.turn(seedK2, seedL2)
		return w
	})
}

// New goes by no trust event that Govern would have refused, and by no entry of a key that was not valid where it stands.
func TestNewRefusesForeignRule(t *testing.T) {
	entering := func(e func(w *world) contracts.TrustEvent, by ...byte) func(w *world) {
		return func(w *world) {
			record := must(contracts.ParseTrust(signed(t, e(w), by...)))
			write(t, w.store.Store, seedKey(t, 1), "", func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
				return &contracts.Statement{Trust: record}
			})
		}
	}
	closing := func(seed byte) func(w *world) {
		return func(w *world) {
			write(t, w.store.Store, seedKey(t, seed), fmt.Sprint("foreign-", seed), func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
				return &contracts.Statement{Close: new(contracts.Close)}
			})
		}
	}
	for name, x := range map[string]struct {
		spoil func(w *world)
		says  string
	}{
		"an event of one root":       {entering(func(w *world) contracts.TrustEvent { return w.adding(seedX, "eve", registry.Kernel) }, seedR1), "1 of root keys, want 2"},
		"an event of the kernel":     {entering((*world).freezing, 1), "no say"},
		"an event for another state": {entering(func(w *world) contracts.TrustEvent { return w.event(contracts.TrustEvent{Type: "freeze", Version: 9}) }, seedF), "version: 9"},
		"an event for another log":   {entering(func(w *world) contracts.TrustEvent { return w.event(contracts.TrustEvent{Type: "freeze", Origin: "o"}) }, seedF), "another log"},
		"the key that was revoked":   {closing(seedL2), "not of a kernel key of the log's trust state there"},
		"a key that comes later": {func(w *world) {
			closing(seedX)(w)
			entering(func(w *world) contracts.TrustEvent { return w.adding(seedX, "late", registry.Kernel) }, seedR1, seedR2)(w)
		}, "not of a kernel key of the log's trust state there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRealm(t)
			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			w.govern(w.adding(seedL2, "kernel 3", registry.Kernel), seedR1, seedR2)
			w.govern(w.revoking(seedL2), seedR1, seedR2)
			if err := w.k.Close(); err != nil {
				t.Fatal(err)
			}
			closing(seedK2)(w) // by a key that may
			w.open()
			if err := w.k.Close(); err != nil {
				t.Fatal(err)
			}
			size := w.size()
			x.spoil(w)
			w.mustRefuse(name, fmt.Sprintf("entry %d: ", size))
			w.mustRefuse(name, x.says)
		})
	}
}

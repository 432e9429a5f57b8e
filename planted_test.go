package helm_test

import (
	"context"
	"iter"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Whoever holds the store can begin a log of his own in it, with a key of his own that the roots never saw, and put what they signed for the
// real one into it. No kernel goes on with that, lest it tell auditors that this key is one of theirs.
func TestPlantedLog(t *testing.T) {
	ours := []registry.Key{{Name: "kernel", Public: public(t, seedK2), Role: registry.Kernel}, {Name: "log", Public: public(t, seedL2), Role: registry.Log}}
	for name, x := range map[string]struct {
		listed []registry.Key
		events func(w *world) []contracts.Envelope // that the roots signed
	}{
		"keys that are listed": {ours, func(*world) []contracts.Envelope { return nil }},
		"keys that were added": {nil, func(w *world) []contracts.Envelope {
			kernel, log := w.adding(seedK2, "kernel 2", registry.Kernel), w.adding(seedL2, "log 2", registry.Log)
			log.Version++
			return []contracts.Envelope{signed(t, kernel, seedR1, seedR2), signed(t, must(log.Prove(seedKey(t, seedL2))), seedR1, seedR2)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *helm.Options) {
				o.Trust = must(registry.New(2, append(rootKeys(t), x.listed...)...))
				o.Key, o.LogKey = seedKey(t, seedX), seedKey(t, seedX+1) // the thief's
			})
			w.governed = true
			for _, e := range x.events(w) {
				if err := w.k.Govern(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			w.mustAllow(w.k, 1)
			if err := w.k.Close(); err != nil {
				t.Fatal(err)
			}
			w.turn(seedK2, seedL2)
			w.mustRefuse(name, "another trust state than Options.Trust gives")
			planted, honest := w.store.Store, proofgraph.NewMemory()
			w.store.Store = honest // or the refusal would prove nothing
			w.open()
			if err := w.k.Close(); err != nil {
				t.Fatal(err)
			}
			w.store.Store = reader{Store: planted, entries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				if to == 1 { // for who looks at how it began, and no further
					return honest.Entries(ctx, from, to)
				}
				return planted.Entries(ctx, from, to)
			}}
			w.mustRefuse(name, "entry 0: the log began with another trust state")
		})
	}
}

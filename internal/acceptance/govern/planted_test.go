package govern

import (
	"context"
	"iter"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/require"
)

// An attacker who holds the store can begin another log in it, with a key that the roots never saw,
// and add what the roots signed for the real one. No kernel continues that log: it would tell
// auditors that the attacker's key is trusted.
func TestPlantedLog(t *testing.T) {
	kerneltest.OneWriter(t, "it plants a log in a store of its own")
	t.Parallel()
	ours := []registry.Key{{Name: "kernel", Public: kerneltest.Public(t, kerneltest.Kernel2), Role: registry.Kernel},
		{Name: "log", Public: kerneltest.Public(t, kerneltest.Log2), Role: registry.Log}}
	for name, x := range map[string]struct {
		listed []registry.Key
		events func(w *kerneltest.World) []contracts.Envelope // signed by the roots
	}{
		"keys that are listed": {ours, func(*kerneltest.World) []contracts.Envelope { return nil }},
		"keys that were added": {nil, func(w *kerneltest.World) []contracts.Envelope {
			kernel, log := w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel),
				w.Adding(kerneltest.Log2, "log 2", registry.Log)
			log.Version++
			return []contracts.Envelope{kerneltest.SignEvent(t, kernel, kerneltest.Root1, kerneltest.Root2),
				kerneltest.SignEvent(t, kerneltest.Must(log.Prove(kerneltest.SeedKey(t, kerneltest.Log2))),
					kerneltest.Root1, kerneltest.Root2)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t, func(o *helm.Options) {
				o.Trust = kerneltest.Must(registry.New(2, append(kerneltest.RootKeys(t), x.listed...)...))
				// the attacker's
				o.Key, o.LogKey = kerneltest.SeedKey(t, kerneltest.Stranger),
					kerneltest.SeedKey(t, kerneltest.Stranger+1)
			})
			w.Governed = true
			for _, e := range x.events(w) {
				require.NoError(t, w.Kernel.Govern(t.Context(), e))
			}
			w.MustAllow(w.Kernel, 1)
			w.Close()
			w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
			w.MustRefuseNew(name, "another trust state than that of Options.Trust")
			planted, honest := w.Store.Store, proofgraph.NewMemory()
			w.Store.Store = honest // or the refusal would prove nothing
			w.Open()
			w.Close()
			w.Store.Store = kerneltest.ReadStore{Store: planted,
				OnEntries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
					if to == 1 { // for a reader of the first entry alone
						return honest.Entries(ctx, from, to)
					}
					return planted.Entries(ctx, from, to)
				}}
			w.MustRefuseNew(name, "entry 0: the log began with another trust state")
		})
	}
}

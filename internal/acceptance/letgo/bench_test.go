package letgo

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/proofgraph"
)

// A stateless is a store that keeps no state.
type stateless struct{ *proofgraph.Memory }

func (stateless) SaveState(context.Context, []byte) error { return nil }

func (stateless) State(context.Context) ([]byte, error) { return nil, nil }

// inUse returns what a kernel over a store takes, and how long New took.
func (w *world) inUse() (bytes float64, took time.Duration) {
	w.Helper()
	require.NoError(w, w.kernel.Close())
	w.kernel = nil
	before, began := heap(), time.Now()
	k, err := helm.New(w.options)
	require.NoError(w, err)
	took = time.Since(began)
	bytes = heap() - before
	w.kernel = k
	return bytes, took
}

// BenchmarkRemembering reports what New takes and holds with a state and without one, and the first
// New after so many entries, which makes one.
func BenchmarkRemembering(b *testing.B) {
	ctx := context.Background()
	for range b.N {
		w := busy(b, proofgraph.NewMemory(), *entries, 20)
		m := w.store.(*proofgraph.Memory)
		size := float64(len(lines(b, m)))
		for _, way := range []string{"whole", "makes-one", "state", "state"} {
			w.store = m
			switch way {
			case "whole":
				w.store = stateless{m}
			case "makes-one":
				require.NoError(b, m.SaveState(ctx, nil))
			}
			w.options.Store = w.store
			bytes, took := w.inUse()
			b.ReportMetric(took.Seconds()*1000, "ms-New-"+way)
			b.ReportMetric(bytes/size, "B/entry-"+way)
			began := time.Now()
			require.NoError(b, w.kernel.Close())
			b.ReportMetric(time.Since(began).Seconds()*1000, "ms-Close-"+way)
		}
		saved, err := m.State(ctx)
		require.NoError(b, err)
		b.ReportMetric(float64(len(saved))/size, "B/entry-of-the-state")
		b.ReportMetric(size, "entries")
	}
}

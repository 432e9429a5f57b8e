package log

import (
	"context"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever call of the store fails while New reads and settles an old log: New returns an error and
// no kernel, and the next New continues with that store.
func TestNewFailsAtEveryCallOfTheStore(t *testing.T) {
	t.Parallel()
	kerneltest.MustFailNew(t, 9, func() *kerneltest.World {
		w := kerneltest.New(t)
		w.Call("echo", `{}`)
		_, err := w.Kernel.Checkpoint(context.Background())
		require.NoError(t, err)
		w.Store.FailIn(2)
		w.Call("echo", `{}`) // stays open
		return w
	})
}

// New continues no log that no kernel of its own could have written.
func TestNewRefusesForeignLogs(t *testing.T) {
	kerneltest.OneWriter(t, "it plants a log in a store of its own")
	t.Parallel()
	unknown := func(session string, nth int) func(t *testing.T, w *kerneltest.World) {
		return func(t *testing.T, w *kerneltest.World) {
			kerneltest.AppendEntry(t, w.Store.Store, kerneltest.SeedKey(t, 1), session,
				func(_ *proofgraph.Chain, decisions []contracts.Digest) *contracts.Statement {
					d := contracts.DecisionRecord{ArgsHash: crypto.Sum(nil), EffectType: contracts.Read, Tool: "echo",
						Verdict: contracts.Allow}
					return &contracts.Statement{Receipt: receipts.Unknown(&d, decisions[nth])}
				})
		}
	}
	copied := func(marked bool, keep func(index uint64, n uint64) bool) func(t *testing.T, w *kerneltest.World) {
		return func(t *testing.T, w *kerneltest.World) {
			m, n := proofgraph.NewMemory(), w.Size()
			ctx, at := context.Background(), uint64(0)
			note, err := w.Store.Store.Checkpoint(ctx)
			require.NoError(t, err)
			if !marked {
				note = nil
			}
			for i := range n {
				if keep(i, n) {
					require.NoError(t,
						m.Append(ctx, proofgraph.Batch{At: at, Entries: []contracts.Entry{w.Entry(i)},
							Checkpoint: note}))
					at++
				}
			}
			w.Store.Store = m
		}
	}
	for name, x := range map[string]struct {
		spoil func(t *testing.T, w *kerneltest.World)
		says  string
	}{
		"signed by another key": {func(t *testing.T, w *kerneltest.World) {
			kerneltest.AppendEntry(t, w.Store.Store, kerneltest.SeedKey(t, 9), "foreign",
				func(*proofgraph.Chain, []contracts.Digest) *contracts.Statement {
					return &contracts.Statement{Close: new(contracts.Close)}
				})
		}, "kernel key"},
		"a second receipt":             {unknown("s", 0), "receipt"},
		"a receipt in another session": {unknown("another", 0), "receipt"},
		"a receipt of an open call in another session": {func(t *testing.T, w *kerneltest.World) {
			w.Open()
			w.Store.FailIn(2)
			w.Call("echo", `{}`)
			unknown("another", 2)(t, w)
		}, "receipt"},
		"an entry missing":         {copied(false, func(i, _ uint64) bool { return i != 2 }), "entry 2"},
		"genesis missing":          {copied(false, func(i, _ uint64) bool { return i != 0 }), "entry 0"},
		"cut below its checkpoint": {copied(true, func(i, n uint64) bool { return i != n-1 }), "checkpoint"},
		"two logs mixed": {func(t *testing.T, w *kerneltest.World) {
			second := kerneltest.New(t)
			second.Call("echo", `{}`)
			copied(false, func(i, n uint64) bool { return i < 3 })(t, w)
			require.NoError(t, w.Store.Store.Append(context.Background(),
				proofgraph.Batch{At: 3, Entries: []contracts.Entry{second.Entry(3)}}))
		}, "entry 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t)
			w.Call("echo", `{}`)
			w.Call("echo", `{}`, kerneltest.InSession("another"))
			_, err := w.Kernel.Checkpoint(context.Background())
			require.NoError(t, err)
			k, err := helm.New(w.Options)
			require.NoError(t, err)
			require.NoError(t, k.Close())
			x.spoil(t, w)
			size := w.Size()
			k, err = helm.New(w.Options)
			assert.Nil(t, k)
			assert.ErrorContains(t, err, x.says)
			assert.Equal(t, size, w.Size(), "wrote to the log")
		})
	}
}

// A store that lost its entries and kept its checkpoint had a log: no new one is begun in it.
func TestEmptiedStore(t *testing.T) {
	t.Parallel()
	w, ctx := kerneltest.New(t), context.Background()
	w.Call("echo", `{}`)
	c, err := w.Kernel.Checkpoint(ctx)
	require.NoError(t, err)
	emptied := proofgraph.NewMemory()
	require.NoError(t, emptied.Append(ctx, proofgraph.Batch{Checkpoint: c.Note}))
	o := w.Options
	o.Store = emptied
	k, err := helm.New(o)
	assert.Error(t, err, "a log was begun in an emptied store")
	assert.Nil(t, k)
	n, err := emptied.Size(ctx)
	assert.Zero(t, n)
	assert.NoError(t, err)
}

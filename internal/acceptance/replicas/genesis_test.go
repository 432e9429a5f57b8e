package replicas

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// TestRefusedGenesis: a store that takes no first entry, and has none, is an error of New, which
// does not try for ever. One that refuses it a few times is not.
func TestRefusedGenesis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 0, kerneltest.Policy)
	var puts atomic.Int64
	refuse := func(times int64) {
		puts.Store(0)
		f.store.Hook(sharedmem.Hooks{Before: func(_ context.Context, op sharedmem.Op) error {
			if op.Name == "Put" && puts.Add(1) <= times {
				return proofgraph.ErrMoved
			}
			return nil
		}})
	}
	refuse(1 << 20)
	_, err := helm.New(f.options)
	require.ErrorIs(t, err, proofgraph.ErrMoved)
	require.ErrorContains(t, err, "first entry")
	assert.EqualValues(t, 17, puts.Load(), "as often as an entry")
	size, err := f.store.Size(t.Context())
	require.NoError(t, err)
	assert.Zero(t, size)

	refuse(5)
	k := f.join()
	d, _ := f.call(k, "s")
	require.NoError(t, d.Err())
	f.verified(k)
}

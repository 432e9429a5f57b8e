package replicas

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// An erasingStore is one on which something happens after a blob was erased.
type erasingStore struct {
	*sharedmem.Store
	then func(contracts.Digest)
}

func (s erasingStore) EraseBlob(ctx context.Context, d contracts.Digest) error {
	defer s.then(d)
	return s.Store.EraseBlob(ctx, d)
}

// A blob that an entry came to name while it was erased is put back, also if the log is not to be
// had at once.
func TestEraseOfWhatIsNamedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFleet(t, 1, kerneltest.Policy, func(o *helm.Options) { o.Keep.Outputs = true })
	output := []byte(`{"n":1,"text":"the same"}`)
	of := func(caller string) {
		d, _ := f.call(f.kernels[0], "of-"+caller, func(in *helm.Intent) {
			in.Args, in.Caller = json.RawMessage(output), helm.Caller{ID: caller}
		})
		require.NoError(t, d.Err())
	}
	of("kim")
	shared := crypto.Sum(output)
	var moved atomic.Bool
	store := erasingStore{f.store, func(d contracts.Digest) {
		if d == shared {
			of("ann")
			require.NoError(t, f.store.EraseBlob(ctx, d)) // as if it came a moment later
			f.store.Hook(sharedmem.Hooks{Before: func(_ context.Context, op sharedmem.Op) error {
				if op.Name == "Turn" && moved.CompareAndSwap(false, true) {
					return proofgraph.ErrMoved
				}
				return nil
			}})
		}
	}}
	e, err := erasure.Erase(ctx, store, erasure.Selection{Callers: []contracts.Caller{{ID: "kim"}}})
	require.NoError(t, err)
	assert.True(t, moved.Load())
	assert.Contains(t, e.Kept, shared)
	b, err := f.store.Blob(ctx, shared)
	require.NoError(t, err)
	assert.Equal(t, string(output), string(b))
	of("ann")
	f.verified(f.kernels[0])
}

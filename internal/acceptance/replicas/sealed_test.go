package replicas

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// A log whose append failed after it was written does not read it from the store and go on with it.
func TestSealedLogReadsNothing(t *testing.T) {
	t.Parallel()
	ctx, store, read := context.Background(), sharedmem.New(), 0
	key := kerneltest.SeedKey(t, 1)
	l, err := proofgraph.Open(ctx, store, proofgraph.Options{Origin: kerneltest.Origin, Key: key,
		LogKey: crypto.DeriveLogKey(key), Trust: []byte("{}")}, func(proofgraph.Line) error { read++; return nil })
	require.NoError(t, err)
	before := read
	lost := errors.New("connection lost")
	store.Hook(sharedmem.Hooks{After: func(context.Context, sharedmem.Op, error) error { return lost }})
	record := kerneltest.Compile(t, kerneltest.Policy).Record()
	event := func(proofgraph.Place) (*contracts.Statement, error) { return &contracts.Statement{Policy: &record}, nil }
	c := l.Chain(contracts.SessionKernel)
	slot, err := l.Place(proofgraph.Draft{Chain: c, Time: c.Time(), Write: event})
	if err == nil {
		err = slot.Wait()
	}
	require.ErrorIs(t, err, lost)
	size, err := store.Size(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(2), size, "the entry was written")
	store.Hook(sharedmem.Hooks{})
	require.ErrorIs(t, l.Refresh(ctx), proofgraph.ErrSealed)
	require.ErrorIs(t, l.Confirm(ctx), proofgraph.ErrSealed)
	assert.Equal(t, before, read)
	require.NoError(t, l.Leave(ctx))
}

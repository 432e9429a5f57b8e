package replicas

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
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
	event := func(proofgraph.Place) (*contracts.Statement, error) {
		return &contracts.Statement{Policy: &record}, nil
	}
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

// A repeat gets no output of a session that another kernel has closed.
func TestRepeatAfterClose(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy, func(o *helm.Options) { o.Keep.Outputs = true })
	once := func(in *helm.Intent) { in.Idempotency = "once" }
	d, _ := f.call(f.kernels[0], "chat", once)
	require.NoError(t, d.Err())
	d, r := f.call(f.kernels[0], "chat", once)
	require.NoError(t, d.Err())
	require.NotEmpty(t, r.Output)
	require.NoError(t, f.kernels[1].CloseSession(context.Background(), "chat"))
	d, r = f.call(f.kernels[0], "chat", once)
	assert.Equal(t, contracts.ReasonSessionClosed, d.Reason)
	assert.Equal(t, contracts.Denied, r.Record.Outcome)
	assert.Empty(t, r.Output)
	f.verified(f.kernels[0])
}

package notary

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
)

// While no entry is after the last checkpoint there is no timer.
func TestIdle(t *testing.T) {
	t.Parallel()
	n := New(Options{After: time.Hour})
	n.Grown(3, 0)
	assert.Nil(t, n.timer, "before Begin")
	n.Begin()
	require.NotNil(t, n.timer)
	n.Grown(3, 3)
	assert.Nil(t, n.timer)
	n.Grown(4, 3)
	assert.NotNil(t, n.timer)
	require.NoError(t, n.Close(true))
	assert.Nil(t, n.timer)
}

// Two checkpoints may be told in another order than they were made: the older one is not handed on.
// When Close has returned, the context of Done has ended.
func TestOrder(t *testing.T) {
	t.Parallel()
	sizes, contexts := make(chan uint64, 10), make(chan context.Context, 10)
	n := New(Options{Done: func(ctx context.Context, c proofgraph.Checkpoint) {
		sizes <- c.Size
		contexts <- ctx
	}})
	n.Made(proofgraph.Checkpoint{Size: 5})
	assert.EqualValues(t, 5, <-sizes)
	n.Made(proofgraph.Checkpoint{Size: 3})
	require.NoError(t, n.Close(false))
	assert.Empty(t, sizes)
	require.Error(t, (<-contexts).Err())
}

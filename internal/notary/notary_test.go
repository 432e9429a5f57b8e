package notary

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// Close waits 10 seconds for Done and no longer. Then the context of Done ends.
func TestDoneThatNeverReturns(t *testing.T) {
	t.Parallel()
	for _, listens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			began, ended := time.Now(), make(chan time.Duration, 1)
			n := New(Options{Every: 1, Done: func(ctx context.Context, _ proofgraph.Checkpoint) {
				if listens {
					<-ctx.Done()
					ended <- time.Since(began)
					return
				}
				<-release
				assert.Error(t, ctx.Err())
			}})
			n.Begin()
			n.Made(proofgraph.Checkpoint{Size: 5})
			synctest.Wait()
			require.NoError(t, n.Close(false))
			assert.Equal(t, doneTime, time.Since(began))
			if listens {
				assert.Equal(t, doneTime, <-ended)
			}
			close(release)
		})
	}
}

var errSign = errors.New("the signer failed")

// A checkpoint that was due by time and failed is tried again after the same time, as long as there
// are entries after the last one.
func TestTriedAgainByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, failed := time.Now(), new(atomic.Int64)
		var tries []time.Duration
		var n *Notary
		n = New(Options{After: time.Hour, Failed: func(err error) {
			assert.ErrorIs(t, err, errSign)
			failed.Add(1)
		}, Sign: func(context.Context) (proofgraph.Checkpoint, error) {
			if tries = append(tries, time.Since(began)); len(tries) < 3 {
				return proofgraph.Checkpoint{}, errSign
			}
			n.Grown(7, 7)
			return proofgraph.Checkpoint{Size: 7}, nil
		}})
		n.Begin()
		n.Grown(7, 0)
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}, tries)
		assert.EqualValues(t, 2, failed.Load())
		require.NoError(t, n.Close(false))
		assert.Len(t, tries, 3, "nothing is after the last one")
	})
}

// While nothing is made and nothing handed on there is no goroutine, also while a timer is armed.
func TestNoGoroutineWhileIdle(t *testing.T) {
	// not parallel: it looks at all goroutines
	running := func() int {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "notary.(*Notary)")
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var n *Notary
		n = New(Options{Every: 5, After: time.Hour, Failed: func(err error) { assert.NoError(t, err) },
			Sign: func(context.Context) (proofgraph.Checkpoint, error) {
				<-release
				n.Grown(5, 5)
				n.Made(proofgraph.Checkpoint{Size: 5})
				return proofgraph.Checkpoint{Size: 5}, nil
			}, Done: func(context.Context, proofgraph.Checkpoint) { <-release }})
		n.Begin()
		n.Grown(4, 0)
		synctest.Wait()
		assert.NotNil(t, n.timer)
		assert.Zero(t, running(), "a timer is armed")
		n.Grown(5, 0)
		synctest.Wait()
		assert.NotZero(t, running(), "one is made")
		release <- struct{}{}
		synctest.Wait()
		assert.NotZero(t, running(), "one is handed on")
		release <- struct{}{}
		synctest.Wait()
		assert.Zero(t, running())
		require.NoError(t, n.Close(false))
		assert.Zero(t, running())
	})
}

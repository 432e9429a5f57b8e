package state

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDue(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		size, last uint64
		due        bool
	}{{0, 0, false}, {65_535, 0, false}, {65_536, 0, true}, {131_071, 65_536, false}, {131_072, 65_536, true},
		{1_000_000 + 124_999, 1_000_000, false}, {1_000_000 + 125_000, 1_000_000, true}, {5, 1_000_000, false}} {
		assert.Equal(t, x.due, Due(x.size, x.last), "%d after %d", x.size, x.last)
	}
}

// States are made one at a time, when they are due, and Close waits for the last one.
func TestKeeper(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan bool), make(chan uint64)
	k := NewKeeper(func(_ context.Context, last bool) (uint64, error) {
		asked <- last
		return <-goOn, nil
	}, func(err error) { t.Error(err) })
	k.Kept(10)
	k.Marked(10 + every - 1) // not due
	k.Marked(10 + every)
	require.False(t, <-asked)
	k.Marked(10 * every) // one is being made
	closed := make(chan bool)
	go func() {
		k.Close(false)
		close(closed)
	}()
	goOn <- 10 + every
	require.True(t, <-asked, "the last one")
	goOn <- 11 * every
	<-closed
	assert.EqualValues(t, 11*every, k.Size())
	k.Marked(100 * every) // no more
	k.Close(true)
	(*Keeper)(nil).Marked(1)
	(*Keeper)(nil).Close(false)
}

// Errors are reported, and the next one is made when it is due again. A signer may end the
// goroutine.
func TestKeeperFails(t *testing.T) {
	t.Parallel()
	errDisk := errors.New("disk")
	failed := make(chan error, 1)
	var n atomic.Int64
	k := NewKeeper(func(context.Context, bool) (uint64, error) {
		if n.Add(1) == 2 {
			runtime.Goexit()
		}
		return 0, errDisk
	}, func(err error) { failed <- err })
	for i, want := range []error{errDisk, errGone} {
		size := uint64(i+1) * every
		for k.Marked(size); ; k.Marked(size) { // the one before may not have ended yet
			select {
			case err := <-failed:
				require.ErrorIs(t, err, want)
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
	}
	assert.Zero(t, k.Size())
	k.Close(true)
}

// A state that cannot be saved is not made again with each checkpoint, but when it would be due
// after a state of that many entries: so all attempts together take the time of a few readings.
func TestKeeperDoesNotTryAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errDisk := errors.New("disk")
		tries, errs, last := 0, 0, 0
		k := NewKeeper(func(_ context.Context, l bool) (uint64, error) {
			if tries++; l {
				last++
			}
			return 0, errDisk
		}, func(err error) { errs++ })
		k.Tried(every / 2) // by New
		for size := uint64(0); size < 100*every; size += 1000 {
			k.Marked(size)
			synctest.Wait()
		}
		n := 0
		for at := uint64(every / 2); at < 100*every; at += max(every, at/8) {
			n++
		}
		assert.InDelta(t, n-1, tries, 1)
		assert.Equal(t, tries, errs)
		k.Close(false)
		assert.Equal(t, 1, last, "Close tries once more")
	})
}

// Close ends the context of one that is not made in time, says so, and does not wait for it.
func TestKeeperIsLate(t *testing.T) {
	t.Parallel()
	var late []error
	ended := make(chan bool)
	k := NewKeeper(func(ctx context.Context, _ bool) (uint64, error) {
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}, func(err error) { late = append(late, err) })
	k.patience = time.Millisecond
	k.Close(false)
	<-ended
	assert.Equal(t, []error{errLate}, late)
}

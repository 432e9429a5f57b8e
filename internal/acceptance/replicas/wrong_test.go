package replicas

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
)

// TestWrongGuesses: a kernel whose guesses are wrong, because another one writes in its session all
// the time, takes turns and guesses again now and then. When a guess is right it guesses as before.
func TestWrongGuesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy)
	a, b := f.kernels[0], f.kernels[1]
	var busy atomic.Bool
	var puts, turns atomic.Int64
	f.store.Hook(sharedmem.Hooks{Before: func(_ context.Context, op sharedmem.Op) error {
		if op.Writer != 1 {
			return nil
		}
		switch op.Name {
		case "Put":
			puts.Add(1)
		case "Turn":
			turns.Add(1)
		}
		if busy.Load() && op.Name == "Put" {
			d, _ := f.call(b, "")
			assert.NoError(t, d.Err())
		}
		return nil
	}})
	calls := func(n int) (guesses, taken int64) {
		puts.Store(0)
		turns.Store(0)
		for range n {
			d, _ := f.call(a, "")
			require.NoError(t, d.Err())
		}
		return puts.Load(), turns.Load()
	}

	calls(1) // where the session ends has to be read first
	guesses, taken := calls(10)
	assert.Equal(t, []int64{20, 0}, []int64{guesses, taken}, "nothing moves")

	busy.Store(true)
	guesses, taken = calls(100)
	assert.Equal(t, int64(200), taken)
	assert.Equal(t, int64(9), guesses, "after 1, 2, 4 … 64 turns, and 64 again")

	busy.Store(false)
	calls(33)
	guesses, taken = calls(10)
	assert.Equal(t, []int64{20, 0}, []int64{guesses, taken}, "it is quiet again")
	f.verified(a)
}

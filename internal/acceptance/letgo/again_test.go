package letgo

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// TestCondenseAgain: a kernel that has condensed its log before begins at what may still go, and
// writes the same as one that was just opened, which reads the log from its beginning.
func TestCondenseAgain(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	for seed := range uint64(3) {
		w := newWorld(t, proofgraph.NewMemory())
		s := newStory(100 + seed)
		sets := 0
		for round := range 8 {
			w.tell(s, 500)
			if round%2 == 1 {
				w.end(s)
			}
			w.later(time.Duration(s.IntN(30)) * time.Hour)
			size := len(lines(t, w.store))
			fresh := w.over(newFork(t, w.store))
			c, again := w.condense(), fresh.condense()
			require.Equal(t, again.Members, c.Members, "seed %d, round %d", seed, round)
			require.Equal(t, lines(t, fresh.store)[size:], lines(t, w.store)[size:], "seed %d, round %d", seed, round)
			sets += len(c.Entries)
			if round%3 == 2 {
				w.drop()
			}
		}
		assert.Greater(t, sets, 1, "seed %d", seed)
	}
}

// A counted is a store that counts the lines that are read.
type counted struct {
	*proofgraph.Memory
	read atomic.Int64
}

func (c *counted) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range c.Memory.Entries(ctx, from, to) {
			c.read.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestCondenseReadsWhatIsNew: it does not read again what went, and what is of an approval, denied,
// of high risk or a key of main, which never goes. A session that is open holds it back.
func TestCondenseReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	store := &counted{Memory: proofgraph.NewMemory()}
	w := newWorld(t, store)
	const calls = 1200
	month := func(n int) {
		w.fill(fmt.Sprint("chat-", n), calls)
		for i := range 50 {
			w.mustCall("main", "crm", `{}`)
			w.mustCall(fmt.Sprint("chat-", n), "wipe", `{}`)
			_, _ = w.call(intentOf("never", fmt.Sprint("chat-", n), i))
		}
		w.close(fmt.Sprint("chat-", n))
		w.mustCall("main", "crm", `{}`)
		w.later(25 * time.Hour)
	}
	condense := func(sets int) int64 {
		t.Helper()
		store.read.Store(0)
		require.Len(t, w.condense().Entries, sets)
		return store.read.Load()
	}
	month(0)
	condense(1)
	for n := range 6 {
		month(1 + n)
		most := 2 * int64(2*calls+250) // the new lines, twice
		most += 2 * 8192               // for the blocks that they are in, and the root
		assert.Less(t, condense(1), most, "round %d", n)
	}
	require.Greater(t, len(lines(t, store)), 2*(8192+200))
	assert.Less(t, condense(0), int64(8192+200), "what is left of main, and the block that it is in")
	w.mustCall("open", "crm", `{}`)
	month(9)
	condense(1)
	assert.Greater(t, condense(0), int64(2*calls), "a session is open")
	w.close("open")
	condense(0)
	w.mustCall("main", "crm", `{}`)
	w.later(25 * time.Hour)
	condense(0)
	assert.Greater(t, condense(0), int64(2*calls), "one call waits for 1,024 others")
}

package letgo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// verify writes a pack of a store and verifies it.
func (w *world) verify() evidence.Report {
	w.Helper()
	ctx := context.Background()
	_, err := w.kernel.Checkpoint(ctx)
	require.NoError(w, err)
	var pack bytes.Buffer
	require.NoError(w, evidence.Write(ctx, &pack, w.store, w.options.Key))
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: w.kernel.Trust(), Origin: kerneltest.Origin})
	require.NoError(w, err)
	require.Equal(w, evidence.Logged, r.Level)
	require.Zero(w, r.Replay.Differing)
	return r
}

// Whatever a store has let go of, a kernel over it goes on as one over the whole log does, and as
// the one does that let go: the same calls leave the same entries, byte by byte.
func TestAllForksGoOnAlike(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	members := uint64(0)
	for seed := range uint64(4) {
		w := newWorld(t, proofgraph.NewMemory())
		s := newStory(seed)
		w.tell(s, 1500)
		w.end(s)
		w.later(25 * time.Hour)
		w.tell(s, 300) // too young
		w.verify()
		c := w.condense()
		require.Len(t, c.Entries, 1, "seed %d", seed)
		members += c.Members
		w.tell(s, 50)
		w.end(s)

		all := newFork(t, w.store)
		o := w.over(all)
		require.Equal(t, c.Members, o.drop().Entries)
		stubs := all.stubs
		require.Len(t, stubs, int(c.Members))
		r := rand.New(rand.NewPCG(seed, 9))
		half, few := newFork(t, w.store), newFork(t, w.store)
		for i, line := range stubs {
			if r.IntN(2) == 0 {
				half.all[i] = line
			}
			if r.IntN(50) == 0 {
				few.all[i] = line
			}
		}
		again := s.Int64()
		ways := []*world{w, o, w.over(newFork(t, w.store)), w.over(half), w.over(few), w.over(newFork(t, all))}
		var want []contracts.Entry
		size := 0
		for n, x := range ways {
			next := *s
			next.Rand = rand.New(rand.NewPCG(uint64(again), 0))
			next.refs = append([]contracts.Ref{}, s.refs...)
			next.closed = map[string]bool{}
			for name := range s.closed {
				next.closed[name] = true
			}
			if n == 0 {
				size = len(lines(t, w.store))
			}
			x.tell(&next, 300)
			got := lines(t, x.store)[size:]
			if n == 0 {
				want = got
				require.Greater(t, len(want), 200)
				continue
			}
			require.Len(t, got, len(want), "seed %d, way %d", seed, n)
			for i := range want {
				require.Equal(t, string(want[i]), string(got[i]), "seed %d, way %d, entry %d", seed, n, size+i)
			}
		}
		ctx := context.Background()
		last := uint64(size)
		for n, x := range ways {
			for at := uint64(1); at < last; at += 1 + last/40 { // the roots of all these sizes
				want, err := w.kernel.Consistency(ctx, at, last)
				require.NoError(t, err)
				got, err := x.kernel.Consistency(ctx, at, last)
				require.NoError(t, err)
				require.Equal(t, want, got, "seed %d, way %d, size %d", seed, n, at)
			}
			report := x.verify()
			require.Len(t, report.Condensed, 1, "way %d", n)
			assert.Equal(t, c.Members, report.Condensed[0].Dropped)
		}
	}
	t.Log(fmt.Sprint(members, " members"))
	assert.Greater(t, members, uint64(4*1024))
}

package replicas

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

func version(t *testing.T, v string) string {
	return kerneltest.Edit(t, kerneltest.Policy, "version: 1", "version: "+v)
}

// TestSwapThatMoved: a swap that was guessed, and is refused since another kernel has swapped in a
// later version meanwhile, leaves the policy before it in force.
func TestSwapThatMoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy)
	a, b := f.kernels[0], f.kernels[1]
	f.call(a, "s")
	var once atomic.Bool
	f.store.Hook(sharedmem.Hooks{Before: func(ctx context.Context, op sharedmem.Op) error {
		if op.Writer == 1 && op.Name == "Put" && once.CompareAndSwap(false, true) {
			assert.NoError(t, b.Swap(ctx, kerneltest.Compile(t, version(t, "3"))))
		}
		return nil
	}})
	require.ErrorContains(t, a.Swap(t.Context(), kerneltest.Compile(t, version(t, "2"))), "goes back")
	f.store.Hook(sharedmem.Hooks{})
	require.True(t, once.Load())
	d, _ := f.call(a, "s")
	require.NoError(t, d.Err())
	have := map[contracts.Digest]bool{}
	for i, st := range f.statements() {
		if st.Policy != nil {
			have[st.Policy.Policy] = true
		}
		if st.Decision != nil {
			assert.True(t, have[st.Decision.PolicyHash], "entry %d is of a policy without an entry", i)
		}
	}
	f.verified(b)
}

// TestNarrowOfAnOlderVersion: a kernel that runs with an older version goes on, narrowed too.
func TestNarrowOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy)
	a, b := f.kernels[0], f.kernels[1]
	require.NoError(t, b.Swap(t.Context(), kerneltest.Compile(t, version(t, "2"))))
	n, err := a.Narrow(kerneltest.Overlay(t, "task", 1, 5))
	require.NoError(t, err)
	d, _ := f.call(n, "s")
	require.NoError(t, d.Err())
	f.verified(b)
}

// TestSlowClock: a kernel whose clock is somewhat late has its calls in "main", where another one
// writes all the time.
func TestSlowClock(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, kerneltest.Policy)
	f.options.Now = func() time.Time { return time.Now().Add(-50 * time.Millisecond) }
	slow, fast := f.join(), f.kernels[0]
	f.store.Hook(sharedmem.Hooks{Before: func(context.Context, sharedmem.Op) error {
		time.Sleep(2 * time.Millisecond) // as with a database
		return nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			f.call(fast, "")
		}
	})
	for range 50 {
		d, _ := f.call(slow, "")
		assert.NoError(t, d.Err())
	}
	stop()
	all.Wait()
	f.verified(fast)
}

// TestCheckpointKeepsWitnesses: a second checkpoint of one size, by another kernel, leaves the
// lines of witnesses.
func TestCheckpointKeepsWitnesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy)
	f.call(f.kernels[0], "s")
	c, err := f.kernels[0].Checkpoint(t.Context())
	require.NoError(t, err)
	w, err := f.store.Join(t.Context(), kerneltest.Origin)
	require.NoError(t, err)
	note := slices.Concat(c.Note, []byte("— witness.example/w AAAAAAAA\n"))
	_, err = w.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	require.NoError(t, w.End(t.Context(), proofgraph.Change{Batch: proofgraph.Batch{Checkpoint: note}}))
	_, err = f.kernels[1].Checkpoint(t.Context())
	require.NoError(t, err)
	now, err := f.store.Checkpoint(t.Context())
	require.NoError(t, err)
	assert.Equal(t, string(note), string(now))
}

// TestApprovedInMain: calls in "main" that are approved, and approvals that are presented again and
// again, from two kernels at once. Each approval is good once.
func TestApprovedInMain(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	f := newFleet(t, 0, kerneltest.Policy, func(o *helm.Options) {
		o.Policy, o.Trust, o.Key, o.LogKey, o.Now, o.Drivers = b.Options.Policy, b.Options.Trust, b.Options.Key,
			b.Options.LogKey, b.Options.Now, nil
	})
	kernels := []*helm.Kernel{f.join(), f.join()}
	pay := func(i int) func(*helm.Intent) {
		return func(in *helm.Intent) {
			in.Tool, in.Args, in.Driver, in.Session = "pay", fmt.Appendf(nil, `{"to":"landlord","amount":%d}`, i), f, ""
			in.Caller = helm.Caller{ID: "clerk"}
		}
	}
	var paid atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		asked, _ := f.call(kernels[0], "", pay(i))
		require.Equal(t, contracts.ReasonApprovalRequired, asked.Reason, "%s", asked.Why)
		yes := b.Approve(*asked.Pending, kerneltest.Ann)
		all.Go(func() {
			for j := range 5 {
				present := func(in *helm.Intent) { in.Approvals = []contracts.Envelope{yes} }
				d, _ := f.call(kernels[(i+j)%2], "", pay(i), present)
				if d.Err() == nil {
					paid.Add(1)
				}
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 60, paid.Load())
	f.verified(kernels[1])
}

package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// governed makes n kernels whose trust state has roots, and a world that signs events for them.
func governed(t *testing.T, n int, change ...func(*helm.Options)) (*fleet, *kerneltest.World) {
	w := kerneltest.NewGoverned(t)
	f := newFleet(t, 0, kerneltest.Policy, append(change, func(o *helm.Options) {
		o.Trust, o.Key, o.LogKey = w.Options.Trust, w.Options.Key, w.Options.LogKey
	})...)
	for range n {
		f.join()
	}
	return f, w
}

// Of two events of one version that two kernels are given at once, one is entered.
func TestEventsRace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for range 20 {
		f, w := governed(t, 2)
		freeze := kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)
		errs := make([]error, 2)
		var all sync.WaitGroup
		for i, k := range f.kernels {
			all.Go(func() { errs[i] = k.Govern(ctx, freeze) })
			all.Go(func() { f.call(k, "chat") })
		}
		all.Wait()
		assert.True(t, (errs[0] == nil) != (errs[1] == nil), "%v, %v", errs[0], errs[1])
		for _, k := range f.kernels {
			require.NoError(t, k.Err())
		}
		d, _ := f.call(f.join(), "chat")
		assert.Equal(t, contracts.ReasonSystemFrozen, d.Reason)
	}
}

// A kernel that has written nothing since others changed what holds learns of it before it answers.
func TestIdleKernel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f, w := governed(t, 2, func(o *helm.Options) { o.Keep.Outputs = true })
	busy, idle := f.kernels[0], f.kernels[1]
	once := func(in *helm.Intent) { in.Idempotency = "once" }
	d, _ := f.call(idle, "chat", once)
	require.NoError(t, d.Err())

	require.NoError(t, busy.UserMessage(ctx, "talk", "hello"))
	require.NoError(t, idle.UserMessage(ctx, "talk", "again"))
	require.NoError(t, busy.CloseSession(ctx, "talk"))
	require.ErrorContains(t, idle.UserMessage(ctx, "talk", "too late"), "the session is closed")
	require.NoError(t, idle.CloseSession(ctx, "talk"))
	require.NoError(t, idle.Err())

	third := kerneltest.Compile(t, kerneltest.Edit(t, kerneltest.Policy, "version: 1", "version: 3"))
	require.NoError(t, busy.Swap(ctx, third))
	second := kerneltest.Compile(t, kerneltest.Edit(t, kerneltest.Policy, "version: 1", "version: 2"))
	require.ErrorContains(t, idle.Swap(ctx, second), "goes back")

	require.NoError(t, busy.Govern(ctx, kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)))
	d, r := f.call(idle, "chat", once)
	assert.Equal(t, contracts.ReasonSystemFrozen, d.Reason)
	assert.Nil(t, r.Output)
	thaw := contracts.TrustEvent{Type: "unfreeze", Origin: kerneltest.Origin, Version: w.Event(w.Freezing()).Version + 1, Why: "a test"}
	require.NoError(t, idle.Govern(ctx, kerneltest.SignEvent(t, thaw, kerneltest.Root1, kerneltest.Root2)))
	d, r = f.call(busy, "chat", once)
	assert.NoError(t, d.Err())
	assert.NotEmpty(t, r.Output)
	f.verified(busy)
}

// An approval that was used in main by one kernel is used for all, and the denial is replayed.
func TestApprovalInMain(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	f := newFleet(t, 0, kerneltest.Policy, func(o *helm.Options) {
		o.Policy, o.Trust, o.Key, o.LogKey, o.Now, o.Drivers = b.Options.Policy, b.Options.Trust, b.Options.Key,
			b.Options.LogKey, b.Options.Now, nil
	})
	first, second := f.join(), f.join()
	pay := func(in *helm.Intent) {
		in.Tool, in.Args, in.Driver, in.Session = "pay", []byte(kerneltest.Rent), f, ""
		in.Caller = helm.Caller{ID: "clerk"}
	}
	asked, _ := f.call(first, "", pay)
	require.Equal(t, contracts.ReasonApprovalRequired, asked.Reason, "%s", asked.Why)
	yes := b.Approve(*asked.Pending, kerneltest.Ann)
	with := func(in *helm.Intent) { in.Approvals = []contracts.Envelope{yes} }
	d, _ := f.call(first, "", pay, with)
	require.NoError(t, d.Err())
	for _, k := range []*helm.Kernel{second, f.join(), first} {
		d, _ = f.call(k, "", pay, with)
		assert.Equal(t, contracts.ReasonApprovalInvalid, d.Reason, "%s", d.Why)
	}
	assert.Equal(t, int64(1), f.runs.Load())
	f.verified(second)
}

// An unread store cannot be read while it is unread.
type unread struct {
	*sharedmem.Store
	is    atomic.Bool
	reads atomic.Int64
}

func (s *unread) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	if s.reads.Add(1); s.is.Load() {
		return func(yield func(proofgraph.Placed, error) bool) { yield(proofgraph.Placed{}, errors.New("lost")) }
	}
	return s.Store.Session(ctx, name, from)
}

// A repeat of a call that another kernel runs says so if its outcome cannot be read.
func TestRepeatUnread(t *testing.T) {
	t.Parallel()
	runs, goOn := make(chan bool), make(chan bool)
	s := &unread{}
	f := newFleet(t, 0, kerneltest.Policy, func(o *helm.Options) {
		s.Store = o.Store.(*sharedmem.Store)
		o.Store, o.Drivers = s, map[string]executor.Driver{
			"echo": executor.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
				runs <- true
				<-goOn
				return args, nil
			})}
	})
	first, second := f.join(), f.join()
	once := func(in *helm.Intent) { in.Idempotency = "once" }
	var all sync.WaitGroup
	all.Go(func() {
		d, _ := f.call(first, "chat", once)
		assert.NoError(t, d.Err())
	})
	<-runs
	all.Go(func() {
		defer close(goOn)
		d, _ := f.call(second, "chat", once)
		assert.Equal(t, contracts.ReasonFailClosedError, d.Reason)
		assert.Equal(t, "idempotency: how the first call ended cannot be read from the store", d.Why)
	})
	began := s.reads.Load()
	assert.Eventually(t, func() bool { return s.reads.Load() > began+3 }, time.Minute, time.Millisecond, "it waits")
	s.is.Store(true)
	all.Wait()
}

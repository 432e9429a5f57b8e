package govern

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
)

// Of many events for one version, entered at once, one is accepted.
func TestGovernOnce(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	var all sync.WaitGroup
	var entered atomic.Int64
	events := make([]contracts.Envelope, 16)
	for i := range events {
		events[i] = kerneltest.SignEvent(t, w.Adding(byte(100+i), fmt.Sprint("publisher ", i), registry.Publisher),
			kerneltest.Root1, kerneltest.Root2)
	}
	for _, e := range events {
		all.Go(func() {
			switch err := w.Kernel.Govern(context.Background(), e); {
			case err == nil:
				entered.Add(1)
			case !strings.Contains(err.Error(), "version: 2, want 3"):
				t.Error(err)
			}
		})
	}
	kerneltest.Within(t, time.Minute, "16 events", all.Wait)
	assert.Equal(t, int64(1), entered.Load())
	assert.Equal(t, uint64(2), w.TrustState().Version())
	w.MustVerify()
}

// A kernel's own key is revoked under 64 callers: no entry follows, no caller is left waiting, and
// the next kernel settles what ran.
func TestGovernEndsUnderLoad(t *testing.T) {
	t.Parallel()
	ends := []contracts.ReasonCode{contracts.ReasonKernelSealed, contracts.ReasonReceiptNotStored,
		contracts.ReasonFailClosedError}
	for _, what := range []string{"Key", "LogKey"} {
		t.Run(what, func(t *testing.T) {
			w := kerneltest.NewGoverned(t)
			w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
			w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
			e := w.Revoking(1)
			if what == "LogKey" {
				id := crypto.KeyID(w.TrustState().Keys(registry.Log, 1)[0])
				e = w.Event(contracts.TrustEvent{Type: "revoke", ID: &id})
			}
			last := kerneltest.SignEvent(t, e, kerneltest.Root1, kerneltest.Root2)
			var all, calling sync.WaitGroup
			var ran atomic.Int64
			calling.Add(64)
			for i := range 64 {
				all.Go(func() {
					for j := 0; ; j++ {
						if j == 3 {
							calling.Done()
						}
						if i == 0 {
							if _, err := w.Kernel.Checkpoint(context.Background()); err != nil {
								assert.ErrorIs(t, err, proofgraph.ErrSealed)
							}
						}
						d, _ := w.Call("echo", `{}`, func(in *helm.Intent) { in.Session = fmt.Sprint("s", i%9) })
						if d.Allowed() {
							ran.Add(1)
							continue
						}
						assert.Contains(t, ends, d.Reason)
						assert.ErrorContains(t, d.Err(), "revoked the "+what, "the cause")
						assert.GreaterOrEqual(t, j, 3, "the kernel ended before the event")
						return
					}
				})
			}
			kerneltest.Within(t, time.Minute, "callers", calling.Wait)
			assert.NoError(t, w.Kernel.Govern(context.Background(), last))
			size := w.Size()
			kerneltest.Within(t, time.Minute, "64 callers", all.Wait)
			assert.Equal(t, size, w.Size(), "entries after the last event")
			assert.GreaterOrEqual(t, ran.Load(), int64(64*3))
			w.Fold(func(i uint64, st *contracts.Statement, _ *registry.State) {
				if i == size-1 {
					assert.NotNil(t, st.Trust, "the last entry is the event's")
				}
			})
			w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
			w.Open()
			w.MustFollowTrust()
			report := w.MustVerify()
			assert.Empty(t, report.Open, "open")
			w.MustAgree(report)
		})
	}
}

// fading is a context that ends after it was read once.
type fading struct {
	context.Context
	done chan struct{}
	once sync.Once
}

func (f *fading) Done() <-chan struct{} { return f.done }

func (f *fading) Err() (err error) {
	select {
	case <-f.done:
		return context.Canceled
	default:
	}
	f.once.Do(func() { close(f.done) })
	return nil
}

// While the store is slow, an event holds for what is judged after it before it is durable, and no
// caller is told of either before. A context that ends before the event has its place leaves
// nothing; one that ends later changes nothing.
func TestGovernBeforeASlowStore(t *testing.T) {
	kerneltest.OneWriter(t, "its store blocks")
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := new(kerneltest.BlockingStore)
		w := kerneltest.NewGoverned(t, func(o *helm.Options) {
			d.Store = o.Store
			o.Store = d
		})
		w.MustAllow(w.Kernel, 1)
		size := w.Size()
		fade := &fading{Context: context.Background(), done: make(chan struct{})}
		err := w.Kernel.Govern(fade, kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer))
		assert.ErrorIs(t, err, context.Canceled, "a context that ends on the way")
		assert.ErrorContains(t, err, "nothing was changed")
		assert.Equal(t, size, w.Size())
		w.MustAllow(w.Kernel, 1)

		e := kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)
		d.Block()
		ctx, cancel := context.WithCancel(context.Background())
		governed, denied := make(chan error, 1), make(chan helm.Decision, 1)
		go func() { governed <- w.Kernel.Govern(ctx, e) }()
		synctest.Wait()
		go func() { d, _ := w.Echo(w.Kernel, 1); denied <- d }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		assert.Zero(t, len(governed)+len(denied), "a caller was answered before anything was stored")
		d.Unblock()
		assert.NoError(t, <-governed)
		assert.Equal(t, contracts.ReasonSystemFrozen, (<-denied).Reason, "after the event")
		w.MustFollowTrust()
		w.MustVerify()
	})
}

// A process that ends in the middle of a call, between the event that adds a key and the change to
// it, leaves a log that the new key continues: it settles the call.
func TestRotateSettles(t *testing.T) {
	t.Parallel()
	for _, files := range []bool{false, true} {
		w := kerneltest.NewGoverned(t)
		reopen := func() {}
		if files {
			w.Store.Store = proofgraph.NewMemory()
			reopen = kerneltest.OnFiles(t, w.Store)
			w.Open()
		}
		release, started, over := make(chan struct{}), make(chan struct{}), make(chan helm.Decision)
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			close(started)
			<-release
			return executor.Result{Output: []byte(`{}`)}, nil
		}
		old := w.Kernel
		go func() {
			d, _ := old.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s",
				Idempotency: "k"})
			over <- d
		}()
		<-started
		w.Runs.Store(0)
		w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
		w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
		reopen() // as when the process has ended: it writes nothing more
		w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
		w.Open()
		w.MustCall(kerneltest.Want{Reason: contracts.ReasonOutcomeUnknown, Outcome: contracts.Indeterminate,
			Err: helm.ErrWithheld}, "echo", `{}`, kerneltest.WithKey("k"))
		close(release)
		assert.Equal(t, contracts.ReasonReceiptNotStored, (<-over).Reason, "files %v: what was left behind", files)
		w.MustFollowTrust()
		report := w.MustVerify()
		assert.Empty(t, report.Open, "files %v", files)
		assert.Equal(t, uint64(1), report.Allows, "files %v", files)
		assert.Equal(t, uint64(1), report.Receipts, "files %v", files)
		w.MustAgree(report)
	}
}

// Package replicas tests kernels that write to one log.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// A fleet is kernels over one store. Each is a process of its own, as far as the store can tell.
type fleet struct {
	*testing.T
	store   *sharedmem.Store
	options helm.Options
	kernels []*helm.Kernel
	runs    atomic.Int64
}

const budgets = "budgets:\n  - {id: calls, tools: [echo], limit: 300, per: all, window: total, cost: 1}\n"

// newFleet makes n kernels whose policy has a budget of 300 calls of echo.
func newFleet(t *testing.T, n int, policy string, change ...func(*helm.Options)) *fleet {
	f := &fleet{T: t, store: sharedmem.New()}
	key := kerneltest.SeedKey(t, 1)
	f.options = helm.Options{Policy: kerneltest.Compile(t, policy), Key: key, LogKey: crypto.DeriveLogKey(key),
		Store: f.store, Origin: kerneltest.Origin, Drivers: map[string]executor.Driver{"echo": f}}
	for _, c := range change {
		c(&f.options)
	}
	for range n {
		f.join()
	}
	return f
}

// Run makes a fleet the driver of its tools.
func (f *fleet) Run(_ context.Context, c contracts.Call) (executor.Result, error) {
	f.runs.Add(1)
	return executor.Result{Output: c.Args}, nil
}

func (f *fleet) join() *helm.Kernel {
	f.Helper()
	k, err := helm.New(f.options)
	require.NoError(f, err)
	f.kernels = append(f.kernels, k)
	f.Cleanup(func() { k.Close() })
	return k
}

func (f *fleet) call(k *helm.Kernel, session string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: session}
	for _, c := range change {
		c(&in)
	}
	return k.Guard(context.Background(), in)
}

// pack returns a pack of the log, to a checkpoint of now.
func (f *fleet) pack(k *helm.Kernel) []byte {
	f.Helper()
	ctx := context.Background()
	_, err := k.Checkpoint(ctx)
	require.NoError(f, err)
	var pack bytes.Buffer
	require.NoError(f, evidence.Write(ctx, &pack, f.options.Store, f.options.Key))
	return pack.Bytes()
}

// verified verifies a pack of the log, with replay.
func (f *fleet) verified(k *helm.Kernel) evidence.Report {
	f.Helper()
	return f.verifies(k, f.pack(k))
}

// agreed is verified, and the second implementation comes to the same.
func (f *fleet) agreed(k *helm.Kernel) evidence.Report {
	f.Helper()
	pack := f.pack(k)
	r := f.verifies(k, pack)
	kerneltest.MustAgree(f.T, pack, k.Trust(), r)
	return r
}

func (f *fleet) verifies(k *helm.Kernel, pack []byte) evidence.Report {
	f.Helper()
	r, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)),
		evidence.Options{Trust: k.Trust(), Origin: kerneltest.Origin})
	require.NoError(f, err)
	require.True(f, r.Success(evidence.Logged), "%v", r)
	require.Zero(f, r.Replay.Differing)
	require.NotZero(f, r.Replay.Replayed)
	return r
}

// statements returns what the entries of the log say.
func (f *fleet) statements() (list []*contracts.Statement) {
	f.Helper()
	size, err := f.options.Store.Size(context.Background())
	require.NoError(f, err)
	for e, err := range f.options.Store.Entries(context.Background(), 0, size) {
		require.NoError(f, err)
		sealed, err := new(contracts.Reader).Open(e)
		require.NoError(f, err)
		st, err := sealed.Statement()
		require.NoError(f, err)
		list = append(list, st)
	}
	return list
}

// A budget is one over all kernels: what is charged is the limit exactly, in the order of the log.
func TestOneBudget(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, kerneltest.Policy+budgets)
	var executed, denied atomic.Int64
	var all sync.WaitGroup
	for i, k := range f.kernels {
		for g := range 16 {
			all.Go(func() {
				for range 8 {
					d, r := f.call(k, fmt.Sprintf("s%d-%d", i, g))
					switch {
					case r.Record.Outcome == contracts.Executed:
						executed.Add(1)
					case d.Reason == contracts.ReasonBudgetExceeded && r.Record.Outcome == contracts.Denied:
						denied.Add(1)
					default:
						t.Errorf("%s: %s: %v", d.Reason, d.Why, d.Err())
					}
				}
			})
		}
	}
	all.Wait()
	assert.Equal(t, int64(300), executed.Load())
	assert.Equal(t, int64(4*16*8-300), denied.Load())
	assert.Equal(t, int64(300), f.runs.Load())
	before := uint64(0)
	for _, st := range f.statements() {
		if st.Decision != nil {
			require.Equal(t, before, st.Decision.Charges[0].Before)
			before++
		}
	}
	f.agreed(f.kernels[2])
}

// The calls of a session may come to any kernel.
func TestSessionsMove(t *testing.T) {
	t.Parallel()
	policy := kerneltest.Edit(t, kerneltest.BankPolicy, "approval: {roles: [owner], ttl: 10m}", "receipt: look",
		"approval: {roles: [owner, auditor], quorum: 2, ttl: 1h}", "receipt: look")
	f := newFleet(t, 3, policy, func(o *helm.Options) { o.Drivers = nil })
	f.options.Drivers = nil
	r := rand.New(rand.NewPCG(1, 2))
	tools := []string{"look", "move", "pay"}
	args := map[string]string{"look": `{"account":"17"}`, "move": `{"from":"1","to":"17"}`, "pay": `{"to":"1","amount":1}`}
	verdicts := map[contracts.Verdict]int{}
	for range 200 {
		tool := tools[r.IntN(len(tools))]
		d, _ := f.call(f.kernels[r.IntN(3)], fmt.Sprint("chat-", r.IntN(12)), func(in *helm.Intent) {
			in.Tool, in.Args, in.Driver = tool, json.RawMessage(args[tool]), f
		})
		require.True(t, d.Verdict == contracts.Allow || d.Reason == contracts.ReasonMissingRequirement, "%s %s", d.Reason, d.Why)
		verdicts[d.Verdict]++
	}
	assert.Greater(t, verdicts[contracts.Deny], 10)
	assert.Greater(t, verdicts[contracts.Allow], 10)
	for i := range 12 {
		require.NoError(t, f.kernels[i%3].CloseSession(context.Background(), fmt.Sprint("chat-", i)))
		d, _ := f.call(f.kernels[(i+1)%3], fmt.Sprint("chat-", i), func(in *helm.Intent) {
			in.Tool, in.Args, in.Driver = "look", json.RawMessage(args["look"]), f
		})
		require.Equal(t, contracts.ReasonSessionClosed, d.Reason)
	}
	f.agreed(f.kernels[0])
}

// One session's calls come to all kernels at once. A call that others have overtaken 16 times is
// denied, and is made again.
func TestOneSessionAtOnce(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"chat", "main"} {
		f := newFleet(t, 3, kerneltest.Policy)
		var all sync.WaitGroup
		for _, k := range f.kernels {
			for range 8 {
				all.Go(func() {
					for range 5 {
						d, r := f.call(k, session)
						for n := 0; n < 10 && strings.Contains(d.Why, "the log moved"); n++ {
							assert.NotZero(t, r.Index, "it has no receipt")
							d, r = f.call(k, session)
						}
						if d.Verdict != contracts.Allow || r.Record.Outcome != contracts.Executed {
							t.Errorf("%s: %s: %s: %v", session, d.Reason, d.Why, d.Err())
						}
					}
				})
			}
		}
		all.Wait()
		assert.Equal(t, int64(120), f.runs.Load())
		f.agreed(f.kernels[0])
	}
}

// An idempotency key runs once over all kernels, and each gets the output.
func TestOneKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, kerneltest.Policy, func(o *helm.Options) { o.Keep.Outputs = true })
	key := func(in *helm.Intent) { in.Idempotency = "once" }
	var all sync.WaitGroup
	for _, k := range f.kernels {
		for range 6 {
			all.Go(func() {
				d, r := f.call(k, "chat", key)
				if d.Err() != nil || len(r.Output) == 0 {
					t.Errorf("%v %q", d.Err(), r.Output)
				}
			})
		}
	}
	all.Wait()
	assert.Equal(t, int64(1), f.runs.Load())
	f.verified(f.kernels[1])
}

// A freeze in one kernel holds in all from its place in the log on.
func TestFreeze(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	f := newFleet(t, 0, kerneltest.Policy, func(o *helm.Options) {
		trust := w.Options.Trust
		o.Trust, o.Key, o.LogKey = trust, w.Options.Key, w.Options.LogKey
	})
	for range 3 {
		f.join()
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for i, k := range f.kernels {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				d, _ := f.call(k, fmt.Sprintf("s%d-%d", i, n%3))
				if d.Verdict != contracts.Allow && d.Reason != contracts.ReasonSystemFrozen {
					t.Errorf("%s: %s", d.Reason, d.Why)
					return
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, f.kernels[1].Govern(context.Background(), kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)))
	time.Sleep(20 * time.Millisecond)
	stop.Store(true)
	all.Wait()
	frozen, allowed := false, 0
	for i, st := range f.statements() {
		if st.Trust != nil {
			frozen = true
		}
		if st.Decision != nil {
			assert.False(t, frozen, "entry %d: an ALLOW", i)
			allowed++
		}
	}
	require.True(t, frozen)
	require.NotZero(t, allowed)
	for _, k := range f.kernels {
		d, _ := f.call(k, "later")
		assert.Equal(t, contracts.ReasonSystemFrozen, d.Reason)
	}
	f.agreed(f.kernels[0])
}

// A call of a kernel that died is settled by the others, and that kernel does not release it.
func TestDeadKernel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, kerneltest.Policy)
	began, ends := make(chan struct{}), make(chan struct{})
	slow := executor.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		close(began)
		<-ends
		return json.RawMessage(`{}`), nil
	})
	f.options.Drivers = nil
	k := f.join()
	var d helm.Decision
	var r helm.Receipt
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, r = f.call(k, "chat", func(in *helm.Intent) { in.Driver, in.Idempotency = slow, "once" })
	}()
	<-began
	f.store.Kill(3)
	other, _ := f.call(f.kernels[0], "chat", func(in *helm.Intent) { in.Idempotency = "once" })
	assert.Equal(t, contracts.ReasonOutcomeUnknown, other.Reason, "%v", other.Err())
	require.NoError(t, f.kernels[1].CloseSession(context.Background(), "chat"))
	close(ends)
	<-done
	assert.ErrorIs(t, d.Err(), helm.ErrWithheld)
	assert.ErrorIs(t, d.Err(), proofgraph.ErrFenced)
	assert.Nil(t, r.Output)
	assert.ErrorIs(t, k.Err(), proofgraph.ErrSealed)
	f.agreed(f.kernels[0])
}

// Whatever append fails, and however: no call runs twice, nothing is lost, and the others go on.
func TestAppendsFail(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for n := range 12 {
		for _, how := range []string{"moved", "refused", "lost"} {
			f := newFleet(t, 2, kerneltest.Policy+budgets)
			var count atomic.Int64
			f.store.Hook(sharedmem.Hooks{
				Before: func(_ context.Context, op sharedmem.Op) error {
					if op.Writer != 1 || op.Name == "Turn" || count.Add(1) != int64(n) {
						return nil
					}
					switch how {
					case "moved":
						return proofgraph.ErrMoved
					case "refused":
						return lost
					}
					return nil
				},
				After: func(_ context.Context, op sharedmem.Op, err error) error {
					if how == "lost" && op.Writer == 1 && op.Name != "Turn" && count.Load() == int64(n) {
						return lost
					}
					return err
				},
			})
			var all sync.WaitGroup
			for i, k := range f.kernels {
				for g := range 3 {
					all.Go(func() {
						for range 3 {
							d, r := f.call(k, fmt.Sprintf("s%d-%d", i, g))
							if i == 1 && d.Err() != nil {
								t.Errorf("%s %d: %v", how, n, d.Err())
							}
							if r.Output != nil && d.Err() != nil {
								t.Errorf("%s %d: output with %v", how, n, d.Err())
							}
						}
					})
				}
			}
			all.Wait()
			f.store.Hook(sharedmem.Hooks{})
			f.kernels[0].Close()
			k := f.join()
			open := 0
			for _, st := range f.statements() {
				if st.Decision != nil {
					open++
				} else if st.Receipt != nil && st.Receipt.Decision == nil {
					open--
				}
			}
			assert.Zero(t, open, "%s %d", how, n)
			f.verified(k)
			k.Close()
		}
	}
}

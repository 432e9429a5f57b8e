package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// 64 goroutines call root and tasks, directly, by context and nested, while others swap, narrow,
// close tasks and sessions and sign checkpoints; then the kernel closes in the middle. Every call
// is judged by one stack, the one in force at its place: in the log, at each place, the version
// that judged is the one of root's latest policy. Nothing that a task forbids runs in it.
func TestSwapHammer(t *testing.T) {
	const last = 12
	for _, x := range []struct {
		name string
		room int  // decisions in the queue; 0: as many as ever
		end  bool // Close comes in the middle
	}{{"sound", 0, false}, {"room for two", 2, false}, {"closed in the middle", 0, true}} {
		t.Run(x.name, func(t *testing.T) {
			// however slow the machine is
			numbered := func(v int) *guardian.Policy { return kerneltest.Version(t, v, "timeout: 1s", "timeout: 10m") }
			w := kerneltest.New(t, func(o *helm.Options) { o.Policy = numbered(1) })
			if x.room > 0 {
				w.Kernel.SetRoom(x.room)
			}
			w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
				if c.Tool == "slow" { // nested: under the overlay of the call that runs it
					d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":6}`)})
					assert.False(t, d.Allowed(), "a tool's call left the overlay that the tool runs under")
				}
				return executor.Result{Output: c.Args}, nil
			}
			policies := make([]*guardian.Policy, last+1)
			for v := 1; v <= last; v++ {
				policies[v] = numbered(v)
			}
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			step := w.Narrow(task, kerneltest.Overlay(t, "step", 1, 4))
			bg := context.Background()
			next, swaps, calls := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
			next.Store(1)
			var once sync.Once
			middle := make(chan struct{}) // closed when enough was done to close the kernel
			reached := func() {
				if swaps.Load() > 0 && calls.Load() >= 450 {
					once.Do(func() { close(middle) })
				}
			}
			swap := func() {
				v := next.Add(1)
				if v > last {
					return
				}
				switch err := w.Kernel.Swap(bg, policies[v]); {
				case err == nil:
					swaps.Add(1)
				case x.end:
				default: // another caller was faster with a later version
					assert.Greater(t, next.Load(), v)
				}
			}
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for j := range 12 {
						in := helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j)),
							Session: fmt.Sprint("s", (i+j)%9)}
						k, ctx, most := w.Kernel, bg, 99
						switch i % 8 {
						case 0:
							k, most = task, 5
						case 1:
							ctx, most = step.Context(bg), 4
						case 2:
							n, err := task.Narrow(kerneltest.Overlay(t, fmt.Sprint("n", i%3), 1, 3))
							if err != nil {
								assert.True(t, x.end, err)
								continue
							}
							k, most = n, 3
							defer n.Close()
						case 3:
							in.Tool, in.Args = "slow", json.RawMessage(`{}`)
							k = step
						case 4:
							if i%16 == 4 && j%4 == 3 {
								swap()
							}
						case 5:
							if i == 5 && j%4 == 1 {
								_ = w.Kernel.CloseSession(bg, in.Session)
								continue
							}
							in.Args = json.RawMessage(`{"n":`)
						case 6:
							if i == 6 && j%4 == 1 {
								_, _ = w.Kernel.Checkpoint(bg)
							}
						case 7:
							if x.end && i == 63 && j == 6 {
								<-middle
								assert.NoError(t, w.Kernel.Close())
							}
						}
						d, _ := k.Guard(ctx, in)
						calls.Add(1)
						reached()
						assert.False(t, d.Allowed() && in.Tool == "echo" && j > most, "%d ran where %d is the most", j,
							most)
						assert.False(t, !d.Allowed() && errors.Is(d.Err(), helm.ErrWithheld))
					}
				})
			}
			kerneltest.Within(t, time.Minute, "64 callers", wg.Wait)
			taken, waiting := w.Kernel.Room()
			assert.Zero(t, taken)
			assert.Zero(t, waiting)
			assert.NotZero(t, swaps.Load())
			assert.GreaterOrEqual(t, calls.Load(), int64(64*9))
			mustFollow(w, swaps.Load())
			if x.end {
				w.Options.Policy = policies[last]
				w.Open()
			}
			report := w.MustVerify()
			assert.Zero(t, report.Replay.NotReplayable, "replay")
			assert.GreaterOrEqual(t, report.Replay.Replayed, uint64(200))
		})
	}
}

// mustFollow shows that at every place of the log the policy that judges has the bundle version of
// root's latest entry.
func mustFollow(w *kerneltest.World, swaps int64) {
	w.T.Helper()
	versions, inForce, entries, judged := map[contracts.Digest]uint64{}, uint64(0), int64(0), 0
	for i, st := range w.Statements() {
		var d *contracts.DecisionRecord
		switch {
		case st.Policy != nil:
			v := st.Policy.Documents[0].Version
			versions[st.Policy.Policy] = v
			if len(st.Policy.Documents) == 1 {
				assert.Greater(w.T, v, inForce, "entry %d", i)
				inForce = v
				entries++
			} else if v < inForce {
				w.T.Errorf("entry %d: a narrowed stack of version %d under %d", i, v, inForce)
			}
		case st.Decision != nil:
			d = st.Decision
		case st.Receipt != nil:
			d = st.Receipt.Decision
		}
		if d == nil {
			continue
		}
		judged++
		v := versions[d.PolicyHash]
		assert.Equal(w.T, inForce, v, "entry %d", i)
	}
	assert.GreaterOrEqual(w.T, entries, 1+swaps)
	assert.NotZero(w.T, judged)
	w.PolicyEntries()
}

// A call that waits, for room or for a session that closes, is judged by the stack in force when it
// is judged, read again with its defaults. A call that runs keeps its own.
func TestSwapUnderWaitingCalls(t *testing.T) {
	t.Parallel()
	t.Run("room", func(t *testing.T) {
		inCrowd(t, 1, func(w *crowd) {
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			first := w.fill(1)
			in := helm.Intent{Tool: "echo", Session: "s"}
			allowed, denied := w.come(context.Background(), in),
				w.come(task.Context(context.Background()), helm.Intent{Tool: "echo", Session: "s",
					Args: []byte(`{"text":"mars"}`)})
			swapped := make(chan error, 1)
			w.all.Go(func() {
				swapped <- w.Kernel.Swap(context.Background(),
					kerneltest.Version(t, 2, append(kerneltest.TwoByDefault, "finds: secret", "finds: mars")...))
			})
			synctest.Wait()
			w.dam.Unblock()
			w.mustSucceed(first...)
			w.mustSucceed(allowed)
			assert.NoError(t, <-swapped)
			assert.Equal(t, `{"n":1}`, string(first[0].r.Output))
			assert.Equal(t, `{"n":2}`, string(allowed.r.Output))
			assert.Equal(t, "P1:test:no-secrets", denied.d.Record.Rule)
			w.MustVerify()
		})
	})
	t.Run("a closing session", func(t *testing.T) {
		inCrowd(t, helm.Capacity, func(w *crowd) {
			release := make(chan struct{})
			var runs atomic.Int64
			w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				if runs.Add(1) == 1 {
					<-release
				}
				return executor.Result{Output: c.Args}, nil
			}
			first := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
			ctx, cancel := context.WithCancel(context.Background())
			w.all.Go(func() { _ = w.Kernel.CloseSession(ctx, "s") })
			synctest.Wait()
			second := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s"})
			repeat := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
			w.Swap(kerneltest.Version(t, 2, kerneltest.TwoByDefault...))
			cancel()
			w.mustSucceed(second)
			close(release)
			w.mustSucceed(first)
			// as it would be if it came now
			assert.Equal(t, contracts.ReasonIdempotencyConflict, repeat.d.Reason,
				"with another default the same words are another call")
			assert.Equal(t, `{"n":1}`, string(first.r.Output))
			assert.Equal(t, `{"n":2}`, string(second.r.Output))
			w.MustVerify()
		})
	})
}

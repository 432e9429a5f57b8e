package helm_test

import (
	"context"
	"encoding/json"
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

// A swapHammer is a kernel with a task, and a step of the task, whose policy is swapped under
// calls.
type swapHammer struct {
	*kerneltest.World
	task, step *helm.Kernel
	policies   []*guardian.Policy // by version
	end        bool               // Close comes in the middle
	middle     chan struct{}      // closed when enough was done to close the kernel
	once       sync.Once

	next, swaps, calls atomic.Int64
}

const lastSwap = 12

func newSwapHammer(t *testing.T, room int, end bool) *swapHammer {
	// timeouts are long, however slow the machine is
	numbered := func(v int) *guardian.Policy { return kerneltest.Version(t, v, "timeout: 1s", "timeout: 10m") }
	h := &swapHammer{end: end, middle: make(chan struct{}), policies: make([]*guardian.Policy, lastSwap+1)}
	h.World = kerneltest.New(t, func(o *helm.Options) { o.Policy = numbered(1) })
	if room > 0 {
		h.Kernel.SetRoom(room)
	}
	h.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "slow" { // nested: under the overlay of the call that runs it
			d, _ := h.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":6}`)})
			assert.False(t, d.Allowed(), "a tool's call left the overlay that the tool runs under")
		}
		return executor.Result{Output: c.Args}, nil
	}
	for v := 1; v <= lastSwap; v++ {
		h.policies[v] = numbered(v)
	}
	h.task = h.Narrow(h.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	h.step = h.Narrow(h.task, kerneltest.Overlay(t, "step", 1, 4))
	h.next.Store(1)
	return h
}

// swap puts the next version into force.
func (h *swapHammer) swap() {
	v := h.next.Add(1)
	if v > lastSwap {
		return
	}
	switch err := h.Kernel.Swap(context.Background(), h.policies[v]); {
	case err == nil:
		h.swaps.Add(1)
	case !h.end: // another caller was faster with a later version
		assert.Greater(h.T, h.next.Load(), v, err)
	}
}

// caller makes the calls of caller i. The kernels that it narrows are closed at its end.
func (h *swapHammer) caller(i int) {
	var narrowed []*helm.Kernel
	for j := range 12 {
		h.call(i, j, &narrowed)
	}
	for _, n := range narrowed {
		n.Close()
	}
}

// call makes the jth call of caller i, or what that caller does in its place.
func (h *swapHammer) call(i, j int, narrowed *[]*helm.Kernel) {
	bg := context.Background()
	in := helm.Intent{Tool: "echo", Args: fmt.Appendf(nil, `{"n":%d}`, j), Session: fmt.Sprint("s", (i+j)%9)}
	k, ctx, most := h.Kernel, bg, 99
	switch i % 8 {
	case 0:
		k, most = h.task, 5
	case 1:
		ctx, most = h.step.Context(bg), 4
	case 2:
		n, err := h.task.Narrow(kerneltest.Overlay(h.T, fmt.Sprint("n", i%3), 1, 3))
		if err != nil {
			assert.True(h.T, h.end, err)
			return
		}
		k, most = n, 3
		*narrowed = append(*narrowed, n)
	case 3:
		in.Tool, in.Args, k = "slow", json.RawMessage(`{}`), h.step
	case 5:
		if i == 5 && j%4 == 1 {
			_ = h.Kernel.CloseSession(bg, in.Session)
			return
		}
		in.Args = json.RawMessage(`{"n":`)
	default:
		h.disturb(i, j)
	}
	d, _ := k.Guard(ctx, in)
	if h.calls.Add(1) >= 450 && h.swaps.Load() > 0 {
		h.once.Do(func() { close(h.middle) })
	}
	if d.Allowed() && in.Tool == "echo" {
		assert.LessOrEqual(h.T, j, most, "the largest number that the overlay permits")
	}
	if !d.Allowed() {
		assert.NotErrorIs(h.T, d.Err(), helm.ErrWithheld)
	}
}

// disturb swaps, signs checkpoints and closes the kernel between calls.
func (h *swapHammer) disturb(i, j int) {
	switch {
	case i%16 == 4 && j%4 == 3:
		h.swap()
	case i == 6 && j%4 == 1:
		_, _ = h.Kernel.Checkpoint(context.Background())
	case h.end && i == 63 && j == 6:
		<-h.middle
		assert.NoError(h.T, h.Kernel.Close())
	}
}

// 64 goroutines call root and tasks, directly, by context and nested, while others swap, narrow,
// close tasks and sessions and sign checkpoints; then the kernel closes in the middle. Every call
// is judged by one stack, the one in force at its place: in the log, at each place, the version
// that judged is the one of root's latest policy. Nothing that a task forbids runs in it.
func TestSwapHammer(t *testing.T) {
	for _, x := range []struct {
		name string
		room int  // decisions in the queue; 0: as many as ever
		end  bool // Close comes in the middle
	}{{"sound", 0, false}, {"room for two", 2, false}, {"closed in the middle", 0, true}} {
		t.Run(x.name, func(t *testing.T) {
			h := newSwapHammer(t, x.room, x.end)
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() { h.caller(i) })
			}
			kerneltest.Within(t, time.Minute, "64 callers", wg.Wait)
			taken, waiting := h.Kernel.Room()
			assert.Zero(t, taken)
			assert.Zero(t, waiting)
			assert.NotZero(t, h.swaps.Load())
			assert.GreaterOrEqual(t, h.calls.Load(), int64(64*9))
			mustFollow(h.World, h.swaps.Load())
			if x.end {
				h.Options.Policy = h.policies[lastSwap]
				h.Open()
			}
			report := h.MustVerify()
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
		if st.Policy != nil {
			v := st.Policy.Documents[0].Version
			versions[st.Policy.Policy] = v
			if len(st.Policy.Documents) == 1 {
				assert.Greater(w.T, v, inForce, "entry %d", i)
				inForce = v
				entries++
			} else {
				assert.GreaterOrEqual(w.T, v, inForce, "entry %d: the version of a narrowed stack", i)
			}
		}
		if d := st.Judgement(); d != nil {
			judged++
			assert.Equal(w.T, inForce, versions[d.PolicyHash], "entry %d: the version that judged", i)
		}
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
		withRoom(t, 1, func(w *callers) {
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			first := w.fill(1)
			in := helm.Intent{Tool: "echo", Session: "s"}
			allowed, denied := w.start(context.Background(), in),
				w.start(task.Context(context.Background()), helm.Intent{Tool: "echo", Session: "s",
					Args: []byte(`{"text":"mars"}`)})
			swapped := make(chan error, 1)
			w.all.Go(func() {
				swapped <- w.Kernel.Swap(context.Background(),
					kerneltest.Version(t, 2, append(kerneltest.TwoByDefault, "finds: secret", "finds: mars")...))
			})
			synctest.Wait()
			w.blocking.Unblock()
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
		withRoom(t, helm.Capacity, func(w *callers) {
			release := make(chan struct{})
			var runs atomic.Int64
			w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				if runs.Add(1) == 1 {
					<-release
				}
				return executor.Result{Output: c.Args}, nil
			}
			first := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
			ctx, cancel := context.WithCancel(context.Background())
			w.all.Go(func() { _ = w.Kernel.CloseSession(ctx, "s") })
			synctest.Wait()
			second := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "s"})
			repeat := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
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

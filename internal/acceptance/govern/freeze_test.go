package govern

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// While the system is frozen every call is denied, with a receipt, also one whose key is bound. A
// call that was permitted before ends as usual. The rest of the kernel works, and the next process
// is frozen too. After the freeze all is as before.
func TestFreeze(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t, func(o *helm.Options) { o.Keep.Outputs = true })
	bg := context.Background()
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	key := kerneltest.WithKey("k")
	_, first := w.Echo(w.Kernel, 1, key)
	started, release := make(chan struct{}), make(chan struct{})
	var inner helm.Decision
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "pinned" {
			close(started)
			<-release
			inner, _ = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
			return executor.Result{Output: []byte(`{"ok":true}`)}, nil
		}
		return executor.Result{Output: c.Args}, nil
	}
	type last struct {
		d helm.Decision
		r helm.Receipt
	}
	ended, repeated := make(chan last, 1), make(chan helm.Decision, 1)
	running := func(in *helm.Intent) { in.Idempotency, in.Session = "running", "r" }
	go func() { d, r := w.Call("pinned", `{}`, running); ended <- last{d, r} }()
	<-started
	w.Runs.Store(0)
	w.Freeze()
	go func() { d, _ := w.Call("pinned", `{}`, running); repeated <- d }()

	frozen := kerneltest.Denied(contracts.ReasonSystemFrozen)
	for name, x := range map[string]struct {
		k  *helm.Kernel
		in helm.Intent
	}{
		"a call":               {w.Kernel, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)}},
		"of a narrowed kernel": {task, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s"}},
		"of no tool":           {w.Kernel, helm.Intent{Tool: "nobody", Args: json.RawMessage(`{}`)}},
		"that is denied":       {task, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":9}`)}},
		"a repeat": {w.Kernel, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":1}`), Session: "s",
			Idempotency: "k"}},
		"another with its key": {w.Kernel, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":2}`), Session: "s",
			Idempotency: "k"}},
	} {
		d, r := x.k.Guard(bg, x.in)
		w.MustBe(d, r, frozen)
		assert.Equal(t, contracts.ReasonSystemFrozen, d.Record.Reason, name)
		assert.Zero(t, d.Record.Condition, name)
	}
	done, cancel := context.WithCancel(bg)
	cancel()
	over, _ := w.Kernel.Guard(done, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
	assert.Equal(t, contracts.ReasonSystemFrozen, over.Reason, "with an ended context")
	for reason, in := range map[contracts.ReasonCode]helm.Intent{ // these come before
		contracts.ReasonIntentMalformed:      {Tool: "e c h o", Args: json.RawMessage(`{}`)},
		contracts.ReasonArgsCanonicalization: {Tool: "echo", Args: json.RawMessage(`{`)},
	} {
		d, _ := w.Kernel.Guard(bg, in)
		assert.Equal(t, reason, d.Reason)
	}
	assert.Equal(t, contracts.ReasonSystemFrozen, (<-repeated).Reason, "a repeat of what still runs")
	close(release)
	x := <-ended
	assert.NoError(t, x.d.Err(), "what was permitted before")
	assert.Equal(t, contracts.Executed, x.r.Record.Outcome)
	assert.Equal(t, `{"ok":true}`, string(x.r.Output))
	assert.Equal(t, contracts.ReasonSystemFrozen, inner.Reason, "from inside of it")
	assert.Zero(t, w.Runs.Load())

	late := w.Narrow(w.Kernel, kerneltest.Overlay(t, "late", 1, 5))
	w.Swap(kerneltest.Version(t, 2))
	assert.NoError(t, w.Kernel.CloseSession(bg, "r"))
	closed, _ := w.Echo(w.Kernel, 1, kerneltest.InSession("r"))
	assert.Equal(t, contracts.ReasonSessionClosed, closed.Reason, "a closed session comes first")
	w.MustEcho(frozen, late, 1)
	w.MustVerify()

	w.Close()
	w.Options.Policy = kerneltest.Version(t, 2)
	w.Open()
	w.MustEcho(frozen, w.Kernel, 1)
	w.MustEcho(frozen, w.Kernel, 1, key)
	w.Govern(w.Unfreezing(), kerneltest.Root3, kerneltest.Root1)
	later, r := w.Echo(w.Kernel, 1, key)
	assert.NoError(t, later.Err(), "the repeat, at last")
	assert.Equal(t, first.Index, r.Index)
	assert.Equal(t, `{"n":1}`, string(r.Output))
	assert.Zero(t, w.Runs.Load())
	w.MustAllow(w.Kernel, 1)
	w.MustFollowTrust()
	w.MustAgree(w.MustVerify())
}

// Between judgement and place: a call that was judged under the earlier state would have its place
// after the event's entry, so it is judged again, at a time that is not before the event.
func TestGovernBetweenJudgementAndPlace(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		frozen bool // before
		reason contracts.ReasonCode
	}{
		"frozen":   {false, contracts.ReasonSystemFrozen},
		"unfrozen": {true, contracts.ReasonAllow},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			var reads atomic.Int64
			var w *kerneltest.World
			w = kerneltest.NewGoverned(t, func(o *helm.Options) {
				o.Now = func() time.Time { // read with the session locked, before the judgement
					now := kerneltest.Noon.Add(time.Duration(reads.Add(1)) * time.Second)
					if armed.CompareAndSwap(true, false) {
						kerneltest.Within(t, 10*time.Second, "an event", func() {
							if x.frozen {
								w.Unfreeze()
							} else {
								w.Freeze()
							}
						})
					}
					return now
				}
			})
			if x.frozen {
				w.Freeze()
			}
			armed.Store(true)
			d, _ := w.Echo(w.Kernel, 1)
			assert.Equal(t, x.reason, d.Reason)
			assert.False(t, armed.Load())
			n := w.Runs.Load()
			assert.Equal(t, x.reason == contracts.ReasonAllow, n == 1, "ran %d times", n)
			assert.Equal(t, 1, w.MustFollowTrust(), "not one judgement")
			var last contracts.Time
			for i, st := range w.Statements() {
				assert.GreaterOrEqual(t, st.Time, last, "entry %d is earlier than the one before", i)
				last = st.Time
			}
			w.MustVerify()
		})
	}
}

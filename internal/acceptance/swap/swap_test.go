package swap

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call that was allowed is denied after one swap, and allowed again after the next. Narrowed
// kernels follow with their overlays. A policy that was in force before is written once.
func TestSwap(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	step := w.Narrow(task, kerneltest.Overlay(t, "a-step", 1, 3))
	w.MustAllow(w.Kernel, 6)
	w.Swap(kerneltest.Version(t, 2, kerneltest.NoEcho...))
	for _, k := range []*helm.Kernel{w.Kernel, task, step} {
		d, r := w.Echo(k, 1)
		w.Runs.Store(0)
		w.MustBe(d, r, kerneltest.Denied(contracts.ReasonNoPolicyDefined))
	}
	w.Swap(kerneltest.Version(t, 3, kerneltest.TwoByDefault...))
	d, r := w.Call("echo", `{}`)
	assert.NoError(t, d.Err(), "the new default")
	assert.Equal(t, d.Record.PolicyHash, w.Kernel.Policy().Hash())
	d, _ = w.Echo(task, 1)
	assert.Equal(t, d.Record.PolicyHash, task.Policy().Hash())
	assert.NotEqual(t, w.Kernel.Policy().Hash(), task.Policy().Hash())
	assert.Nil(t, new(helm.Kernel).Policy())
	assert.Equal(t, `{"n":2}`, string(r.Output))
	w.MustAllow(w.Kernel, 6)
	w.MustAllow(task, 5)
	w.MustDeny(task, 6, "P2:task:few")
	w.MustDeny(step, 6, "P2:task:few")
	w.MustDeny(step, 4, "P2:a-step:few")
	w.MustDeny(w.Narrow(task, kerneltest.Overlay(t, "late", 1, 2)), 3, "P2:late:few")
	w.MustHavePolicies("P1:test:1, P1:test:1 P2:task:1, P1:test:1 P2:task:1 P2:a-step:1, " +
		"P1:test:2 P2:task:1, P1:test:2 P2:task:1 P2:a-step:1, P1:test:2, " +
		"P1:test:3 P2:task:1, P1:test:3 P2:task:1 P2:a-step:1, P1:test:3, P1:test:3 P2:task:1 P2:late:1")
	w.PolicyEntries()

	size := w.Size()
	w.Swap(kerneltest.Version(t, 3, kerneltest.TwoByDefault...)) // in force already
	assert.Equal(t, size, w.Size(), "what is in force was written again")
	report := w.MustVerify()
	assert.Equal(t, uint64(0), report.Replay.NotReplayable, "replay: %+v", report.Replay)
	w.MustAgree(report)
}

// Two policies of the same versions may alternate: neither goes back. Each has one entry.
func TestSwapToAndFro(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	a, b := kerneltest.Compile(t, kerneltest.Policy), kerneltest.Version(t, 1, kerneltest.TwoByDefault...)
	for range 3 {
		w.Swap(b)
		_, r := w.Call("echo", `{}`)
		assert.Equal(t, `{"n":2}`, string(r.Output))
		w.MustDeny(task, 6, "P2:task:few")
		w.Swap(a)
		_, r = w.Call("echo", `{}`)
		assert.Equal(t, `{"n":1}`, string(r.Output))
		w.MustDeny(task, 6, "P2:task:few")
	}
	assert.Equal(t, 4, w.PolicyEntries(), "policy entries")
	w.Options.Policy = b
	w.Open()
	_, r := w.Call("echo", `{}`)
	assert.Equal(t, `{"n":2}`, string(r.Output))
	assert.Equal(t, 4, w.PolicyEntries())
	w.MustVerify()
}

// An overlay that has expired, or of whose name there is a later version, follows: it denies, as
// before.
func TestSwapTakesOldOverlaysAlong(t *testing.T) {
	t.Parallel()
	var hours atomic.Int64
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			return time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC).Add(time.Duration(hours.Load()) * time.Hour)
		}
	})
	short := w.Narrow(w.Kernel, kerneltest.Overlay(t, "short", 1, 5, `expires: "2026-11-20T18:00:00Z"`))
	first, second := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5)),
		w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 2, 3))
	third := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 3, 2))
	hours.Add(1)
	require.NoError(t, third.Close())
	w.Swap(kerneltest.Version(t, 2))
	w.MustDeny(short, 1, "P2:short:expires")
	w.MustDeny(first, 6, "P2:task:few")
	w.MustAllow(first, 4)
	w.MustDeny(second, 4, "P2:task:few")
	w.MustVerify()
	w.Options.Policy = kerneltest.Version(t, 2)
	for range 2 {
		_, err := w.Kernel.Narrow(kerneltest.Overlay(t, "task", 2, 3))
		assert.Error(t, err, "the version that followed last, not the highest, counts")
		w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 3, 2))
		w.Open()
	}
}

// Between judgement and place: a call that was judged by the earlier stack is judged again, since
// its place would be after the entry of the new one.
func TestSwapBetweenJudgementAndPlace(t *testing.T) {
	t.Parallel()
	long := `{"text":"` + strings.Repeat("x", 1<<20-11) + `"}`
	for name, x := range map[string]struct {
		args, output string
		to           []string
		reason       contracts.ReasonCode
	}{
		"allowed by both": {`{}`, `{"n":2}`, kerneltest.TwoByDefault, contracts.ReasonAllow},
		"allowed before":  {`{}`, "", kerneltest.NoEcho, contracts.ReasonNoPolicyDefined},
		"denied before": {`{"text":"a secret"}`, `{"n":1,"text":"a secret"}`,
			[]string{"finds: secret", "finds: nothing"}, contracts.ReasonAllow},
		"too long before, with its default": {long, long, []string{"number, default: 1", "number",
			"output: 1KiB", "output: 2MiB"}, contracts.ReasonAllow},
		"no longer a tool": {`{}`, "", []string{"echo:", "gone:", "deny: echo", "deny: gone", "allow: [echo, ",
			"allow: ["}, contracts.ReasonToolNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			var w *kerneltest.World
			w = kerneltest.New(t, func(o *helm.Options) {
				o.Now = func() time.Time { // read with the session locked, before the judgement
					if armed.CompareAndSwap(true, false) {
						kerneltest.Within(t, 10*time.Second, "a swap",
							func() { w.Swap(kerneltest.Version(t, 2, x.to...)) })
					}
					return time.Now()
				}
			})
			armed.Store(true)
			d, r := w.Call("echo", x.args)
			assert.Equal(t, x.reason, d.Reason)
			assert.Equal(t, x.output, string(r.Output))
			assert.Equal(t, kerneltest.Version(t, 2, x.to...).Hash(), d.Record.PolicyHash)
			assert.False(t, armed.Load())
			n := w.Runs.Load()
			assert.Equal(t, x.reason == contracts.ReasonAllow, n == 1, "ran %d times", n)
			w.MustVerify()
		})
	}
}

// A tool may swap the policy that it runs under: it ends under the limits and the pinned output
// that it was permitted with, and its own calls are judged by the new policy.
func TestSwapFromInside(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	var inner helm.Decision
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "pinned" {
			w.Swap(kerneltest.Version(t, 2,
				append([]string{"ok: {type: boolean}", "ok: {type: string}", "allow: [echo, pinned, ",
					"allow: [pinned, "}, kerneltest.TwoByDefault...)...))
			inner, _ = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		}
		return executor.Result{Output: []byte(`{"ok":true}`)}, nil
	}
	d, r := task.Guard(context.Background(), helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`), Session: "s"})
	assert.NoError(t, d.Err())
	assert.Equal(t, `{"ok":true}`, string(r.Output))
	assert.Equal(t, contracts.ReasonNoPolicyDefined, inner.Reason, "from inside")
	d, _ = w.Call("pinned", `{}`)
	assert.Equal(t, contracts.ReasonContractDrift, d.Reason, "the next call")
	w.MustVerify()
}

package helm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
)

// version is the policy of the tests with another version, and edits by pairs.
func version(t testing.TB, n int, edits ...string) *guardian.Policy {
	t.Helper()
	text := strings.Replace(policyText, "name: test, version: 1", fmt.Sprint("name: test, version: ", n), 1)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the policy has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return compile(t, text)
}

func (w *world) swap(p *guardian.Policy) {
	w.t.Helper()
	if err := w.k.Swap(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
}

// noEcho is an edit of the policy that takes echo's permission away; two fills in another default.
var (
	noEcho = []string{"allow: [echo, ", "allow: ["}
	two    = []string{"default: 1", "default: 2"}
)

// What was allowed is denied from one call to the next, and allowed again by the version after it. Narrowed kernels follow with their
// overlays. What was in force before is written once.
func TestSwap(t *testing.T) {
	w := newWorld(t)
	task := w.narrow(w.k, few(t, "task", 1, 5))
	step := w.narrow(task, few(t, "a-step", 1, 3))
	w.mustAllow(w.k, 6)
	w.swap(version(t, 2, noEcho...))
	for _, k := range []*helm.Kernel{w.k, task, step} {
		d, r := w.of(k, 1)
		w.runs.Store(0)
		w.mustBe(d, r, want{reason: contracts.ReasonNoPolicyDefined, outcome: contracts.Denied, err: helm.ErrDenied})
	}
	w.swap(version(t, 3, two...))
	if d, r := w.call("echo", `{}`); d.Err() != nil || string(r.Output) != `{"n":2}` {
		t.Errorf("the new default: %q %v", r.Output, d.Err())
	}
	w.mustAllow(w.k, 6)
	w.mustAllow(task, 5)
	w.mustDeny(task, 6, "P2:task:few")
	w.mustDeny(step, 6, "P2:task:few")
	w.mustDeny(step, 4, "P2:a-step:few")
	w.mustDeny(w.narrow(task, few(t, "late", 1, 2)), 3, "P2:late:few")
	w.mustHold("P1:test:1, P1:test:1 P2:task:1, P1:test:1 P2:task:1 P2:a-step:1, " +
		"P1:test:2 P2:task:1, P1:test:2 P2:task:1 P2:a-step:1, P1:test:2, " +
		"P1:test:3 P2:task:1, P1:test:3 P2:task:1 P2:a-step:1, P1:test:3, P1:test:3 P2:task:1 P2:late:1")
	w.policies()

	size := w.size()
	w.swap(version(t, 3, two...)) // in force already
	if w.size() != size {
		t.Error("what is in force was written again")
	}
	report := w.mustVerify()
	if report.Replay.NotReplayable != 0 {
		t.Errorf("replay: %+v", report.Replay)
	}
	w.mustAgree(report)
}

// Two policies of the same versions may take turns: neither goes back. Each has one entry.
func TestSwapToAndFro(t *testing.T) {
	w := newWorld(t)
	task := w.narrow(w.k, few(t, "task", 1, 5))
	a, b := compile(t, policyText), version(t, 1, two...)
	for range 3 {
		w.swap(b)
		if d, r := w.call("echo", `{}`); string(r.Output) != `{"n":2}` {
			t.Errorf("%q %v", r.Output, d.Err())
		}
		w.mustDeny(task, 6, "P2:task:few")
		w.swap(a)
		if d, r := w.call("echo", `{}`); string(r.Output) != `{"n":1}` {
			t.Errorf("%q %v", r.Output, d.Err())
		}
		w.mustDeny(task, 6, "P2:task:few")
	}
	if n := w.policies(); n != 4 {
		t.Errorf("%d policy entries", n)
	}
	w.o.Policy = b
	w.open()
	if d, r := w.call("echo", `{}`); string(r.Output) != `{"n":2}` || w.policies() != 4 {
		t.Errorf("%q %v", r.Output, d.Err())
	}
	w.mustVerify()
}

// An overlay that has expired, or of whose name there is a later one, follows: it denies, as it did.
func TestSwapTakesOldOverlaysAlong(t *testing.T) {
	var hours atomic.Int64
	w := newWorld(t, func(o *helm.Options) {
		o.Now = func() time.Time {
			return time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC).Add(time.Duration(hours.Load()) * time.Hour)
		}
	})
	short := w.narrow(w.k, few(t, "short", 1, 5, `expires: "2026-11-20T18:00:00Z"`))
	first, second := w.narrow(w.k, few(t, "task", 1, 5)), w.narrow(w.k, few(t, "task", 2, 3))
	third := w.narrow(w.k, few(t, "task", 3, 2))
	hours.Add(1)
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	w.swap(version(t, 2))
	w.mustDeny(short, 1, "P2:short:expires")
	w.mustDeny(first, 6, "P2:task:few")
	w.mustAllow(first, 4)
	w.mustDeny(second, 4, "P2:task:few")
	w.mustVerify()
	w.o.Policy = version(t, 2)
	for range 2 {
		if _, err := w.k.Narrow(few(t, "task", 2, 3)); err == nil {
			t.Error("the version that followed last, not the highest, counts")
		}
		w.narrow(w.k, few(t, "task", 3, 2))
		w.open()
	}
}

// A call that waits, for room or for a session that closes, is judged by the stack of the moment when it is judged, read anew with its
// defaults; what is in flight keeps its own.
func TestSwapUnderWaitingCalls(t *testing.T) {
	t.Run("room", func(t *testing.T) {
		inCrowd(t, 1, func(w *crowd) {
			task := w.narrow(w.k, few(t, "task", 1, 5))
			first := w.fill(1)
			in := helm.Intent{Tool: "echo", Session: "s"}
			allowed, denied := w.come(context.Background(), in), w.come(task.Context(context.Background()), helm.Intent{Tool: "echo", Session: "s", Args: []byte(`{"text":"mars"}`)})
			swapped := make(chan error, 1)
			w.all.Go(func() {
				swapped <- w.k.Swap(context.Background(), version(t, 2, append(two, "finds: secret", "finds: mars")...))
			})
			synctest.Wait()
			w.dam.open()
			w.mustSucceed(first...)
			w.mustSucceed(allowed)
			if err := <-swapped; err != nil {
				t.Error(err)
			}
			if string(first[0].r.Output) != `{"n":1}` || string(allowed.r.Output) != `{"n":2}` || denied.d.Record.Rule != "P1:test:no-secrets" {
				t.Errorf("first %q, waiting %q and %s", first[0].r.Output, allowed.r.Output, denied.d.Reason)
			}
			w.mustVerify()
		})
	})
	t.Run("a closing session", func(t *testing.T) {
		inCrowd(t, helm.Capacity, func(w *crowd) {
			release := make(chan struct{})
			var runs atomic.Int64
			w.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				if runs.Add(1) == 1 {
					<-release
				}
				return executor.Result{Output: c.Args}, nil
			}
			first := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
			ctx, cancel := context.WithCancel(context.Background())
			w.all.Go(func() { _ = w.k.CloseSession(ctx, "s") })
			synctest.Wait()
			second := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s"})
			repeat := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "s", Idempotency: "k"})
			w.swap(version(t, 2, two...))
			cancel()
			w.mustSucceed(second)
			close(release)
			w.mustSucceed(first)
			if repeat.d.Reason != contracts.ReasonIdempotencyConflict { // as it would have been, had it come now
				t.Errorf("with another default the same words are another call: %s", repeat.d.Reason)
			}
			if string(first.r.Output) != `{"n":1}` || string(second.r.Output) != `{"n":2}` {
				t.Errorf("first %q, waiting %q", first.r.Output, second.r.Output)
			}
			w.mustVerify()
		})
	})
}

// Between judgement and place: what was judged by the stack of before is judged again, for it would stand behind the new one's entry.
func TestSwapBetweenJudgementAndPlace(t *testing.T) {
	for name, x := range map[string]struct {
		args, output string
		to           []string
		reason       contracts.ReasonCode
	}{
		"allowed by both":  {`{}`, `{"n":2}`, two, contracts.ReasonAllow},
		"allowed before":   {`{}`, "", noEcho, contracts.ReasonNoPolicyDefined},
		"denied before":    {`{"text":"a secret"}`, `{"n":1,"text":"a secret"}`, []string{"finds: secret", "finds: nothing"}, contracts.ReasonAllow},
		"no longer a tool": {`{}`, "", []string{"echo:", "gone:", "deny: echo", "deny: gone", "allow: [echo, ", "allow: ["}, contracts.ReasonToolNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			var w *world
			w = newWorld(t, func(o *helm.Options) {
				o.Now = func() time.Time { // asked for with the session locked, before the judgement
					if armed.CompareAndSwap(true, false) {
						within(t, 10*time.Second, "a swap", func() { w.swap(version(t, 2, x.to...)) })
					}
					return time.Now()
				}
			})
			armed.Store(true)
			d, r := w.call("echo", x.args)
			if d.Reason != x.reason || string(r.Output) != x.output || d.Record.PolicyHash != version(t, 2, x.to...).Hash() || armed.Load() {
				t.Errorf("%s %q", d.Reason, r.Output)
			}
			if n := w.runs.Load(); (n == 1) != (x.reason == contracts.ReasonAllow) {
				t.Errorf("ran %d times", n)
			}
			w.mustVerify()
		})
	}
}

// A tool may swap the policy under which it runs: it ends under the limits and the pinned output that it was permitted with, and what it
// calls is judged by the new one.
func TestSwapFromInside(t *testing.T) {
	w := newWorld(t)
	task := w.narrow(w.k, few(t, "task", 1, 5))
	var inner helm.Decision
	w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "pinned" {
			w.swap(version(t, 2, append([]string{"ok: {type: boolean}", "ok: {type: string}", "allow: [echo, pinned, ", "allow: [pinned, "}, two...)...))
			inner, _ = w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		}
		return executor.Result{Output: []byte(`{"ok":true}`)}, nil
	}
	d, r := task.Guard(context.Background(), helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`), Session: "s"})
	if d.Err() != nil || string(r.Output) != `{"ok":true}` {
		t.Errorf("%q %v", r.Output, d.Err())
	}
	if inner.Reason != contracts.ReasonNoPolicyDefined {
		t.Errorf("from inside: %s", inner.Reason)
	}
	if d, _ := w.call("pinned", `{}`); d.Reason != contracts.ReasonContractDrift {
		t.Errorf("the next call: %s", d.Reason)
	}
	w.mustVerify()
}

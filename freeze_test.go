package helm_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// While the system is frozen every call is denied, with a receipt, whatever its key was bound to before; what was permitted before ends as it
// would have. The rest of the kernel goes on, and the next process is frozen too. Then it is lifted, and all is as before.
func TestFreeze(t *testing.T) {
	w := newRealm(t, func(o *helm.Options) { o.Keep.Outputs = true })
	bg := context.Background()
	task := w.narrow(w.k, few(t, "task", 1, 5))
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	_, first := w.of(w.k, 1, key)
	started, release := make(chan struct{}), make(chan struct{})
	var inner, later helm.Decision
	w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "pinned" {
			close(started)
			<-release
			inner, _ = w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
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
	go func() { d, r := w.call("pinned", `{}`, running); ended <- last{d, r} }()
	<-started
	w.runs.Store(0)
	w.govern(w.freezing(), seedF)
	go func() { d, _ := w.call("pinned", `{}`, running); repeated <- d }()

	frozen := want{reason: contracts.ReasonSystemFrozen, outcome: contracts.Denied, err: helm.ErrDenied}
	for name, x := range map[string]struct {
		k  *helm.Kernel
		in helm.Intent
	}{
		"a call":               {w.k, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)}},
		"of a narrowed kernel": {task, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s"}},
		"of no tool":           {w.k, helm.Intent{Tool: "nobody", Args: json.RawMessage(`{}`)}},
		"that is denied":       {task, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":9}`)}},
		"a repeat":             {w.k, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":1}`), Session: "s", Idempotency: "k"}},
		"another with its key": {w.k, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":2}`), Session: "s", Idempotency: "k"}},
	} {
		d, r := x.k.Guard(bg, x.in)
		w.mustBe(d, r, frozen)
		if d.Record.Reason != contracts.ReasonSystemFrozen || d.Record.Condition != 0 {
			t.Errorf("%s: %+v", name, d.Record)
		}
	}
	done, cancel := context.WithCancel(bg)
	cancel()
	if d, _ := w.k.Guard(done, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)}); d.Reason != contracts.ReasonSystemFrozen {
		t.Errorf("with an ended context: %s", d.Reason)
	}
	for reason, in := range map[contracts.ReasonCode]helm.Intent{ // these come before
		contracts.ReasonIntentMalformed:      {Tool: "e c h o", Args: json.RawMessage(`{}`)},
		contracts.ReasonArgsCanonicalization: {Tool: "echo", Args: json.RawMessage(`{`)},
	} {
		if d, _ := w.k.Guard(bg, in); d.Reason != reason {
			t.Errorf("%s, want %s", d.Reason, reason)
		}
	}
	if d := <-repeated; d.Reason != contracts.ReasonSystemFrozen {
		t.Errorf("a repeat of what still runs: %s", d.Reason)
	}
	close(release)
	if x := <-ended; x.d.Err() != nil || x.r.Record.Outcome != contracts.Executed || string(x.r.Output) != `{"ok":true}` {
		t.Errorf("what was permitted before: %v, %s %q", x.d.Err(), x.r.Record.Outcome, x.r.Output)
	}
	if inner.Reason != contracts.ReasonSystemFrozen || w.runs.Load() != 0 {
		t.Errorf("from inside of it: %s, %d runs", inner.Reason, w.runs.Load())
	}

	late := w.narrow(w.k, few(t, "late", 1, 5))
	w.swap(version(t, 2))
	if err := w.k.CloseSession(bg, "r"); err != nil {
		t.Error(err)
	}
	if d, _ := w.of(w.k, 1, func(in *helm.Intent) { in.Session = "r" }); d.Reason != contracts.ReasonSessionClosed {
		t.Errorf("a closed session comes first: %s", d.Reason)
	}
	d, r := w.of(late, 1)
	w.mustBe(d, r, frozen)
	w.mustVerify()

	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = version(t, 2)
	w.open()
	d, r = w.of(w.k, 1)
	w.mustBe(d, r, frozen)
	d, r = w.of(w.k, 1, key)
	w.mustBe(d, r, frozen)
	w.govern(w.thawing(), seedR3, seedR1)
	if later, r = w.of(w.k, 1, key); later.Err() != nil || r.Index != first.Index || string(r.Output) != `{"n":1}` || w.runs.Load() != 0 {
		t.Errorf("the repeat, at last: %v, receipt %d, want %d", later.Err(), r.Index, first.Index)
	}
	w.mustAllow(w.k, 1)
	w.mustRule()
	w.mustAgree(w.mustVerify())
}

// Between judgement and place: what was judged under the state of before would stand behind the event's entry, so it is judged again.
func TestGovernBetweenJudgementAndPlace(t *testing.T) {
	for name, x := range map[string]struct {
		frozen bool // before
		reason contracts.ReasonCode
	}{
		"frozen":   {false, contracts.ReasonSystemFrozen},
		"unfrozen": {true, contracts.ReasonAllow},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			var w *world
			w = newRealm(t, func(o *helm.Options) {
				o.Now = func() time.Time { // asked for with the session locked, before the judgement
					if armed.CompareAndSwap(true, false) {
						within(t, 10*time.Second, "an event", func() {
							if x.frozen {
								w.govern(w.thawing(), seedR1, seedR2)
							} else {
								w.govern(w.freezing(), seedF)
							}
						})
					}
					return time.Now()
				}
			})
			if x.frozen {
				w.govern(w.freezing(), seedF)
			}
			armed.Store(true)
			d, _ := w.of(w.k, 1)
			if d.Reason != x.reason || armed.Load() {
				t.Errorf("%s", d.Reason)
			}
			if n := w.runs.Load(); (n == 1) != (x.reason == contracts.ReasonAllow) {
				t.Errorf("ran %d times", n)
			}
			if w.mustRule() != 1 {
				t.Error("not one judgement")
			}
			w.mustVerify()
		})
	}
}

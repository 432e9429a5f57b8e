package helm_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

func TestCloseSession(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	w.call("echo", `{}`)
	if err := w.k.CloseSession(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := w.k.CloseSession(ctx, "s"); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if err := w.k.CloseSession(ctx, "never-used"); err != nil {
		t.Errorf("closing a session without calls: %v", err)
	}
	for _, name := range []string{"", "main", "@refused", "a b"} {
		if w.k.CloseSession(ctx, name) == nil {
			t.Errorf("session %q was closed", name)
		}
	}
	w.runs.Store(0)
	for _, session := range []string{"s", "never-used"} {
		d, r := w.call("echo", `{}`, func(in *helm.Intent) { in.Session = session })
		w.mustBe(d, r, want{reason: contracts.ReasonSessionClosed, outcome: contracts.Denied, err: helm.ErrDenied})
	}
	d, r := w.call("echo", `[`)
	w.mustBe(d, r, want{reason: contracts.ReasonArgsCanonicalization, outcome: contracts.Denied, err: helm.ErrDenied})
	w.open() // and it stays closed
	d, r = w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonSessionClosed, outcome: contracts.Denied, err: helm.ErrDenied})
	w.mustVerify()
}

// Closing waits for the calls that run. Calls from inside them go on, calls from outside wait and are then denied.
func TestCloseSessionWaits(t *testing.T) {
	w, ctx := newWorld(t), context.Background()
	started, release := make(chan struct{}), make(chan struct{})
	w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		close(started)
		<-release
		w.tool = func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, nil }
		if err := w.k.CloseSession(ctx, "s"); err == nil {
			t.Error("closed from inside one of its calls")
		}
		if d, _ := w.k.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`)}); d.Reason != contracts.ReasonContractDrift {
			t.Errorf("call from inside: %s", d.Reason)
		}
		return executor.Result{}, nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if d, _ := w.call("echo", `{}`); d.Err() != nil {
			t.Error(d.Err())
		}
	})
	<-started
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := w.k.CloseSession(short, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closing with a short context: %v", err)
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- w.k.CloseSession(ctx, "s") }()
	}
	wg.Go(func() {
		if d, _ := w.call("echo", `{"n":2}`); d.Reason != contracts.ReasonSessionClosed && d.Reason != contracts.ReasonAllow {
			t.Errorf("call from outside: %s", d.Reason)
		}
	})
	close(release)
	within(t, 10*time.Second, "closing", func() {
		for range 2 {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
	})
	w.mustVerify()
}

func TestCloseWaitsAndSeals(t *testing.T) {
	w := newWorld(t)
	started, release := make(chan struct{}), make(chan struct{})
	w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
		close(started)
		<-release
		return executor.Result{}, nil
	}
	done := make(chan helm.Decision)
	go func() { d, _ := w.call("echo", `{}`); done <- d }()
	<-started
	closed := make(chan error)
	go func() { closed <- w.k.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if d := <-done; d.Err() != nil {
		t.Errorf("the running call: %v", d.Err())
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	w.runs.Store(0)
	w.mustBeSealed()
	if err := w.k.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestIdempotency(t *testing.T) {
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	other := func(f func(in *helm.Intent)) func(in *helm.Intent) {
		return func(in *helm.Intent) { key(in); f(in) }
	}
	w := newWorld(t, func(o *helm.Options) { o.Keep.Outputs = true })

	d, r := w.call("echo", `{"text":"secret"}`, key) // a denial binds nothing
	w.mustBe(d, r, want{reason: contracts.ReasonPolicyViolation, outcome: contracts.Denied, err: helm.ErrDenied})
	d, first := w.call("echo", `{"text":"x"}`, key)
	w.mustBe(d, first, want{contracts.Allow, contracts.ReasonAllow, contracts.Executed, nil, `{"n":1,"text":"x"}`, 1})

	repeat := func() {
		t.Helper()
		d, r := w.call("echo", `{"text":"x","n":1.0}`, key) // the same after defaults
		w.mustBe(d, r, want{contracts.Allow, contracts.ReasonAllow, contracts.Executed, nil, `{"n":1,"text":"x"}`, 0})
		if r.Index != first.Index {
			t.Errorf("the repeat has receipt %d, the first %d", r.Index, first.Index)
		}
	}
	size := w.size()
	repeat()
	if w.size() != size {
		t.Error("a repeat wrote to the log")
	}
	w.open()
	repeat()
	for name, change := range map[string]func(in *helm.Intent){
		"caller": func(in *helm.Intent) { in.Caller.ID = "eve" },
		"tool":   func(in *helm.Intent) { in.Tool = "pinned" },
		"args":   func(in *helm.Intent) { in.Args = []byte(`{"text":"y"}`) },
	} {
		d, r := w.call("echo", `{"text":"x"}`, other(change))
		if d.Reason != contracts.ReasonIdempotencyConflict {
			t.Errorf("other %s: %s", name, d.Reason)
		}
		w.mustBe(d, r, want{reason: contracts.ReasonIdempotencyConflict, outcome: contracts.Denied, err: helm.ErrDenied})
	}
	d, r = w.call("echo", `{"text":"x"}`, other(func(in *helm.Intent) { in.Session = "elsewhere" })) // keys are the session's
	w.mustBe(d, r, want{contracts.Allow, contracts.ReasonAllow, contracts.Executed, nil, `{"n":1,"text":"x"}`, 1})
	w.mustVerify()
}

// A store that hands out other bytes than were recorded gives no repeat its output.
func TestIdempotencyTrustsNoStore(t *testing.T) {
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	w := newWorld(t, func(o *helm.Options) { o.Keep.Outputs = true })
	w.call("echo", `{}`, key)
	w.runs.Store(0)
	w.store.Store = lying{w.store.Store}
	d, r := w.call("echo", `{}`, key)
	if d.Reason != contracts.ReasonOutputNotKept || r.Output != nil || !errors.Is(d.Err(), helm.ErrWithheld) {
		t.Errorf("%s with output %q, error %v", d.Reason, r.Output, d.Err())
	}
}

func TestIdempotencyOfFailures(t *testing.T) {
	key := func(in *helm.Intent) { in.Idempotency = "k" }
	w := newWorld(t)
	w.tool = func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, errOwn }
	d, r := w.call("echo", `{}`, key)
	w.mustBe(d, r, want{contracts.Allow, contracts.ReasonToolError, contracts.Failed, errOwn, "", 1})
	d, again := w.call("echo", `{}`, key)
	if err := d.Err(); d.Reason != contracts.ReasonToolError || err == nil || errors.Is(err, helm.ErrDenied) || again.Index != r.Index || w.runs.Load() != 0 {
		t.Errorf("repeat: %s, %v, receipt %d", d.Reason, err, again.Index)
	}
	w.mustVerify()
}

// Ten callers of one key: one effect, and all have its output.
func TestIdempotencyRaced(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) { o.Keep.Outputs = true })
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			d, r := w.call("echo", `{"text":"x"}`, func(in *helm.Intent) { in.Idempotency = "k" })
			if d.Err() != nil || string(r.Output) != `{"n":1,"text":"x"}` {
				t.Errorf("%v %q", d.Err(), r.Output)
			}
		})
	}
	within(t, 10*time.Second, "ten callers", wg.Wait)
	if w.runs.Load() != 1 {
		t.Errorf("ran %d times", w.runs.Load())
	}
	w.mustVerify()
}

// A call from inside the call that holds its key would wait for itself.
func TestIdempotencyFromInside(t *testing.T) {
	w := newWorld(t)
	w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		for args, recorded := range map[string]bool{`{}`: false, `{"n":2}`: true} {
			d, r := w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(args), Idempotency: "k"})
			if d.Reason != contracts.ReasonIdempotencyConflict || (len(r.Entry) > 0) != recorded || !errors.Is(d.Err(), helm.ErrDenied) {
				t.Errorf("%s: %s, recorded %v", args, d.Reason, len(r.Entry) > 0)
			}
		}
		return executor.Result{}, nil
	}
	within(t, 10*time.Second, "a call from inside", func() {
		if d, _ := w.call("echo", `{}`, func(in *helm.Intent) { in.Idempotency = "k" }); d.Err() != nil {
			t.Error(d.Err())
		}
	})
	w.mustVerify()
}

func TestConcurrentSessions(t *testing.T) {
	const callers, calls = 64, 10
	for name, session := range map[string]func(i int) string{
		"one": func(int) string { return "one" },
		"64":  func(i int) string { return fmt.Sprint("s-", i) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			seen := map[uint64]bool{}
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for j := range calls {
						args, denied := fmt.Sprintf(`{"text":"%d.%d"}`, i, j), j%3 == 2
						if denied {
							args = `{"text":"secret"}`
						}
						d, r := w.call("echo", args, func(in *helm.Intent) { in.Session = session(i) })
						if denied != errors.Is(d.Err(), helm.ErrDenied) || !denied && string(r.Output) != `{"n":1,`+args[1:] {
							t.Errorf("%d.%d: %v %q", i, j, d.Err(), r.Output)
						}
						mu.Lock()
						if seen[r.Index] {
							t.Errorf("two receipts at %d", r.Index)
						}
						seen[r.Index] = true
						mu.Unlock()
					}
				})
			}
			within(t, time.Minute, "all calls", wg.Wait)
			if n := w.runs.Load(); len(seen) != callers*calls || n != callers*7 {
				t.Errorf("%d receipts, %d runs", len(seen), n)
			}
			w.mustVerify()
		})
	}
}

package helm_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// sandboxed is a driver in a sandbox.
type sandboxed struct {
	*world
	err error
}

func (s sandboxed) Sandbox() contracts.SandboxInfo { return contracts.SandboxInfo{Profile: "wasi"} }

func (s sandboxed) Run(context.Context, contracts.Call) (executor.Result, error) {
	s.runs.Add(1)
	return executor.Result{Gas: 7}, s.err
}

// The outcome table of Guard, one case a row.
func TestOutcomeTable(t *testing.T) {
	deny, allow := contracts.Deny, contracts.Allow
	ctx := context.Background()
	type row struct {
		name string
		do   func(w *world) (helm.Decision, helm.Receipt)
		want want
		then func(w *world)
	}
	returns := func(output string, err error) func(context.Context, contracts.Call) (executor.Result, error) {
		return func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: []byte(output)}, err
		}
	}
	sealed := func(w *world) { w.mustBeSealed() }
	exhausted := func(reason contracts.ReasonCode) row {
		return row{string(reason), func(w *world) (helm.Decision, helm.Receipt) {
			return w.call("unbound", `{}`, func(in *helm.Intent) { in.Driver = sandboxed{w, &executor.LimitError{Reason: reason}} })
		}, want{deny, reason, contracts.Failed, helm.ErrWithheld, "", 1}, nil}
	}
	rows := []row{
		{"allowed, ran, recorded", func(w *world) (helm.Decision, helm.Receipt) { return w.call("echo", `{"text":"hi"}`) },
			want{allow, contracts.ReasonAllow, contracts.Executed, nil, `{"n":1,"text":"hi"}`, 1}, nil},
		{"the tool returned an error", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = returns("", errOwn)
			return w.call("echo", `{}`)
		}, want{allow, contracts.ReasonToolError, contracts.Failed, errOwn, "", 1}, nil},
		{"inadmissible", func(w *world) (helm.Decision, helm.Receipt) { return w.call("echo", `{"text":"a secret"}`) },
			want{deny, contracts.ReasonPolicyViolation, contracts.Denied, helm.ErrDenied, "", 0}, nil},
		{"storing the denial failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.store.in(1)
			return w.call("echo", `{"text":"a secret"}`)
		}, want{deny, contracts.ReasonPolicyViolation, "", helm.ErrDenied, "", 0}, sealed},
		{"signing the denial failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.key.in(1)
			return w.call("echo", `{"text":"a secret"}`)
		}, want{deny, contracts.ReasonPolicyViolation, "", helm.ErrDenied, "", 0}, sealed},
		{"storing the permission failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.store.in(1)
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonFailClosedError, "", helm.ErrDenied, "", 0}, sealed},
		{"signing the permission failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.key.in(1)
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonFailClosedError, "", helm.ErrDenied, "", 0}, sealed},
		{"output breaks its pinned schema", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = returns(`{"ok":"yes"}`, nil)
			return w.call("pinned", `{}`)
		}, want{deny, contracts.ReasonContractDrift, contracts.Withheld, helm.ErrWithheld, "", 1}, nil},
		{"output is not JSON where a schema is pinned", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = returns(`{"ok":true`, nil)
			return w.call("pinned", `{}`)
		}, want{deny, contracts.ReasonContractDrift, contracts.Withheld, helm.ErrWithheld, "", 1}, nil},
		{"output over its size limit", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = returns(`"`+strings.Repeat("x", 1024)+`"`, nil)
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonOutputExhausted, contracts.Withheld, helm.ErrWithheld, "", 1}, nil},
		exhausted(contracts.ReasonGasExhausted),
		exhausted(contracts.ReasonTimeExhausted),
		exhausted(contracts.ReasonMemoryExhausted),
		{"a limit error of a driver without a sandbox is the tool's own", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = returns("", errors.Join(&executor.LimitError{Reason: contracts.ReasonGasExhausted}, errOwn))
			return w.call("echo", `{}`)
		}, want{allow, contracts.ReasonToolError, contracts.Failed, errOwn, "", 1}, nil},
		{"the time limit passed and the driver returned an error", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
				<-ctx.Done()
				return executor.Result{}, ctx.Err()
			}
			return w.call("slow", `{}`)
		}, want{deny, contracts.ReasonToolTimeout, contracts.Indeterminate, helm.ErrWithheld, "", 1}, nil},
		{"the time limit passed and the driver did not return", func(w *world) (helm.Decision, helm.Receipt) {
			stop := make(chan struct{})
			w.t.Cleanup(func() { close(stop) })
			w.tool = func(context.Context, contracts.Call) (executor.Result, error) { <-stop; return executor.Result{}, nil }
			return w.call("slow", `{}`)
		}, want{deny, contracts.ReasonToolTimeout, contracts.Indeterminate, helm.ErrWithheld, "", 1}, nil},
		{"the caller went away while the tool ran", func(w *world) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			w.tool = func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
				cancel()
				<-ctx.Done()
				return executor.Result{}, ctx.Err()
			}
			return w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
		}, want{deny, contracts.ReasonToolCanceled, contracts.Indeterminate, helm.ErrWithheld, "", 1}, nil},
		{"a nil error wins over an ended context", func(w *world) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
				cancel()
				return executor.Result{Output: []byte("1")}, nil
			}
			return w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
		}, want{allow, contracts.ReasonAllow, contracts.Executed, nil, "1", 1}, nil},
		{"driver panics", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = func(context.Context, contracts.Call) (executor.Result, error) { panic("ouch") }
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonToolPanic, contracts.Failed, helm.ErrWithheld, "", 1}, nil},
		{"driver calls runtime.Goexit", func(w *world) (helm.Decision, helm.Receipt) {
			w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
				runtime.Goexit()
				return executor.Result{}, nil
			}
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonToolPanic, contracts.Failed, helm.ErrWithheld, "", 1}, nil},
		{"storing the receipt failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.store.in(2)
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonReceiptNotStored, "", helm.ErrWithheld, "", 1}, sealed},
		{"signing the receipt failed", func(w *world) (helm.Decision, helm.Receipt) {
			w.key.in(2)
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonReceiptNotStored, "", helm.ErrWithheld, "", 1}, sealed},
		{"after Close", func(w *world) (helm.Decision, helm.Receipt) {
			if err := w.k.Close(); err != nil {
				w.t.Error(err)
			}
			return w.call("echo", `{}`)
		}, want{deny, contracts.ReasonKernelSealed, "", helm.ErrDenied, "", 0}, sealed},
		{"ctx ended before the decision", func(w *world) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			d, r := w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
			if !errors.Is(d.Err(), context.Canceled) {
				w.t.Errorf("error %v is not that of the context", d.Err())
			}
			return d, r
		}, want{deny, contracts.ReasonFailClosedError, contracts.Denied, helm.ErrDenied, "", 0}, nil},
		{"process died between permission and receipt", func(w *world) (helm.Decision, helm.Receipt) {
			w.store.in(2)
			w.call("echo", `{}`, func(in *helm.Intent) { in.Idempotency = "k" })
			w.runs.Store(0)
			w.open()
			return w.call("echo", `{}`, func(in *helm.Intent) { in.Idempotency = "k" })
		}, want{deny, contracts.ReasonOutcomeUnknown, contracts.Indeterminate, helm.ErrWithheld, "", 0}, nil},
		{"repeat of a key while the first runs", func(w *world) (helm.Decision, helm.Receipt) {
			started := make(chan struct{})
			w.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				close(started)
				time.Sleep(5 * time.Millisecond) // the second call comes to wait, or to find the result
				return executor.Result{Output: []byte("2")}, nil
			}
			key := func(in *helm.Intent) { in.Idempotency = "k" }
			first := make(chan helm.Receipt)
			go func() { _, r := w.call("slow", `{}`, key); first <- r }()
			<-started
			d, r := w.call("slow", `{}`, key)
			if f := <-first; f.Index != r.Index || string(f.Output) != string(r.Output) {
				w.t.Errorf("the repeat has receipt %d, the first %d", r.Index, f.Index)
			}
			return d, r
		}, want{allow, contracts.ReasonAllow, contracts.Executed, nil, "2", 1}, nil},
		{"repeat of a key, output not kept", func(w *world) (helm.Decision, helm.Receipt) {
			key := func(in *helm.Intent) { in.Idempotency = "k" }
			w.call("echo", `{}`, key)
			return w.call("echo", `{"n":1}`, key)
		}, want{deny, contracts.ReasonOutputNotKept, contracts.Executed, helm.ErrWithheld, "", 1}, nil},
		{"repeat of a key with other arguments", func(w *world) (helm.Decision, helm.Receipt) {
			key := func(in *helm.Intent) { in.Idempotency = "k" }
			w.call("echo", `{}`, key)
			return w.call("echo", `{"n":2}`, key)
		}, want{deny, contracts.ReasonIdempotencyConflict, contracts.Denied, helm.ErrDenied, "", 1}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			d, r := row.do(w)
			w.mustBe(d, r, row.want)
			if row.then != nil {
				row.then(w)
				w.store.failAt = 0
				w.open() // the next New settles what was open
			}
			if report := w.mustVerify(); len(report.Open) != 0 {
				t.Errorf("open decisions %v", report.Open)
			}
		})
	}
}

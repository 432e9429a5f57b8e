package calls

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
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// The outcome table of Guard, one case a row.
func TestOutcomeTable(t *testing.T) {
	t.Parallel()
	deny, allow := contracts.Deny, contracts.Allow
	ctx := context.Background()
	type row struct {
		name string
		do   func(w *kerneltest.World) (helm.Decision, helm.Receipt)
		want kerneltest.Want
		then func(w *kerneltest.World)
	}
	returns := func(output string, err error) func(context.Context, contracts.Call) (executor.Result, error) {
		return func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: []byte(output)}, err
		}
	}
	sealed := func(w *kerneltest.World) { w.MustBeSealed() }
	exhausted := func(reason contracts.ReasonCode) row {
		return row{string(reason), func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			return w.Call("unbound", `{}`, func(in *helm.Intent) {
				in.Driver = w.Sandboxed(kerneltest.Boxed("wasi"), returns("", &executor.LimitError{Reason: reason}))
			})
		}, kerneltest.Want{Verdict: deny, Reason: reason, Outcome: contracts.Failed, Err: helm.ErrWithheld, Runs: 1},
			nil}
	}
	rows := []row{
		{"allowed, ran, recorded",
			func(w *kerneltest.World) (helm.Decision, helm.Receipt) { return w.Call("echo", `{"text":"hi"}`) },
			kerneltest.Want{Verdict: allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed,
				Output: `{"n":1,"text":"hi"}`, Runs: 1}, nil},
		{"the tool returned an error", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = returns("", kerneltest.ErrTool)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: allow, Reason: contracts.ReasonToolError, Outcome: contracts.Failed,
			Err: kerneltest.ErrTool, Runs: 1}, nil},
		{"inadmissible",
			func(w *kerneltest.World) (helm.Decision, helm.Receipt) { return w.Call("echo", `{"text":"a secret"}`) },
			kerneltest.Want{Verdict: deny, Reason: contracts.ReasonPolicyViolation, Outcome: contracts.Denied,
				Err: helm.ErrDenied, Runs: 0}, nil},
		{"storing the denial failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Store.FailIn(1)
			return w.Call("echo", `{"text":"a secret"}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonPolicyViolation, Err: helm.ErrDenied, Runs: 0},
			sealed},
		{"signing the denial failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Key.FailIn(1)
			return w.Call("echo", `{"text":"a secret"}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonPolicyViolation, Err: helm.ErrDenied, Runs: 0},
			sealed},
		{"storing the permission failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Store.FailIn(1)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonFailClosedError, Err: helm.ErrDenied, Runs: 0},
			sealed},
		{"signing the permission failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Key.FailIn(1)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonFailClosedError, Err: helm.ErrDenied, Runs: 0},
			sealed},
		{"output breaks its pinned schema", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = returns(`{"ok":"yes"}`, nil)
			return w.Call("pinned", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonContractDrift, Outcome: contracts.Withheld,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"output is not JSON where a schema is pinned", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = returns(`{"ok":true`, nil)
			return w.Call("pinned", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonContractDrift, Outcome: contracts.Withheld,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"output over its size limit", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = returns(`"`+strings.Repeat("x", 1024)+`"`, nil)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonOutputExhausted, Outcome: contracts.Withheld,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		exhausted(contracts.ReasonGasExhausted),
		exhausted(contracts.ReasonTimeExhausted),
		exhausted(contracts.ReasonMemoryExhausted),
		{"a limit error of a driver without a sandbox is the tool's own",
			func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
				w.Tool = returns("", errors.Join(&executor.LimitError{Reason: contracts.ReasonGasExhausted},
					kerneltest.ErrTool))
				return w.Call("echo", `{}`)
			}, kerneltest.Want{Verdict: allow, Reason: contracts.ReasonToolError, Outcome: contracts.Failed,
				Err: kerneltest.ErrTool, Runs: 1}, nil},
		{"the time limit passed and the driver returned an error",
			func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
				w.Tool = func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
					<-ctx.Done()
					return executor.Result{}, ctx.Err()
				}
				return w.Call("slow", `{}`)
			}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonToolTimeout, Outcome: contracts.Indeterminate,
				Err: helm.ErrWithheld, Runs: 1}, nil},
		{"the time limit passed and the driver did not return",
			func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
				stop := make(chan struct{})
				w.T.Cleanup(func() { close(stop) })
				w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
					<-stop
					return executor.Result{}, nil
				}
				return w.Call("slow", `{}`)
			}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonToolTimeout, Outcome: contracts.Indeterminate,
				Err: helm.ErrWithheld, Runs: 1}, nil},
		{"the caller went away while the tool ran", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			w.Tool = func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
				cancel()
				<-ctx.Done()
				return executor.Result{}, ctx.Err()
			}
			return w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonToolCanceled, Outcome: contracts.Indeterminate,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"a nil error wins over an ended context", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
				cancel()
				return executor.Result{Output: []byte("1")}, nil
			}
			return w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
		}, kerneltest.Want{Verdict: allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed, Output: "1",
			Runs: 1}, nil},
		{"driver panics", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) { panic("ouch") }
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonToolPanic, Outcome: contracts.Failed,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"driver calls runtime.Goexit", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
				runtime.Goexit()
				return executor.Result{}, nil
			}
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonToolPanic, Outcome: contracts.Failed,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"storing the receipt failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Store.FailIn(2)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonReceiptNotStored, Err: helm.ErrWithheld, Runs: 1},
			sealed},
		{"signing the receipt failed", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Key.FailIn(2)
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonReceiptNotStored, Err: helm.ErrWithheld, Runs: 1},
			sealed},
		{"after Close", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			assert.NoError(w.T, w.Kernel.Close())
			return w.Call("echo", `{}`)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonKernelSealed, Err: helm.ErrDenied, Runs: 0}, sealed},
		{"ctx ended before the decision", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			d, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`)})
			assert.ErrorIs(w.T, d.Err(), context.Canceled)
			return d, r
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonFailClosedError, Outcome: contracts.Denied,
			Err: helm.ErrDenied, Runs: 0}, nil},
		{"process died between permission and receipt", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			w.Store.FailIn(2)
			w.Call("echo", `{}`, kerneltest.WithKey("k"))
			w.Runs.Store(0)
			w.Open()
			return w.Call("echo", `{}`, kerneltest.WithKey("k"))
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonOutcomeUnknown, Outcome: contracts.Indeterminate,
			Err: helm.ErrWithheld, Runs: 0}, nil},
		{"repeat of a key while the first runs", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			started := make(chan struct{})
			w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				close(started)
				time.Sleep(5 * time.Millisecond) // the second call comes to wait, or to find the result
				return executor.Result{Output: []byte("2")}, nil
			}
			key := kerneltest.WithKey("k")
			first := make(chan helm.Receipt)
			go func() { _, r := w.Call("slow", `{}`, key); first <- r }()
			<-started
			d, r := w.Call("slow", `{}`, key)
			f := <-first
			assert.Equal(w.T, r.Index, f.Index)
			assert.Equal(w.T, string(r.Output), string(f.Output))
			return d, r
		}, kerneltest.Want{Verdict: allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed, Output: "2",
			Runs: 1}, nil},
		{"repeat of a key, output not kept", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			key := kerneltest.WithKey("k")
			w.Call("echo", `{}`, key)
			return w.Call("echo", `{"n":1}`, key)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonOutputNotKept, Outcome: contracts.Executed,
			Err: helm.ErrWithheld, Runs: 1}, nil},
		{"repeat of a key with other arguments", func(w *kerneltest.World) (helm.Decision, helm.Receipt) {
			key := kerneltest.WithKey("k")
			w.Call("echo", `{}`, key)
			return w.Call("echo", `{"n":2}`, key)
		}, kerneltest.Want{Verdict: deny, Reason: contracts.ReasonIdempotencyConflict, Outcome: contracts.Denied,
			Err: helm.ErrDenied, Runs: 1}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := kerneltest.New(t)
			d, r := row.do(w)
			w.MustBe(d, r, row.want)
			if row.then != nil {
				row.then(w)
				w.Store.Heal()
				w.Open() // the next New settles what was open
			}
			report := w.MustVerify()
			assert.Empty(t, report.Open, "open decisions")
		})
	}
}

package gates

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// The outcome: an output is released only if it is as pinned, in time and recorded.

const outcomeBundle = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  work:
    effect: write
    input: {type: object}
    output: {type: object, required: [ok], additionalProperties: false,
      properties: {ok: {type: boolean}, note: {type: string, maxLength: 10}}}
    limits: {output: 1KiB}
  hurry:
    effect: write
    input: {type: object}
    limits: {timeout: 1s}
rules:
  - {id: all, allow: [work, hurry]}
`

// doing is a driver that does something of its own.
type doing struct {
	*kerneltest.World
	what kerneltest.Tool
}

func (d doing) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	d.Runs.Add(1)
	return d.what(ctx, c)
}

func gateOutcomes() gate {
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "work", Args: []byte(`{}`), Session: "s"}, []string{outcomeBundle})
		s.good.Driver = s.World
		s.Tool = kerneltest.Returns(`{"ok":true}`, nil)
		return s
	}
	ran := func(k kind, name string, reason contracts.ReasonCode, tool kerneltest.Tool) attack {
		return attack{kind: k, name: name, reason: reason, runs: 1, do: func(s *target, in helm.Intent) answer {
			in.Driver = doing{s.World, tool}
			return s.guard(in)
		}}
	}
	hurries := func(name string, tool func(s *target) kerneltest.Tool) attack {
		return attack{name: name, reason: contracts.ReasonToolTimeout, runs: 1,
			do: func(s *target, in helm.Intent) answer {
				in.Tool, in.Driver = "hurry", doing{s.World, tool(s)}
				return s.guard(in)
			}}
	}
	drifts := func(k kind, name, output string) attack {
		return ran(k, "an answer: "+name, contracts.ReasonContractDrift, kerneltest.Returns(output, nil))
	}
	stopped := func(reason contracts.ReasonCode) attack {
		return attack{name: "a sandbox stops the tool: " + string(reason), reason: reason, runs: 1,
			change: driver(func(s *target) executor.Driver {
				return s.Sandboxed(kerneltest.Boxed("wasi"), func(context.Context, contracts.Call) (executor.Result, error) {
					return executor.Result{Gas: 9}, &executor.LimitError{Reason: reason}
				})
			})}
	}
	unrecorded := func(name string, reason contracts.ReasonCode, runs int64, fail func(s *target)) attack {
		return attack{name: name, reason: reason, runs: runs, do: func(s *target, in helm.Intent) answer {
			fail(s)
			return s.guard(in)
		}}
	}
	keyed := kerneltest.WithKey("k")
	return gate{name: "the outcome", stage: stage, spared: map[kind]string{}, attacks: []attack{
		drifts(omitted, "a member that is required", `{}`),
		drifts(omitted, "all", ``),
		drifts(emptied, "nothing in it", ` `),
		drifts(null, "null", `null`),
		drifts(null, "a member that is null", `{"ok":null}`),
		drifts(retyped, "a text for a truth value", `{"ok":"true"}`),
		drifts(retyped, "a list", `[{"ok":true}]`),
		drifts(plain, "a member that nobody declared", `{"ok":true,"secret":1}`),
		drifts(plain, "a member in another spelling", `{"ok":true,"OK":false}`),
		drifts(plain, "a member twice", `{"ok":false,"ok":true}`),
		drifts(plain, "no JSON", `{"ok":true`),
		drifts(oversize, "a text that is too long", `{"ok":true,"note":"`+strings.Repeat("x", 11)+`"}`),
		ran(oversize, "an answer over its limit", contracts.ReasonOutputExhausted,
			kerneltest.Returns(`{"ok":true,"note":"`+strings.Repeat("x", 1024)+`"}`, nil)),
		ran(panicking, "the tool", contracts.ReasonToolPanic,
			func(context.Context, contracts.Call) (executor.Result, error) { panic("ouch") }),
		ran(panicking, "the tool ends its goroutine", contracts.ReasonToolPanic,
			func(context.Context, contracts.Call) (executor.Result, error) {
				runtime.Goexit()
				return executor.Result{}, nil
			}),
		ran(plain, "the tool fails", contracts.ReasonToolError, kerneltest.Returns(`{"ok":true}`, kerneltest.ErrTool)),
		ran(plain, "the tool fails, and says that a sandbox stopped it", contracts.ReasonToolError,
			kerneltest.NoOutput(errors.Join(kerneltest.ErrTool,
				&executor.LimitError{Reason: contracts.ReasonGasExhausted}))),
		hurries("the tool waits until its time is over", func(*target) kerneltest.Tool {
			return func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
				<-ctx.Done()
				return executor.Result{}, ctx.Err()
			}
		}),
		hurries("the tool does not come back", func(s *target) kerneltest.Tool {
			stop := make(chan struct{})
			s.T.Cleanup(func() { close(stop) })
			return func(context.Context, contracts.Call) (executor.Result, error) {
				<-stop
				return executor.Result{}, nil
			}
		}),
		{name: "the caller goes away", reason: contracts.ReasonToolCanceled, runs: 1,
			do: func(s *target, in helm.Intent) answer {
				ctx, cancel := context.WithCancel(context.Background())
				in.Driver = doing{s.World, func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
					cancel()
					<-ctx.Done()
					return executor.Result{}, ctx.Err()
				}}
				return answered(s.Kernel.Guard(ctx, in))
			}},
		stopped(contracts.ReasonGasExhausted), stopped(contracts.ReasonTimeExhausted),
		stopped(contracts.ReasonMemoryExhausted), stopped(contracts.ReasonOutputExhausted),

		unrecorded("the receipt cannot be stored", contracts.ReasonReceiptNotStored, 1,
			func(s *target) { s.Store.FailIn(2) }),
		unrecorded("the receipt cannot be signed", contracts.ReasonReceiptNotStored, 1,
			func(s *target) { s.Key.FailIn(2) }),
		{kind: replayed, name: "a call that was permitted before the process died",
			reason: contracts.ReasonOutcomeUnknown, do: func(s *target, in helm.Intent) answer {
				keyed(&in)
				s.Store.FailIn(2)
				s.guard(in)
				s.Runs.Store(0)
				s.Store.Heal()
				s.Open()
				return s.guard(in)
			}},
		{kind: replayed, name: "a call whose output was not kept", reason: contracts.ReasonOutputNotKept,
			do: func(s *target, in helm.Intent) answer {
				s.admit(keyed)
				keyed(&in)
				return s.guard(in)
			}},
		{kind: elsewhere, name: "the output of a store that lies", reason: contracts.ReasonOutputNotKept,
			do: func(s *target, in helm.Intent) answer {
				s.Options.Keep.Outputs = true
				s.Reopen()
				s.admit(keyed)
				keyed(&in)
				honest := s.Store.Store
				s.Store.Store = kerneltest.LyingStore{Store: honest}
				defer func() { s.Store.Store = honest }()
				return s.guard(in)
			}},
		{kind: raced, name: "ten repeats of a call whose output was not kept", reason: contracts.ReasonOutputNotKept,
			do: func(s *target, in helm.Intent) answer {
				s.admit(keyed)
				return s.race(in, 10, 0, func(_ int, in *helm.Intent) { keyed(in) })
			}},
	}}
}

package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// Limits are those of one run.
type Limits struct {
	Timeout time.Duration
	Output  int                       // bytes of the output, as returned and in canonical form
	Check   func(v crypto.Value) bool // the tool's pinned response schema; nil where it has none
}

// Outcome is what became of a run. Reason is ALLOW or one with which a run ends, but for FAIL_CLOSED_ERROR: then nothing was called.
type Outcome struct {
	Reason  contracts.ReasonCode
	Output  []byte                // with ALLOW and with ERR_CONNECTOR_CONTRACT_DRIFT, which releases nothing: canonical JSON, or bytes as returned
	Form    string                // of Output: "jcs" or "raw"
	Err     error                 // with TOOL_ERROR the tool's own, as it is; with others what happened, in words of this package
	Sandbox *contracts.SandboxUse // of a Sandboxed driver that returned: its gas. Module and profile are those that were judged
}

// run is a permitted call, and then its run.
type run struct {
	permit    Permit
	spent     atomic.Bool
	call      contracts.Call
	roles     [4]string // room for those of most callers
	driver    Driver
	sandboxed bool
	ctx       leash
	late      func(Result, error)
	phase     atomic.Uint32
	over      chan struct{} // closed by whoever leaves the phase running: the driver's goroutine at its end, or the clock

	// Written by the driver's goroutine before it leaves the phase running.
	result   Result
	err      error
	reason   contracts.ReasonCode // "" where the driver returned no error
	returned bool
}

const (
	running = iota
	ended
	abandoned
)

// grace is what a driver has from the end of its time limit to return, if only then it learned that its context has ended. Without it no
// driver could heed a limit: each would be abandoned in the moment in which it is told.
const grace = 100 * time.Millisecond

// Run calls the driver, once for each permit, and tells what became of it. It returns when the driver does, and at the latest a tenth of a
// second after the time limit: a driver that is still running then ignores its context, and is abandoned. late, if it is not nil, gets what
// an abandoned driver returns after all; it is called on the driver's goroutine.
func Run(ctx context.Context, p *Permit, d Driver, l Limits, late func(Result, error)) Outcome {
	switch {
	case p == nil || p.run == nil:
		return refuse("there is no permit")
	case !runs(d):
		return Outcome{Reason: contracts.ReasonFailClosedError, Err: errNoDriver}
	case !p.run.spent.CompareAndSwap(false, true):
		return refuse("the permit was used before")
	}
	r := p.run
	if ctx == nil {
		ctx = context.Background()
	}
	r.driver, r.late, r.over = d, late, make(chan struct{})
	_, r.sandboxed = d.(Sandboxed)
	r.ctx.caller = ctx
	r.ctx.deadline = time.Now().Add(l.Timeout) // for the driver to see; nothing that is recorded depends on it
	if !r.await(callersDone(ctx), l.Timeout) {
		return ending(r.ctx.Err())
	}
	r.ctx.end(context.Canceled)
	return r.outcome(l)
}

func refuse(what string) Outcome {
	return Outcome{Reason: contracts.ReasonFailClosedError, Err: errors.New("executor: run: " + what)}
}

// await starts the driver and waits for its end. It is false where the driver was abandoned.
func (r *run) await(gone <-chan struct{}, limit time.Duration) bool {
	timer := time.AfterFunc(limit, r.timeout)
	defer timer.Stop()
	go r.drive()
	for {
		select {
		case <-r.over:
			return r.phase.Load() == ended
		case <-gone: // the driver is told, and has until its limit to end; it may yet return without error
			r.ctx.end(context.Canceled)
			gone = nil
		}
	}
}

// timeout is the end of the time limit.
func (r *run) timeout() {
	if r.ctx.end(context.DeadlineExceeded) {
		time.AfterFunc(grace, r.abandon)
		return
	}
	r.abandon()
}

func (r *run) abandon() {
	if r.phase.CompareAndSwap(running, abandoned) {
		close(r.over)
	}
}

// drive is the goroutine of the driver.
func (r *run) drive() {
	defer r.leave()
	defer func() {
		if !r.returned {
			r.panicked(recover())
		}
	}()
	result, err := r.driver.Run(&r.ctx, r.call)
	r.result, r.err = result, err
	if err != nil {
		r.reason = r.failed(err)
	}
	r.returned = true
}

// leave runs on every way out of the driver's goroutine.
func (r *run) leave() {
	if r.phase.CompareAndSwap(running, ended) {
		close(r.over)
		return
	}
	if r.late != nil {
		defer contain.Drop()
		r.late(r.result, r.err)
	}
}

// failed is the reason of an error that the driver returned. What a sandbox says of itself is certain, whatever its context says. Else, once
// the context has ended, nobody knows what the tool had done by then.
func (r *run) failed(err error) contracts.ReasonCode {
	if r.sandboxed {
		if reason := limitOf(err); reason != "" {
			return reason
		}
	}
	if end := r.ctx.over(); end != nil {
		return ending(end).Reason
	}
	return contracts.ReasonToolError
}

// ending is the outcome of a run of which nothing is known but how its context ended.
func ending(err error) Outcome {
	if err == context.DeadlineExceeded {
		return Outcome{Reason: contracts.ReasonToolTimeout, Err: err}
	}
	return Outcome{Reason: contracts.ReasonToolCanceled, Err: context.Canceled}
}

// outcome is that of a driver that ended.
func (r *run) outcome(l Limits) (o Outcome) {
	switch r.reason {
	case "":
		o = release(r.result.Output, l)
	case contracts.ReasonToolTimeout:
		o = ending(context.DeadlineExceeded)
	case contracts.ReasonToolCanceled:
		o = ending(context.Canceled)
	case contracts.ReasonToolError, contracts.ReasonToolPanic:
		o = Outcome{Reason: r.reason, Err: r.err}
	default:
		o = Outcome{Reason: r.reason, Err: LimitError{r.reason}}
	}
	if r.sandboxed && r.returned {
		o.Sandbox = &contracts.SandboxUse{Gas: min(r.result.Gas, crypto.MaxInt)}
	}
	return o
}

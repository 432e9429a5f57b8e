package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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
	leash
	permit    Permit
	spent     atomic.Bool
	call      contracts.Call
	driver    Driver
	sandboxed bool
	late      func(Result, error)
	watch     *watch
	phase     atomic.Uint32

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

// A watch is what Run waits with. It is reused.
type watch struct {
	timer *time.Timer
	ended chan struct{} // one is sent by the driver's goroutine, unless it was abandoned
}

var watches = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &watch{t, make(chan struct{}, 1)}
}}

// Run calls the driver, once for each permit, and tells what became of it. It returns when the driver does, and at the latest when the time
// limit is over: a driver that is still running then is abandoned. late, if it is not nil, gets what an abandoned driver returns after all;
// it is called on the driver's goroutine.
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
	r.caller, r.driver, r.late = ctx, d, late
	_, r.sandboxed = d.(Sandboxed)
	gone := callersDone(ctx)
	r.watch = watches.Get().(*watch)
	r.deadline = time.Now().Add(l.Timeout) // for the driver to see; nothing that is recorded depends on it
	r.watch.timer.Reset(l.Timeout)
	go r.drive()
	returned := r.await(gone)
	r.watch.timer.Stop()
	watches.Put(r.watch)
	if !returned {
		return ending(r.Err())
	}
	r.end(context.Canceled)
	return r.outcome(l)
}

func refuse(what string) Outcome {
	return Outcome{Reason: contracts.ReasonFailClosedError, Err: errors.New("executor: run: " + what)}
}

// await is false where the driver was abandoned.
func (r *run) await(gone <-chan struct{}) bool {
	for {
		select {
		case <-r.watch.ended:
			return true
		case <-gone: // the driver is told, and has until its limit to end; it may yet return without error
			r.end(context.Canceled)
			gone = nil
		case at := <-r.watch.timer.C:
			if at.Before(r.deadline) { // of an earlier run: GODEBUG=asynctimerchan=1 leaves such behind
				continue
			}
			r.end(context.DeadlineExceeded)
			if r.phase.CompareAndSwap(running, abandoned) {
				return false
			}
			<-r.watch.ended // it ended at this moment
			return true
		}
	}
}

// drive is the goroutine of the driver.
func (r *run) drive() {
	defer r.over()
	defer func() {
		if !r.returned {
			r.panicked(recover())
		}
	}()
	result, err := r.driver.Run(&r.leash, r.call)
	r.result, r.err = result, err
	if err != nil {
		r.reason = r.failed(err)
	}
	r.returned = true
}

// over runs on every way out of the driver's goroutine.
func (r *run) over() {
	if r.phase.CompareAndSwap(running, ended) {
		r.watch.ended <- struct{}{}
		return
	}
	if r.late != nil {
		defer func() { _ = recover() }()
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
	switch end := r.Err(); {
	case end != nil:
		return ending(end).Reason
	case callerEnded(r.caller): // the driver saw it before await did
		return contracts.ReasonToolCanceled
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

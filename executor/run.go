package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
)

// Limits are the limits of one run.
type Limits struct {
	Timeout time.Duration
	Output  int                       // bytes of the output, both as returned and in canonical form
	Check   func(v crypto.Value) bool // the tool's pinned response schema; nil if it has none
}

// An Outcome is how a run ended. Reason is ALLOW or a reason of a run that ended, or it is
// FAIL_CLOSED_ERROR: then nothing was called.
type Outcome struct {
	Reason contracts.ReasonCode

	// Output is not nil with ALLOW, with TOOL_ERROR if the driver returned an output and called it
	// failed, and with ERR_CONNECTOR_CONTRACT_DRIFT, which releases nothing. It is canonical JSON,
	// or bytes as the driver returned them.
	Output []byte
	Form   string // of Output: "jcs" or "raw"

	// Err is the tool's own error with TOOL_ERROR. With another reason it is an error of this
	// package.
	Err error

	// Gas is what a Sandboxed driver used, if it returned.
	Gas uint64

	// Late is nil unless the driver was abandoned. Call it once, with a function to be called with
	// what the driver returns after all: on the driver's goroutine, or at once if it has ended.
	Late func(f func(Result, error))
}

// A run is a permitted call, and then its run.
type run struct {
	permit Permit
	spent  atomic.Bool
	call   contracts.Call
	roles  [4]string // memory for the roles of most callers
	driver Driver
	cell   *cell.Cell // what runs in place of the driver; nil: the driver does
	ctx    runContext
	late   func(Result, error)
	phase  atomic.Uint32
	done   chan struct{} // closed when phase is no longer running, by the driver's goroutine or the clock

	// Written by the driver's goroutine before it leaves the phase running.
	result   Result
	err      error
	reason   contracts.ReasonCode // "" if the driver returned no error
	returned bool
}

const (
	running   = iota
	ended     // in time
	abandoned // and runs on
	awaited   // abandoned, and late is to be called
	over      // abandoned, and it has ended
)

// grace is how long a driver has after its time limit to return. Without it no driver could heed a
// limit: each would be abandoned at the moment at which its context ends.
const grace = 100 * time.Millisecond

// Run calls the driver, once for each permit, and returns how that ended. It returns when the
// driver does, and at the latest a tenth of a second after the time limit: a driver that is still
// running then ignores its context, and is abandoned. Go cannot stop it.
//
// Of a [Sandboxed] driver the cell runs. If the cell is not that driver's own, nothing runs.
func Run(ctx context.Context, p *Permit, d Driver, l Limits) Outcome {
	if !runnable(d) {
		return Outcome{Reason: contracts.ReasonFailClosedError, Err: errNoDriver}
	}
	return start(ctx, p, d, nil, l)
}

// RunCell is like [Run] but runs a cell that was taken from its driver before, when the call was
// judged by it.
func RunCell(ctx context.Context, p *Permit, c *cell.Cell, l Limits) Outcome {
	if c == nil || *c == (cell.Cell{}) {
		return Outcome{Reason: contracts.ReasonFailClosedError, Err: errNoDriver}
	}
	return start(ctx, p, nil, c, l)
}

func start(ctx context.Context, p *Permit, d Driver, c *cell.Cell, l Limits) Outcome {
	switch {
	case p == nil || p.run == nil:
		return refuse("there is no permit")
	case !p.run.spent.CompareAndSwap(false, true):
		return refuse("the permit was used before")
	}
	r := p.run
	if ctx == nil {
		ctx = context.Background()
	}
	r.driver, r.cell, r.done = d, c, make(chan struct{})
	r.ctx.caller = ctx
	r.ctx.deadline = time.Now().Add(l.Timeout) // for the driver to see; nothing that is recorded depends on it
	if !r.await(callersDone(ctx), l.Timeout) {
		o := ending(r.ctx.Err())
		o.Late = r.awaitLate
		return o
	}
	r.ctx.end(context.Canceled)
	return r.outcome(l)
}

func refuse(what string) Outcome {
	return Outcome{Reason: contracts.ReasonFailClosedError, Err: errors.New("executor: run: " + what)}
}

// await starts the driver and waits for its end. It returns false if the driver was abandoned.
func (r *run) await(gone <-chan struct{}, limit time.Duration) bool {
	timer := time.AfterFunc(limit, r.timeout)
	defer timer.Stop()
	go r.drive()
	for {
		select {
		case <-r.done:
			return r.phase.Load() == ended
		case <-gone: // the driver has until its limit to end, and may yet return without error
			r.ctx.end(context.Canceled)
			gone = nil
		}
	}
}

// timeout is called at the end of the time limit.
func (r *run) timeout() {
	if r.ctx.end(context.DeadlineExceeded) {
		time.AfterFunc(grace, r.abandon)
		return
	}
	r.abandon()
}

func (r *run) abandon() {
	if r.phase.CompareAndSwap(running, abandoned) {
		close(r.done)
	}
}

// drive is the goroutine of the driver.
func (r *run) drive() {
	defer r.leave()
	defer func() {
		if !r.returned {
			r.recordPanic(recover())
		}
	}()
	result, err := r.run()
	r.result, r.err = result, err
	if fault, ok := err.(contain.Fault); ok {
		r.recordPanic(fault)
	} else if err != nil {
		r.reason = r.reasonFor(err)
	}
	r.returned = true
}

// run calls the cell, or a driver that has none.
func (r *run) run() (Result, error) {
	if d, ok := r.driver.(Sandboxed); ok {
		if r.cell = cell.Take(d.Cell(), d); r.cell == nil {
			return Result{}, errNoCell
		}
	}
	if r.cell != nil {
		return cell.Run(&r.ctx, r.cell, r.call)
	}
	return r.driver.Run(&r.ctx, r.call)
}

// leave is called on every way out of the driver's goroutine.
func (r *run) leave() {
	if r.phase.CompareAndSwap(running, ended) {
		close(r.done)
		return
	}
	if !r.phase.CompareAndSwap(abandoned, over) {
		r.tell()
	}
}

// awaitLate is Outcome.Late.
func (r *run) awaitLate(f func(Result, error)) {
	r.late = f
	if !r.phase.CompareAndSwap(abandoned, awaited) {
		r.tell()
	}
}

func (r *run) tell() {
	defer contain.Drop()
	r.late(r.result, r.err)
}

// reasonFor returns the reason for an error that the driver returned. A limit that a sandbox
// reports is certain, whether the context has ended or not. Otherwise, once the context has ended,
// it is unknown how much the tool had done by then.
func (r *run) reasonFor(err error) contracts.ReasonCode {
	if err == errNoCell {
		return contracts.ReasonFailClosedError
	}
	if r.cell != nil && cell.Declared(r.cell).Grants != nil {
		if reason := limitOf(err); reason != "" {
			return reason
		}
	}
	if end := r.ctx.endedBy(); end != nil {
		return ending(end).Reason
	}
	return contracts.ReasonToolError
}

// ending returns the outcome of a run of which only the end of its context is known.
func ending(err error) Outcome {
	if err == context.DeadlineExceeded {
		return Outcome{Reason: contracts.ReasonToolTimeout, Err: err}
	}
	return Outcome{Reason: contracts.ReasonToolCanceled, Err: context.Canceled}
}

// outcome returns the outcome of a driver that ended.
func (r *run) outcome(l Limits) (o Outcome) {
	switch r.reason {
	case "":
		o = release(&r.result, l)
	case contracts.ReasonToolTimeout:
		o = ending(context.DeadlineExceeded)
	case contracts.ReasonToolCanceled:
		o = ending(context.Canceled)
	case contracts.ReasonToolError, contracts.ReasonToolPanic, contracts.ReasonFailClosedError:
		o = Outcome{Reason: r.reason, Err: r.err}
	default:
		o = Outcome{Reason: r.reason, Err: LimitError{r.reason}}
	}
	if r.cell != nil && r.returned {
		o.Gas = r.result.Gas
	}
	return o
}

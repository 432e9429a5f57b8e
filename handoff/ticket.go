package handoff

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
)

// A Ticket is the permission to run one call once, and the place to report what became of it. Its
// methods may be called from many goroutines. The nil Ticket permits nothing.
type Ticket struct {
	desk     *Desk
	retry    *retry                      // nil: no request repeats it
	unwanted []func(session string) bool // sessions that were dropped before it opened

	opened chan struct{} // closed when the call may run
	report chan Outcome
	ending atomic.Uint32 // what ends it
	ctx    held

	// Written before opened is closed.
	id     string
	record contracts.DecisionRecord
	call   contracts.Call

	done     chan struct{} // closed when the last word is known
	decision helm.Decision
	receipt  helm.Receipt
	settled  time.Time // protected by the lock of the desk
}

// What ends a ticket: the first of these.
const (
	unended = iota
	reported
	dropped
	expired
)

// An Outcome is what became of a call that was handed over.
type Outcome struct {
	// Output is JSON, or any other bytes. Empty means no output.
	Output []byte

	// Raw means that Output is text, which is never read as JSON, so that 1.10 stays 1.10.
	Raw bool

	// Failed means that the tool failed, and that Output is what the model is to read of it.
	Failed bool

	// Err is the tool's own error, if it has no words for the model. Output does not count then.
	Err error
}

func newTicket(d *Desk) *Ticket {
	return &Ticket{
		desk: d, opened: make(chan struct{}), report: make(chan Outcome, 1), done: make(chan struct{}),
		ctx: held{over: make(chan struct{})},
	}
}

// begin has the kernel judge the call, on a goroutine that ends with the ticket.
func (t *Ticket) begin(ctx context.Context, in helm.Intent, definition contracts.Digest) {
	foreign := in.Driver != nil
	in.Driver = newDriver(t, definition, foreign)
	t.ctx.Context = ctx
	go func() {
		defer func() {
			if t.desk.settle(t) {
				t.desk.watch.settled(t.receipt.Record.Outcome)
			}
			close(t.done)
		}()
		t.decision, t.receipt = t.desk.kernel.Guard(&t.ctx, in)
		if foreign && t.decision.Reason == contracts.ReasonDriverNotBound {
			t.decision.Why = "handoff: in.Driver must be nil: the call runs elsewhere"
		}
	}()
}

// await waits until the call that another Begin has begun opens or ends. It reports false if ctx
// ended first, as a context does whose methods panic.
func (t *Ticket) await(ctx context.Context) (ready bool) {
	defer contain.Value(&ready, false)
	select {
	case <-t.opened:
	case <-t.done:
	case <-ctx.Done():
		return false
	}
	return true
}

// answer waits for what Begin returns, and reports whether that is the ticket.
func (t *Ticket) answer() (helm.Decision, helm.Receipt, bool) {
	select {
	case <-t.opened:
	case <-t.done:
	}
	select {
	case <-t.opened:
		return helm.Decision{
			Reason: contracts.ReasonOutcomeUnknown, Why: "handoff: the outcome has not been reported yet",
			Record: t.record,
		}, helm.Receipt{}, true
	default:
		return t.decision, t.receipt, false
	}
}

// run is what the kernel runs: it waits for the outcome.
func (t *Ticket) run(ctx context.Context, call contracts.Call) (executor.Result, error) {
	sealed, err := new(contracts.Reader).Open(call.Permit.Decision)
	if err != nil {
		return executor.Result{}, errPermit
	}
	st, err := sealed.Statement()
	if err != nil || st.Decision == nil {
		return executor.Result{}, errPermit
	}
	if t.desk.open(t, call.Permit.Decision.Hash().String(), *st.Decision, call) {
		t.desk.watch.opened()
		close(t.opened)
	} else {
		t.end(dropped) // nobody was told of the permission
	}
	select {
	case o := <-t.report:
		return o.result()
	case <-ctx.Done():
	}
	if t.ending.CompareAndSwap(unended, expired) || t.ending.Load() != reported {
		return executor.Result{}, ctx.Err()
	}
	o := <-t.report // which came first
	return o.result()
}

func (w *Watch) opened() {
	if w.Opened != nil {
		defer contain.Drop()
		w.Opened()
	}
}

func (w *Watch) settled(o contracts.Outcome) {
	if w.Settled != nil {
		defer contain.Drop()
		w.Settled(o)
	}
}

// errPermit is no error of the tool, which has not run.
const errPermit = contain.Fault("handoff: the permission cannot be read")

func (o *Outcome) result() (executor.Result, error) {
	if o.Err != nil {
		return executor.Result{}, o.Err
	}
	return executor.Result{Output: o.Output, Raw: o.Raw, Failed: o.Failed}, nil
}

// ID returns the hash of the signed ALLOW, 64 characters in hex. It is no secret.
func (t *Ticket) ID() string {
	if t == nil {
		return ""
	}
	return t.id
}

// Call returns what the other side is to run: the canonical arguments that were judged, and the
// permit. It must not be changed.
func (t *Ticket) Call() contracts.Call {
	if t == nil {
		return contracts.Call{}
	}
	return t.call
}

// Done returns a channel that is closed when the last word is known.
func (t *Ticket) Done() <-chan struct{} {
	if t == nil {
		return closed
	}
	return t.done
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Settle reports what became of the call, waits until it is recorded, and returns the last word. It
// reports whether this report is the one that was recorded: the first to settle, to drop or to run
// out of time decides, and all get the same last word, which must not be changed.
//
// An output that the tool's pinned schema or its limits refuse is recorded as WITHHELD: then
// Receipt.Output is nil, and what was reported must not be used.
func (t *Ticket) Settle(o Outcome) (helm.Decision, helm.Receipt, bool) {
	if t == nil {
		return helm.Decision{}, helm.Receipt{}, false
	}
	mine := t.ending.CompareAndSwap(unended, reported)
	if mine {
		t.report <- o
	}
	<-t.done
	return t.decision, t.receipt, mine && heard(t.receipt)
}

// heard reports whether a receipt is of what was reported. A report that came at the very end of
// the time limit may have been too late.
func heard(r helm.Receipt) bool {
	switch r.Record.Reason {
	case contracts.ReasonToolTimeout, contracts.ReasonToolCanceled, contracts.ReasonToolPanic:
		return false
	}
	return r.Entry != nil
}

// Drop says that nobody will report, and waits until that is recorded: INDETERMINATE TOOL_CANCELED.
// Charges stay. A permission that never reached who was to use it is dropped, too.
func (t *Ticket) Drop() (helm.Decision, helm.Receipt) {
	if t == nil {
		return helm.Decision{}, helm.Receipt{}
	}
	t.end(dropped)
	<-t.done
	return t.decision, t.receipt
}

func (t *Ticket) end(how uint32) {
	if t.ending.CompareAndSwap(unended, how) {
		close(t.ctx.over)
	}
}

// size returns about how many bytes a settled ticket holds.
func (t *Ticket) size() int {
	return 4<<10 + len(t.call.Args) + len(t.call.Permit.Decision) + len(t.receipt.Entry) + len(t.receipt.Output)
}

// A driver is bound to one call, whose cell waits for the outcome.
type driver struct {
	ticket     *Ticket
	cell       *cell.Cell // nil: the driver counts as none
	definition contracts.Digest
}

var (
	_ executor.Sandboxed = (*driver)(nil)
	_ executor.Defined   = (*driver)(nil)
)

// newDriver returns the driver of a ticket or, for a call that brings one of its own, one that is
// never run.
func newDriver(t *Ticket, definition contracts.Digest, foreign bool) *driver {
	d := &driver{ticket: t, definition: definition}
	if !foreign {
		info := contracts.SandboxInfo{Profile: Profile, Module: definition}
		d.cell = cell.New(d, info, nil, t.run)
	}
	return d
}

// Cell is called once a call, just before it is judged.
func (d *driver) Cell() *cell.Cell {
	d.ticket.ctx.held.Store(true)
	return d.cell
}

func (d *driver) Definition() contracts.Digest { return d.definition }

// Run is never called by a kernel, which runs the cell.
func (d *driver) Run(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{}, errPermit
}

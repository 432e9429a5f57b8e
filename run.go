package helm

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
)

// perform runs a call whose permission was signed, if that becomes durable, and records what became of it. Whatever happens, panics and the
// end of the goroutine included, the session and those who wait for this call are told; and a call without a receipt has sealed the kernel.
func (c *call) perform(a *answer, d Decision) (last Decision, r Receipt) {
	last = d
	last.Verdict, last.Reason, last.cause = contracts.Deny, contracts.ReasonFailClosedError, a.err
	if !a.started {
		return last, r
	}
	defer func() {
		if x := recover(); x != nil {
			last.cause = panicked("recording the call", x)
		}
		if r.Entry == nil {
			c.log.Seal(errUnrecorded)
		}
		a.session.finish(a, c.inputs.Idempotency, last, r)
	}()
	if last.cause = c.commit(a.slot); last.cause != nil {
		return last, r
	}
	last.Reason = contracts.ReasonReceiptNotStored
	ended := c.run(a)
	slot, receipt, err := c.conclude(a, &ended)
	if err == nil {
		err = slot.Wait()
	}
	if err != nil {
		c.log.Seal(err)
		last.cause = err
		return last, r
	}
	last.Verdict, last.Reason, last.cause = receipt.Verdict, receipt.Reason, ended.Err
	r = Receipt{Record: *receipt, Entry: slot.Entry(), Index: slot.Index()}
	switch receipt.Reason {
	case contracts.ReasonAllow:
		r.Output = ended.Output
	case contracts.ReasonToolError:
		last.own, last.cause = foreign(ended.Err), nil
	case contracts.ReasonOutputExhausted:
		last.Why = fmt.Sprintf("output: longer than the tool's limit of %d bytes", a.limits.Output)
	case contracts.ReasonToolTimeout:
		last.Why = fmt.Sprintf("the tool's time limit of %v is over", a.limits.Timeout)
	case contracts.ReasonContractDrift:
		if last.Why = a.drift.String(); last.Why == "" {
			last.Why = "output: not the JSON that its pinned schema is of"
		}
	}
	return last, r
}

// run makes the permit of a durable permission and spends it.
func (c *call) run(a *answer) (o executor.Outcome) {
	defer func() {
		if x := recover(); x != nil { // not the driver's, which the executor contains
			o = executor.Outcome{Reason: contracts.ReasonToolPanic, Err: panicked("running the tool", x)}
		}
		if o.Reason == contracts.ReasonFailClosedError { // the executor called nothing: a fault of ours, of which the log must not say less
			o.Reason = contracts.ReasonToolPanic
		}
	}()
	in := &c.inputs
	permit, err := executor.Admit(a.slot, contracts.Call{Tool: in.Tool, Args: c.args, Session: in.Session, Caller: in.Caller})
	if err != nil {
		return executor.Outcome{Reason: contracts.ReasonToolPanic, Err: err}
	}
	a.limits, _ = c.policy.Limits(in.Tool)
	ctx := c.drive(a.session, contracts.Ref{Index: a.slot.Index(), Hash: a.slot.Hash()})
	a.call = &ctx.call
	l := executor.Limits{Timeout: a.limits.Timeout, Output: a.limits.Output}
	if c.policy.HasOutput(in.Tool) {
		policy, tool := c.policy, in.Tool
		l.Check = func(output crypto.Value) bool {
			why, ok := policy.CheckOutput(tool, output)
			a.drift = why
			return ok
		}
	}
	o = executor.Run(ctx, permit, c.driver, l, c.late(a))
	if o.Sandbox != nil && in.Sandbox != nil {
		o.Sandbox.Module, o.Sandbox.Profile = in.Sandbox.Module, in.Sandbox.Profile
	}
	return o
}

// late tells the observer that an abandoned driver ended after all.
func (c *call) late(a *answer) func(executor.Result, error) {
	if c.options.Observe == nil {
		return nil
	}
	k, e := c.Kernel, Event{Tool: c.inputs.Tool, Session: c.inputs.Session, ID: a.record.ID, Late: true}
	return func(executor.Result, error) { k.observe(context.Background(), e) }
}

// conclude signs the receipt of a run, under its session's lock.
func (c *call) conclude(a *answer, o *executor.Outcome) (*proofgraph.Slot, *contracts.Receipt, error) {
	receipt, err := receipts.Build(&a.record, a.slot.Hash(), receipts.Result{Reason: o.Reason, Output: o.Output, Form: o.Form, Sandbox: o.Sandbox,
		Refunds: c.refunds(a, o.Reason)})
	if err != nil {
		return nil, nil, err
	}
	var blobs [][]byte
	if c.options.Keep.Outputs && receipt.OutputHash != nil {
		blobs = [][]byte{o.Output}
	}
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	slot, err := c.record(a.session, &contracts.Statement{Receipt: receipt}, []contracts.Digest{a.slot.Hash()}, c.giveBack(a.record.Charges, receipt), blobs...)
	if err == nil && receipt.Outcome == contracts.Executed {
		for _, pointers := range c.current().Compared(receipt.Tool) {
			a.session.past.Watch(receipt.Tool, pointers)
		}
		a.session.executed(past.Run{Tool: receipt.Tool, Decision: a.slot.Index(), Receipt: slot.Index(), Entry: slot.Hash(), Time: slot.Header().Time}, c.inputs.Args)
	}
	return slot, receipt, err
}

// clock is the time of a session's next entry. A clock that fails stands still: what has happened must be recorded.
func (k *Kernel) clock(s *session) contracts.Time {
	at := s.chain.Time()
	if now, err := k.now(); err == nil {
		at = max(now, at)
	}
	return at
}

// record signs the next entry of a session whose lock the caller holds.
// Where under is not nil it is called with the place taken, and no other can be.
func (k *Kernel) record(s *session, st *contracts.Statement, parents []contracts.Digest, under func(uint64) error, blobs ...[]byte) (*proofgraph.Slot, error) {
	slot, err := k.log.Place(s.chain, k.clock(s), parents, under)
	if err != nil {
		return nil, err
	}
	defer slot.Void(errUnsigned)
	if st.Close != nil {
		h := slot.Header()
		st.Close.Count, st.Close.Last = h.Seq, h.Prev
	}
	return slot, slot.Sign(st, blobs...)
}

// over tells whether a channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// contextError is the error of a context that has ended, whose methods may panic.
func contextError(ctx context.Context) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked("the context", x)
		}
	}()
	if err = ctx.Err(); err == nil {
		err = errors.New("the context ended")
	}
	return err
}

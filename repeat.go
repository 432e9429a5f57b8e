package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/receipts"
)

// start counts a permitted call in, and binds its key. The caller holds mu.
func (s *session) start(in *contracts.Inputs, decision uint64) *flight {
	s.running++
	if in.Idempotency == "" {
		return nil
	}
	if s.keys == nil {
		s.keys = map[string]*once{}
	}
	f := &flight{done: make(chan struct{})}
	caller := in.Caller
	caller.Roles = slices.Clone(caller.Roles) // the record's are handed out
	s.keys[in.Idempotency] = &once{caller: caller, tool: in.Tool, args: in.ArgsHash, decision: decision, flight: f}
	return f
}

// finish counts it out, and tells those who wait for it what became of it. A permission that never became durable bound nothing, but then
// the kernel is sealed.
func (s *session) finish(f *flight, key string, receipt uint64, d Decision, r Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f != nil {
		f.decision, f.receipt = d, r
		close(f.done)
		if o := s.keys[key]; o != nil {
			o.receipt, o.flight = receipt, nil
		}
	}
	s.running--
	if s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// repeat gives the first outcome of an idempotency key to a call that is the same, and writes nothing.
func (c *call) repeat(a *answer) (Decision, Receipt) {
	if a.flight == nil {
		return c.recall(a.first)
	}
	if c.outer.holds(a.session, c.inputs.Idempotency) { // it would wait for itself
		return Decision{Reason: contracts.ReasonIdempotencyConflict, Why: "idempotency: the key of the call that this one is made from"}, Receipt{}
	}
	select {
	case <-a.flight.done:
		r := a.flight.receipt
		r.Entry, r.Output = bytes.Clone(r.Entry), bytes.Clone(r.Output)
		return a.flight.decision, r
	case <-c.done:
		return Decision{Reason: contracts.ReasonToolCanceled, Why: "idempotency: the first call still runs", cause: contextError(c.ctx)}, Receipt{}
	}
}

// recall reads a first outcome back. Its output is there only if outputs are kept.
func (c *call) recall(o *once) (Decision, Receipt) {
	lost := func(err error) (Decision, Receipt) {
		return Decision{Reason: contracts.ReasonOutputNotKept, cause: err}, Receipt{}
	}
	ctx := context.WithoutCancel(c.ctx)
	entry, err := c.entry(ctx, o.decision)
	if err != nil {
		return lost(err)
	}
	decision, err := receipts.OpenDecision(entry, c.state, o.decision) // the store is not trusted to have kept what was signed
	if err != nil {
		return lost(err)
	}
	if entry, err = c.entry(ctx, o.receipt); err != nil {
		return lost(err)
	}
	receipt, err := receipts.Open(entry, c.state, o.receipt)
	if err != nil {
		return lost(err)
	}
	d := Decision{Verdict: receipt.Verdict, Reason: receipt.Reason, Record: decision}
	r := Receipt{Record: receipt, Entry: entry, Index: o.receipt}
	switch d.Reason {
	case contracts.ReasonAllow:
		output, err := c.Store.Blob(ctx, *receipt.OutputHash)
		if err != nil || crypto.Sum(output) != *receipt.OutputHash {
			d.Verdict, d.Reason = contracts.Deny, contracts.ReasonOutputNotKept
			return d, r
		}
		r.Output = output
	case contracts.ReasonToolError:
		d.own = fmt.Errorf("helm: %s: the tool failed, when this call was first made; its error was not kept", c.inputs.Tool)
	}
	return d, r
}

func (c *call) entry(ctx context.Context, index uint64) (contracts.Entry, error) {
	for e, err := range c.Store.Entries(ctx, index, index+1) {
		return e, err
	}
	return nil, errors.New("the store lacks the first call's entry")
}

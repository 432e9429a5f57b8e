package helm

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
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

// finish counts it out, and tells those who wait for it what became of it. Where there is no receipt the kernel is sealed, and nobody will
// ask for the key again.
func (s *session) finish(a *answer, key string, d Decision, r Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.call != nil {
		a.call.over = true
	}
	if f := a.flight; f != nil {
		f.decision, f.receipt = d.clone(), r.clone() // for d and r are the caller's
		close(f.done)
		if o := s.keys[key]; o != nil {
			o.receipt, o.flight = r.Index, nil
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
	case <-c.done:
	}
	if over(a.flight.done) { // which counts, though the context has ended too
		return a.flight.decision.clone(), a.flight.receipt.clone()
	}
	return Decision{Reason: contracts.ReasonToolCanceled, Why: "idempotency: the first call still runs", cause: contextError(c.ctx)}, Receipt{}
}

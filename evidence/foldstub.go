package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A stub stands in the log where its entry was, and takes its part in every fold. It is not signed:
// the stubs of a set are, under one root, by the condense entry of the set.

// checkStub does the checks CHAIN to TRUST for a stub, and takes it into the calls that are known,
// as check and enter do for an entry. It returns the call that the stub is of.
func (v *fold) checkStub(s *contracts.Stub, c *chain) (*pending, *Error) {
	f := v.followsStub(s, c)
	if f == nil {
		f = v.causesStub(s, c)
	}
	switch {
	case f != nil:
		return nil, f
	case s.Decision != nil:
		return v.allowsStub(s, c)
	}
	return v.endsStub(s, c)
}

// followsStub is the check CHAIN.
func (v *fold) followsStub(s *contracts.Stub, c *chain) *Error {
	switch {
	case v.size() == 0:
		return v.fault(ErrChain, "stub", "entry 0 is no genesis")
	case c.closed:
		return v.fault(ErrChain, "stub.session", "it is closed")
	case s.Seq != c.count:
		return v.fault(ErrChain, "stub.seq", "not the next of its session")
	case s.Time < c.time:
		return v.fault(ErrChain, "stub.time", "before that of the session's previous entry")
	}
	return nil
}

// causesStub is the check GRAPH.
func (v *fold) causesStub(s *contracts.Stub, c *chain) *Error {
	bad := func(field, what string) *Error { return v.fault(ErrGraph, "stub."+field, what) }
	if v.has(s.Entry) {
		return bad("entry", "the hash of an earlier entry")
	}
	want := c.lamport + 1
	implied := []contracts.Digest{v.latest(c)}
	if r := s.Receipt; r != nil {
		if r.Decision >= v.size() {
			return bad("decision", "no earlier entry")
		}
		hash := v.index.Hash(r.Decision)
		lamport, what := v.names(hash)
		if what != "" {
			return bad("decision", what)
		}
		want = max(want, lamport+1)
		implied = append(implied, hash)
	}
	for _, p := range s.Parents {
		lamport, what := v.names(p)
		if what == "" && slices.Contains(implied, p) {
			what = "one is the entry before it in its session, or its decision"
		}
		if what != "" {
			return bad("parents", what)
		}
		want = max(want, lamport+1)
	}
	if s.Lamport != want {
		return bad("lamport", "not one more than the highest that it names")
	}
	return nil
}

// allowsStub does the checks REFERENCE, BUDGET and TRUST for the stub of a decision.
func (v *fold) allowsStub(s *contracts.Stub, c *chain) (*pending, *Error) {
	bad := func(check error, field, what string) (*pending, *Error) {
		return nil, v.fault(check, "stub."+field, what)
	}
	d := s.Decision
	p, err := v.terms.of(d.Policy)
	switch {
	case err != nil:
		return nil, err.(*Error)
	case p == nil:
		return bad(ErrReference, "policy", "no earlier policy entry")
	case !p.terms.Declares(d.Tool):
		return bad(ErrReference, "tool", "one that the policy does not declare")
	}
	if d.Idempotency != "" {
		k := v.boundOf(s.Session, d.Idempotency)
		if _, ok := v.bound[k]; ok {
			return bad(ErrReference, "idempotency", boundBefore)
		}
		v.bound[k] = unknown
	}
	if err := v.ledger.Charge(d.Charges); err != nil {
		return bad(ErrBudget, "charges", err.Error())
	}
	if v.state.Frozen() {
		return nil, v.fault(ErrTrust, "stub", "an ALLOW while the system is frozen")
	}
	call := &pending{chain: c, index: v.size(), seq: s.Seq, tool: d.Tool, stub: true, policy: p.hash,
		charges: slices.Clone(d.Charges)}
	v.allow(call)
	return call, nil
}

// reasonOf returns the reason of a receipt that has a stub.
func reasonOf(r *contracts.ReceiptStub) contracts.ReasonCode {
	if r.Outcome == contracts.Failed {
		return contracts.ReasonToolError
	}
	return contracts.ReasonAllow
}

// endsStub does the checks REFERENCE and BUDGET for the stub of a receipt.
func (v *fold) endsStub(s *contracts.Stub, c *chain) (*pending, *Error) {
	bad := func(check error, field, what string) (*pending, *Error) {
		return nil, v.fault(check, "stub."+field, what)
	}
	r := s.Receipt
	call := v.pending[r.Decision]
	switch {
	case call == nil:
		return bad(ErrReference, "decision", "no ALLOW that has no receipt yet")
	case call.chain != c:
		return bad(ErrReference, "decision", "of another session")
	}
	if err := v.ledger.Settle(call.charges, r.Settled, reasonOf(r)); err != nil {
		return bad(ErrBudget, "settled", err.Error())
	}
	delete(v.pending, r.Decision)
	v.receipts++
	c.open--
	return call, nil
}

package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// A fold is what a verifier knows of the log after the entries that it has verified. It does the
// checks CHAIN to TRUST, which ask nothing but the entries.
type fold struct {
	log
	o        *Options
	last     *signed                     // the checkpoint that the caller saw; nil: none
	history  History                     // the log against last
	state    *registry.State             // at the entry at hand: the initial one with the events before it applied
	pending  map[uint64]*pending         // ALLOWs without a receipt, by index
	bound    map[bound]claim             // idempotency keys
	approved map[half]struct{}           // approvals that an ALLOW consumed, by half their digest
	policies map[contracts.Digest]uint64 // their entries, none of which is entry 0
	terms    termReader                  // of the policies, for stubs and condense entries
	ledger   past.Ledger
	buf      []byte

	allows, denials, receipts, reported uint64
}

// fault returns an error of the entry at hand.
func (v *fold) fault(check error, field, what string) *Error {
	return errorAt(v.size(), check, field, what)
}

// check does the checks CHAIN to TRUST for the next entry, of that hash. If it is the receipt of an
// ALLOW, check returns the call.
func (v *fold) check(st *contracts.Statement, hash contracts.Digest, c *chain) (*pending, *Error) {
	f := v.follows(st, c)
	if f == nil {
		f = v.causes(st, hash, c)
	}
	if f != nil {
		return nil, f
	}
	call, f := v.refers(st, c)
	if f == nil {
		f = v.charged(st, call)
	}
	if f == nil {
		f = v.governs(st)
	}
	return call, f
}

// follows is the check CHAIN.
func (v *fold) follows(st *contracts.Statement, c *chain) *Error {
	first := v.size() == 0
	switch {
	case first != (st.Genesis != nil):
		return v.fault(ErrChain, "predicateType", "entry 0, and only it, is the genesis")
	case c.closed:
		return v.fault(ErrChain, "predicate.session", "it is closed")
	case st.Seq != c.count:
		return v.fault(ErrChain, "predicate.seq", "not the next of its session")
	case st.Prev != v.latest(c):
		return v.fault(ErrChain, "predicate.prev", "not the hash of the session's previous entry, or of the genesis")
	case st.Time < c.time:
		return v.fault(ErrChain, "predicate.time", "before that of the session's previous entry")
	case first && v.o.Origin != "" && st.Genesis.Origin != v.o.Origin:
		return v.fault(ErrChain, "predicate.origin", otherOrigin(st.Genesis.Origin, v.o.Origin))
	case first && v.last != nil && st.Genesis.Origin != v.last.Origin:
		return newError(ErrInput, "Last", otherOrigin(v.last.Origin, st.Genesis.Origin))
	}
	return nil
}

// causes is the check GRAPH.
func (v *fold) causes(st *contracts.Statement, hash contracts.Digest, c *chain) *Error {
	want := uint64(0)
	if v.size() > 0 {
		want = c.lamport + 1 // of genesis it is 0
	}
	for _, p := range st.Parents {
		lamport, what := v.names(p)
		if what != "" {
			return v.fault(ErrGraph, "predicate.parents", what)
		}
		want = max(want, lamport+1)
	}
	if len(v.stubs) > 0 && v.has(hash) { // else CHAIN would have found it
		return v.fault(ErrGraph, "", "an earlier stub is of this entry")
	}
	if st.Lamport != want {
		return v.fault(ErrGraph, "predicate.lamport", "not one more than the highest that it names")
	}
	return nil
}

// charged is the check BUDGET: each charge is made on the balance that the log has, and the receipt
// of an ALLOW says of every charge whether it stays.
func (v *fold) charged(st *contracts.Statement, call *pending) *Error {
	switch {
	case st.Decision != nil:
		if err := v.ledger.Charge(st.Decision.Charges); err != nil {
			return v.fault(ErrBudget, "predicate.decision.charges", err.Error())
		}
	case call != nil:
		if err := v.ledger.Settle(call.charges, st.Receipt.Settled, st.Receipt.Reason); err != nil {
			return v.fault(ErrBudget, "predicate.settled", err.Error())
		}
	}
	return nil
}

// enter takes an entry that passed the checks into the calls, policies and sessions that are known.
// call is the one that a receipt ends. If the entry is an ALLOW, enter returns its call.
func (v *fold) enter(st *contracts.Statement, c *chain, call *pending) *pending {
	switch d := st.Judgement(); {
	case st.Policy != nil:
		v.policies[st.Policy.Policy] = v.size()
	case d != nil && d.Verdict == contracts.Deny:
		v.receipts++
		v.denials++
	case d != nil:
		call = &pending{
			chain:   c,
			index:   v.size(),
			seq:     st.Seq,
			tool:    d.Tool,
			same:    sameOf(d.Tool, d.ArgsHash, d.EffectType),
			policy:  d.PolicyHash,
			charges: slices.Clone(d.Charges),
		}
		v.allow(call)
	case st.Receipt != nil:
		v.receipts++
		if isReported(st.Receipt) {
			v.reported++
		}
		c.open--
	}
	return call
}

// isReported reports whether a call ran elsewhere, and its outcome was reported.
func isReported(r *contracts.Receipt) bool {
	return r.Sandbox != nil && r.Sandbox.Profile == contracts.ProfileReported && r.Outcome != contracts.Indeterminate
}

// allow takes in an ALLOW.
func (v *fold) allow(call *pending) {
	v.pending[call.index] = call
	v.allows++
	call.chain.open++
}

// stillValid reports whether an entry that was opened ahead would be opened now: the worker may
// have used an earlier trust state.
func (v *fold) stillValid(x early) bool {
	switch {
	case x.stub != nil:
		return true
	case x.statement == nil:
		return false
	}
	_, ok := v.state.Key(x.signer, registry.Kernel, v.size())
	return ok
}

package evidence

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A pending call is an ALLOW without a receipt, and holds what its receipt will be compared with.
type pending struct {
	chain   *chain
	index   uint64
	seq     uint64
	tool    string
	stub    bool             // the decision is one: nothing is known of its arguments and effect
	same    contracts.Digest // of all that decision and receipt both say, if the decision is no stub
	policy  contracts.Digest
	kept    bool // the inputs are
	box     *box // that the driver declared; nil if the inputs have none, or are not kept
	charges []contracts.Charge
	nonces  []string // of the requests whose approvals it consumed; nil if its inputs are not kept
}

// sameOf returns the digest of tool, argsHash and effectType.
func sameOf(tool string, args contracts.Digest, effect contracts.EffectType) contracts.Digest {
	e := contracts.Effect{EffectType: effect, InputHash: args, ToolName: tool}
	return e.Hash()
}

// A bound names an idempotency key in its session, and a claim the call that it was bound with.
// Eight bytes of a claim will do: two that agree in them by chance would make a good log bad, never
// a bad one good.
type (
	bound contracts.Digest
	claim [8]byte
)

// unknown is the claim of a stub.
var unknown claim

func (v *fold) boundOf(session, key string) bound {
	v.buf = crypto.AppendString(v.buf[:0], session)
	v.buf = crypto.AppendString(v.buf, key)
	return bound(crypto.Sum(v.buf))
}

func (v *fold) claimOf(d *contracts.DecisionRecord) claim {
	in := contracts.Inputs{ArgsHash: d.ArgsHash, Caller: d.Caller, Tool: d.Tool}
	v.buf = in.Append(v.buf[:0])
	sum := crypto.Sum(v.buf)
	return claim(sum[:])
}

// refers is the check REFERENCE: what an entry says of others. If the entry is the receipt of an
// ALLOW, refers returns the call.
func (v *fold) refers(st *contracts.Statement, c *chain) (*pending, *Error) {
	bad := func(field, what string) (*pending, *Error) {
		return nil, v.fault(ErrReference, "predicate."+field, what)
	}
	d := st.Judgement()
	if d != nil && v.policies[d.PolicyHash] == 0 {
		return bad("decision.policyHash", "of no earlier policy entry")
	}
	switch r := st.Receipt; {
	case st.Policy != nil && v.policies[st.Policy.Policy] > 0:
		return bad("policy", "written before")
	case st.Close != nil && c.open > 0:
		return bad("event", "a close, though an ALLOW has no receipt")
	case st.Decision != nil:
		return nil, v.binds(st, d)
	case d != nil && d.Reason == contracts.ReasonIdempotencyConflict && st.Session != contracts.SessionRefused:
		by, ok := v.bound[v.boundOf(st.Session, d.Idempotency)]
		if !ok {
			return bad("decision.idempotency", "a conflict with nothing: no ALLOW of the session bound the key")
		}
		if by == v.claimOf(d) {
			return bad("decision.idempotency", "a conflict with the same call")
		}
	case r != nil && d == nil:
		at := c.index // nearly always the decision is prev
		if r.DecisionHash != v.latest(c) {
			at, _, _ = v.index.Lookup(r.DecisionHash) // GRAPH has found it
		}
		call := v.pending[at]
		switch {
		case call == nil:
			return bad("decisionHash", "of no ALLOW that has no receipt yet")
		case call.chain != c:
			return bad("decisionHash", "of a decision of another session")
		case call.tool != r.Tool, !call.stub && call.same != sameOf(r.Tool, r.ArgsHash, r.EffectType):
			return bad("argsHash", "it, effectType or tool differs from the decision's")
		}
		delete(v.pending, at)
		return call, nil
	}
	return nil, nil
}

// binds notes what an ALLOW uses up: its idempotency key and its approvals.
func (v *fold) binds(st *contracts.Statement, d *contracts.DecisionRecord) *Error {
	if d.Idempotency != "" {
		k := v.boundOf(st.Session, d.Idempotency)
		if _, ok := v.bound[k]; ok {
			return v.fault(ErrReference, "predicate.decision.idempotency", boundBefore)
		}
		v.bound[k] = v.claimOf(d)
	}
	for _, a := range d.Approvals {
		half := halfOf(a)
		if _, ok := v.approved[half]; ok {
			return v.fault(ErrReference, "predicate.decision.approvals", "one was used before")
		}
		v.approved[half] = struct{}{}
	}
	return nil
}

const boundBefore = "bound before in this session"

func (p *pending) id() string { return p.chain.name + "/" + strconv.FormatUint(p.seq, 10) }

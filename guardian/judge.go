package guardian

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// Judge decides a call, in the order of the package comment, and fills in everything of the record but ID, InputsHash and
// PolicyDecisionHash. It is a pure function of the policy, the trust state and the inputs; it keeps nothing of them, but the record shares
// the roles of the caller. It never panics: whatever goes wrong is DENY FAIL_CLOSED_ERROR.
//
// Inputs are what the kernel makes of a call: arguments that obey docs/FORMATS.md, section 1, and have their defaults filled in, or ArgsForm "raw".
// The past is read from them; what they lack of it is DENY.
func (p *Policy) Judge(in contracts.Inputs, trust *registry.State) (record contracts.DecisionRecord, why Why) {
	p.decide(&in, trust, nil, &record, &in.State, &why)
	return record, why
}

// Decide is Judge for a call whose past is not known yet: it asks for it. It returns, with the
// record, the state of the inputs: that of in, with what the past answered in place of what in has
// of the past. With that state in the inputs Judge returns the same record. A nil Past answers
// nothing.
func (p *Policy) Decide(in *contracts.Inputs, trust *registry.State, past past.Past) (record contracts.DecisionRecord, state contracts.SessionState, why Why) {
	state = in.State
	state.Budgets, state.Calls, state.Receipts, state.Used = nil, nil, nil, nil
	p.decide(in, trust, past, &record, &state, &why)
	return record, state, why
}

// decide writes into the results of its callers: copying a record takes a tenth of the time of a
// judgement. It reads state, and with a past writes into it.
func (p *Policy) decide(in *contracts.Inputs, trust *registry.State, past past.Past, record *contracts.DecisionRecord, state *contracts.SessionState, why *Why) {
	j := judging{record: record, state: state, why: why, trust: trust}
	defer func() {
		if recover() != nil {
			record.Verdict, record.Reason, record.Rule, record.Expires, record.Charges = contracts.Deny, contracts.ReasonFailClosedError, "", 0, nil
			record.Approvals, record.Pending = nil, nil // but the attestations stay, as where a past that fails is not told
			j.leave()
			*why = Why{Rule: why.Rule, What: "a panic while judging"}
		}
	}()
	t := p.open(in, record)
	j.judge(p, t, in, past)
}

// open fills in what every record of a call has, denying.
func (p *Policy) open(in *contracts.Inputs, r *contracts.DecisionRecord) *tool {
	r.Verdict, r.Reason = contracts.Deny, contracts.ReasonFailClosedError
	r.ArgsForm, r.ArgsHash = in.ArgsForm, in.ArgsHash
	r.Caller = in.Caller
	r.Idempotency = in.Idempotency
	r.PolicyHash = p.Hash()
	r.Tool = in.Tool
	if len(in.Envelopes.Delegation) > 0 {
		leaf := in.Envelopes.Delegation[0].Digest()
		r.Delegation = &leaf
	}
	t := p.tool(in.Tool)
	if t != nil {
		r.EffectType, r.Risk = t.effect, t.risk
	}
	return t
}

// Refuse makes the record of a refusal of the kernel's own, at condition 0, with the same fields filled in. A reason that is not of
// condition 0 becomes FAIL_CLOSED_ERROR.
func (p *Policy) Refuse(in contracts.Inputs, reason contracts.ReasonCode) (record contracts.DecisionRecord) {
	p.open(&in, &record)
	if reason.Condition() == 0 {
		record.Reason = reason
	}
	return record
}

type judging struct {
	record *contracts.DecisionRecord
	state  *contracts.SessionState // of the inputs: read or, with a past, written
	why    *Why
	trust  *registry.State
	s      *scratch
}

func (j *judging) deny(reason contracts.ReasonCode, rule string, why Why) {
	j.record.Reason, j.record.Rule, *j.why = reason, rule, why
}

func (j *judging) judge(p *Policy, t *tool, in *contracts.Inputs, past past.Past) {
	r := j.record
	if in.ArgsForm != "" {
		j.deny(contracts.ReasonArgsCanonicalization, "", Why{What: "the arguments are not strict JSON"})
		return
	}
	if in.Args.Kind() != crypto.Object {
		j.deny(contracts.ReasonFailClosedError, "", Why{What: "no arguments to judge"})
		return
	}

	r.Condition = 1
	switch {
	case t == nil:
		j.deny(contracts.ReasonToolNotFound, "", Why{What: "no bundle declares the tool"})
		return
	case t.barred != "":
		j.deny(t.barred, "", Why{What: t.barrier})
		return
	case !t.housed(in.Sandbox):
		j.deny(contracts.ReasonSandboxViolation, "", Why{What: "the driver does not declare the sandbox that the tool needs: " + strings.Join(t.sandboxes, " and ")})
		return
	case in.Drivers == 0 && t.pinned != (contracts.Digest{}):
		j.deny(contracts.ReasonDriverNotBound, "", Why{What: "no driver is bound that declares the definition which the tool pins: see executor.Defined"})
		return
	case in.Drivers == 0:
		j.deny(contracts.ReasonDriverNotBound, "", Why{What: "no driver is bound: set Intent.Driver or Options.Drivers"})
		return
	case in.Drivers > 1:
		j.deny(contracts.ReasonDriverNotBound, "", Why{What: "two drivers are bound: Intent.Driver and Options.Drivers; keep one"})
		return
	}

	s, _ := p.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	s.begin(t, in, j.state)
	s.past, j.s = past, s
	if j.conditions(s, t, in) {
		r.Verdict, r.Reason = contracts.Allow, contracts.ReasonAllow
		r.Expires = in.Time.Add(t.limits.Timeout)
	} else {
		r.Charges = nil
	}
	j.leave()
	s.forget() // not deferred: after a panic the scratch is dropped
	p.scratch.Put(s)
}

// leave leaves in the state what the past was asked.
func (j *judging) leave() {
	if j.s == nil || j.s.past == nil || j.s.calls == nil && j.s.receipts == nil {
		return
	}
	j.state.Calls, j.state.Receipts = j.s.calls, j.s.receipts
	j.state.Sort()
}

// housed tells whether the driver declares the sandbox that is demanded, if any is.
func (t *tool) housed(declared *contracts.SandboxInfo) bool {
	for _, profile := range t.sandboxes {
		if declared == nil || declared.Profile != profile {
			return false
		}
	}
	return true
}

// conditions judges conditions 2 to 8.
func (j *judging) conditions(s *scratch, t *tool, in *contracts.Inputs) bool {
	r := j.record
	r.Condition = 2
	if t.limits.Args < usualLimits.Args {
		if s.buf = in.Args.Append(s.buf[:0]); len(s.buf) > t.limits.Args {
			j.deny(contracts.ReasonSchemaViolation, "", Why{What: "the arguments are longer than the tool's limit"})
			return false
		}
		s.buf = s.buf[:0]
	}
	if t.depth > 0 && deeper(in.Args, t.depth) {
		j.deny(contracts.ReasonSchemaViolation, "", Why{What: "the arguments are nested deeper than the ceiling"})
		return false
	}
	if v := t.input.Validate(in.Args); v != nil {
		j.deny(contracts.ReasonSchemaViolation, "", Why{Pointer: v.Pointer, What: v.Constraint})
		return false
	}
	for i := range t.scope {
		n := &t.scope[i]
		if a := s.eval(n); a != yes {
			why := Why{Rule: t.scopeRule, Pointer: s.pointerOf(n.slot), What: "not among the destinations of the tool's scope"}
			if a == failed {
				why.Pointer, why.What = s.pointer, s.what
			}
			j.deny(contracts.ReasonDestinationNotAllowed, t.scopeRule, why)
			return false
		}
	}

	var c *chain
	if len(in.Envelopes.Delegation) > 0 {
		c = opened(in, j.trust)
		s.behind = c.grants
	}

	r.Condition = 3
	if len(t.budgets) > 0 && !j.charged(s, t, in) {
		return false
	}

	r.Condition = 4
	if len(t.requires) > 0 && !j.required(s, t, in) {
		return false
	}

	r.Condition = 5
	if t.expires != 0 && in.Time >= t.expires {
		j.deny(contracts.ReasonPolicyViolation, t.expired, Why{Rule: t.expired, What: "the bundle has expired"})
		return false
	}
	if c != nil {
		if !j.delegated(s, t, in, c) {
			return false
		}
	} else if !j.rules(s, t) || !j.clauses(s, t.overlays, in) {
		return false
	}

	r.Condition = 8
	return j.clauses(s, t.floors, in) && (len(s.applied) == 0 || j.approved(s, t, in))
}

// rules judges those of the bundle: the first that matches tells whether it allows.
func (j *judging) rules(s *scratch, t *tool) bool {
	switch x, a := s.match(t.rules); {
	case a == failed:
		j.deny(contracts.ReasonFailClosedError, "", Why{Rule: x.name, Pointer: s.pointer, What: s.what})
	case a == no:
		j.deny(contracts.ReasonNoPolicyDefined, "", Why{What: "no rule matches the call"})
	case !x.allow:
		j.deny(contracts.ReasonPolicyViolation, x.name, Why{Rule: x.name, What: "the rule denies the call"})
	default:
		j.record.Rule = x.name
		return true
	}
	return false
}

// clauses judges what the documents of P0, or of P2, say of the tool. They can only deny.
func (j *judging) clauses(s *scratch, list []clause, in *contracts.Inputs) bool {
	for i := range list {
		c := &list[i]
		of := c.of
		if !of.concern(in, s.behind) {
			continue
		}
		if c.risky {
			j.deny(of.reason, of.ceilings, Why{Rule: of.ceilings, What: "the tool's risk is over the ceiling"})
			return false
		}
		if of.calls > 0 && !j.allowed(s, of) {
			return false
		}
		if x, a := s.match(c.rules); a == failed {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: x.name, Pointer: s.pointer, What: s.what})
			return false
		} else if a == yes {
			j.deny(of.reason, x.name, Why{Rule: x.name, What: "the rule denies the call"})
			return false
		}
		if c.outside {
			j.deny(of.reason, of.only, Why{Rule: of.only, What: "the tool is not among those permitted"})
			return false
		}
		if of.expires != 0 && in.Time >= of.expires {
			j.deny(of.reason, of.expired, Why{Rule: of.expired, What: "the document has expired"})
			return false
		}
	}
	return true
}

// allowed judges the ceiling of calls.
func (j *judging) allowed(s *scratch, of *terms) bool {
	switch n, what := s.allowed(""); {
	case what != "":
		j.deny(contracts.ReasonFailClosedError, "", Why{Rule: of.ceilings, What: what})
	case n >= of.calls:
		j.deny(of.reason, of.ceilings, Why{Rule: of.ceilings, What: "the session has had as many calls as the ceiling permits"})
	default:
		return true
	}
	return false
}

// match finds the first rule that matches, or that errs.
func (s *scratch) match(rules []rule) (*rule, answer) {
	for i := range rules {
		x := &rules[i]
		a := yes
		for i := range x.tests {
			if a = s.eval(&x.tests[i]); a != yes {
				break
			}
		}
		if a != no {
			return x, a
		}
	}
	return nil, no
}

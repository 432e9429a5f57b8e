package guardian

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// Judge decides a call, in the order of the package comment. It fills in the whole record but ID,
// InputsHash and PolicyDecisionHash. It is a pure function of the policy, the trust state and the
// inputs. It keeps nothing of them, but the record shares the roles of the caller. It never panics:
// whatever goes wrong is DENY FAIL_CLOSED_ERROR.
//
// The inputs are what the kernel makes of a call: their arguments obey docs/FORMATS.md, section 1,
// and have their defaults filled in; or ArgsForm is "raw". What was before the call is read from
// them. If they lack some of it the answer is DENY.
func (p *Policy) Judge(in contracts.Inputs, trust *registry.State) (record contracts.DecisionRecord, why Why) {
	p.decide(&in, trust, nil, nil, nil, &record, &in.State, &why)
	return record, why
}

// Explain is [Policy.Judge] that notes what it evaluates. The record and Why are those of Judge for
// the same inputs.
func (p *Policy) Explain(in contracts.Inputs, trust *registry.State, o ExplainOptions) (
	record contracts.DecisionRecord, why Why, trace Trace,
) {
	t := tracings.Get().(*tracing)
	t.policy, t.Values, t.Condition = p, o.Values, &record.Condition
	p.decide(&in, trust, nil, nil, t, &record, &in.State, &why)
	trace = t.steps()
	t.Forget()
	t.bills = t.bills[:0]
	tracings.Put(t)
	return record, why, trace
}

// Decide is Judge for a call whose past is not known yet: it asks log for it. It also returns the
// state that the call was judged in: that of in, but with the log's answers, sorted, in place of
// what in has of the past. With this state in the inputs Judge returns the same record. A nil Past
// answers nothing.
func (p *Policy) Decide(
	in *contracts.Inputs, trust *registry.State, log past.Past,
) (record contracts.DecisionRecord, state contracts.SessionState, why Why) {
	state = contracts.SessionState{Trust: in.State.Trust}
	if again := p.decide(in, trust, log, nil, nil, &record, &state, &why); again != nil {
		record, state, why = p.decideWithout(again, in, trust, log)
	}
	return record, state, why
}

// decideWithout decides a call that cannot go by these sources of values.
func (p *Policy) decideWithout(
	sources []program.Unread, in *contracts.Inputs, trust *registry.State, log past.Past,
) (record contracts.DecisionRecord, state contracts.SessionState, why Why) {
	for sources != nil {
		record, state, why = contracts.DecisionRecord{}, contracts.SessionState{Trust: in.State.Trust}, Why{}
		sources = p.decide(in, trust, log, sources, nil, &record, &state, &why)
	}
	return record, state, why
}

// decide writes into the results of its callers: copying a record takes a tenth of the time of a
// judgement. It reads state and, if there is a log, writes into it. It returns the sources that the
// call cannot go by, if it must be decided again without them. It already goes without some. A
// trace that is not nil is told of every step.
func (p *Policy) decide(
	in *contracts.Inputs, trust *registry.State, log past.Past, without []program.Unread, trace *tracing,
	record *contracts.DecisionRecord, state *contracts.SessionState, why *Why,
) (again []program.Unread) {
	j := judging{in: in, trust: trust, record: record, state: state, why: why, trace: trace}
	defer func() {
		if recover() == nil {
			return
		}
		record.Verdict, record.Reason, record.Rule = contracts.Deny, contracts.ReasonFailClosedError, ""
		record.Expires, record.Charges = 0, nil
		record.Approvals, record.Pending = nil, nil // the attestations stay, as they do when a past fails with an error
		j.recordPast()
		*why = Why{Rule: why.Rule, What: "a panic while judging"}
		if j.s != nil {
			again = j.s.eval.Unreadable()
		}
	}()
	j.tool = p.open(in, record)
	if !j.admitted() {
		return nil
	}
	s, _ := p.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	j.more, j.scans = p.stack.More(j.tool.Name), p.record.Engine.Threat > 0
	subjects := j.more.Subjects
	if subjects == nil {
		subjects = j.tool.Subjects
	}
	s.eval.Begin(subjects, in, state, log)
	s.past, j.s = log, s
	if trace != nil {
		s.eval.Watch(&trace.Trace)
	}
	switch {
	case without != nil:
		s.eval.Leave(without)
	case log == nil && (state.From != nil || state.Tainted != nil || state.Labels != nil):
		s.eval.Tell(state)
	}
	if j.conditions() {
		record.Verdict, record.Reason = contracts.Allow, contracts.ReasonAllow
		record.Expires = in.Time.Add(j.tool.Limits.Timeout)
	} else {
		record.Charges = nil
	}
	j.recordPast()
	if s.eval.Visits > program.MaxVisits {
		again = s.eval.Unreadable()
	}
	s.forget() // not deferred: after a panic the scratch is dropped
	p.scratch.Put(s)
	return again
}

// open fills in what every record of a call has, denying.
func (p *Policy) open(in *contracts.Inputs, r *contracts.DecisionRecord) *program.Tool {
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
		r.EffectType, r.Risk = t.Effect, t.Risk
	}
	return t
}

// Refuse returns the record of a refusal of the kernel's own, at condition 0, with the same fields
// filled in as by Judge. A reason that is not of condition 0 becomes FAIL_CLOSED_ERROR.
func (p *Policy) Refuse(in contracts.Inputs, reason contracts.ReasonCode) (record contracts.DecisionRecord) {
	p.open(&in, &record)
	if reason.Condition() == 0 {
		record.Reason = reason
	}
	return record
}

// A judging is one judgement.
type judging struct {
	in     *contracts.Inputs
	trust  *registry.State
	tool   *program.Tool
	more   *program.More
	record *contracts.DecisionRecord
	state  *contracts.SessionState // of the inputs: read or, with a past, written
	why    *Why
	trace  *tracing // nil: nobody looks on
	scans  bool     // the engine looks for signals
	s      *scratch // nil, as is more, until condition 2
}

// A scratch is the memory of one judgement. It is used again, so forget must keep nothing.
type scratch struct {
	eval program.Evaluator
	presented
	applied []applied
	buf     []byte

	// Records and states are cut from these: one allocation serves several calls. What was cut
	// belongs to the caller, and is never used again.
	charges  []contracts.Charge
	balances []contracts.Balance
	names    program.Names
}

// presented is what one call comes with, apart from what predicates look at.
type presented struct {
	past     past.Past              // nil: what is known of it is in the state
	grants   []contracts.Delegation // that the call is made under, if they open
	lender   *contracts.Caller      // the delegator of the root grant, if they open
	words    []word                 // attestations that open; nil: not opened yet
	consumed []contracts.Digest     // approvals that are used
}

func (s *scratch) forget() {
	const kept = 64 << 10
	s.eval.Forget()
	s.names.Forget()
	s.presented = presented{}
	s.applied = s.applied[:0]
	s.buf = s.buf[:0]
	if cap(s.buf) > kept {
		s.buf = nil // a rare call made it large
	}
}

// deny always returns false.
func (j *judging) deny(reason contracts.ReasonCode, rule string, why Why) bool {
	j.record.Reason, j.record.Rule, *j.why = reason, rule, why
	return false
}

// denyBy denies by a rule of a P0 or P2 document.
func (j *judging) denyBy(of *program.Terms, rule, what string) bool {
	return j.deny(of.Reason, rule, Why{Rule: rule, What: what})
}

// fail denies because a predicate of a rule cannot be evaluated.
func (j *judging) fail(rule string) bool {
	why := Why{Rule: rule, Pointer: j.s.eval.Pointer, What: j.s.eval.What}
	return j.deny(contracts.ReasonFailClosedError, "", why)
}

// recordPast notes in the state what the past was asked.
func (j *judging) recordPast() {
	if j.s != nil && j.s.past != nil {
		j.s.eval.Record(j.state)
	}
}

// admitted judges what of condition 0 is left to the guardian, and condition 1.
func (j *judging) admitted() bool {
	in, t := j.in, j.tool
	if in.ArgsForm != "" {
		return j.deny(contracts.ReasonArgsCanonicalization, "", Why{What: "the arguments are not strict JSON"})
	}
	if in.Args.Kind() != crypto.Object {
		return j.deny(contracts.ReasonFailClosedError, "", Why{What: "no arguments to judge"})
	}

	j.record.Condition = 1
	switch {
	case t == nil:
		return j.deny(contracts.ReasonToolNotFound, "", Why{What: "no bundle declares the tool"})
	case t.Excluded.Reason != "":
		return j.deny(t.Excluded.Reason, "", Why{What: t.Excluded.What})
	case len(t.Driver.Demands) > 0 && t.Driver.Demands.Unmet(in.Sandbox) != "":
		return j.deny(contracts.ReasonSandboxViolation, "", Why{What: t.Driver.Demands.Unmet(in.Sandbox)})
	}
	what := ""
	switch {
	case in.Drivers == 0 && t.Driver.Definition != (contracts.Digest{}):
		what = "no driver is bound that declares the definition which the tool pins: see executor.Defined"
	case in.Drivers == 0:
		what = "no driver is bound: set Intent.Driver or Options.Drivers"
	case in.Drivers > 1:
		what = "two drivers are bound: Intent.Driver and Options.Drivers; keep one"
	default:
		return true
	}
	return j.deny(contracts.ReasonDriverNotBound, "", Why{What: what})
}

// conditions judges conditions 2 to 8.
func (j *judging) conditions() bool {
	in, t, s, r := j.in, j.tool, j.s, j.record
	r.Condition = 2
	if !j.shaped() || len(t.Scope) > 0 && !j.inScope() {
		return false
	}

	var c *chain
	if len(in.Envelopes.Delegation) > 0 {
		c = openChain(in, j.trust)
		s.grants = c.grants
		if c.fault == "" {
			s.lender = &c.delegator
		}
	}

	r.Condition = 3
	if len(t.Budgets)+len(j.more.Budgets) > 0 && !j.affordable() {
		return false
	}

	r.Condition = 4
	if len(t.Requires)+len(j.more.Requires) > 0 && (!j.required(t.Requires) || !j.required(j.more.Requires)) {
		return false
	}

	r.Condition = 5
	if t.Expiry.At != 0 {
		passed := t.Expiry.Passed(in.Time)
		j.trace.tell(t.Expiry.Rule, "/expires", program.AnswerOf(!passed))
		if passed {
			why := Why{Rule: t.Expiry.Rule, What: "the bundle has expired"}
			return j.deny(contracts.ReasonPolicyViolation, t.Expiry.Rule, why)
		}
	}
	if c != nil {
		if !j.delegated(c) {
			return false
		}
	} else if !j.rules() || !j.overlays() {
		return false
	}

	if t.Gates != nil && j.scans {
		r.Condition = 7
		if !quiet(j) {
			return false
		}
	}

	r.Condition = 8
	if j.trace != nil {
		if !j.trace.clauses(j, "P0", t.Floors) {
			return false
		}
	} else if !j.clauses(t.Floors) {
		return false
	}
	return len(s.applied) == 0 || j.approved()
}

// shaped judges the form of the arguments.
func (j *judging) shaped() bool {
	t, args := j.tool, j.in.Args
	if t.Limits.Args < program.MaxArgs {
		j.s.buf = args.Append(j.s.buf[:0])
		if len(j.s.buf) > t.Limits.Args {
			j.trace.limits(t, program.No, program.Undecided)
			why := Why{What: "the arguments are longer than the tool's limit"}
			return j.deny(contracts.ReasonSchemaViolation, "", why)
		}
	}
	if t.Depth > 0 && deeper(args, t.Depth) {
		j.trace.limits(t, program.Yes, program.No)
		why := Why{What: "the arguments are nested deeper than the ceiling"}
		return j.deny(contracts.ReasonSchemaViolation, "", why)
	}
	if j.trace != nil {
		j.trace.limits(t, program.Yes, program.Yes)
	}
	v, whole := t.Input.ValidateWithin(args, &j.s.eval.Visits, program.MaxVisits)
	if !whole {
		return j.deny(contracts.ReasonFailClosedError, "", Why{What: program.TooMany})
	}
	if v != nil {
		return j.deny(contracts.ReasonSchemaViolation, "", Why{Pointer: v.Pointer, What: v.Constraint})
	}
	return true
}

// deeper reports whether objects and arrays are nested deeper than depth.
func deeper(v crypto.Value, depth int) bool {
	if k := v.Kind(); k != crypto.Object && k != crypto.Array {
		return false
	}
	if depth == 0 {
		return true
	}
	for it := v.Iter(); it.Next(); {
		if deeper(it.Value(), depth-1) {
			return true
		}
	}
	return false
}

// inScope judges the destinations of the call.
func (j *judging) inScope() bool {
	t, e := j.tool, &j.s.eval
	for i := range t.Scope {
		n := &t.Scope[i]
		var a program.Answer
		if j.trace == nil {
			a = e.Eval(n)
		} else {
			a = j.trace.entry(e, t, i)
		}
		if a == program.Yes {
			continue
		}
		why := Why{Rule: t.ScopeRule, Pointer: e.PointerOf(n.Slot),
			What: "not among the destinations of the tool's scope"}
		if a == program.Failed {
			why.Pointer, why.What = e.Pointer, e.What
		}
		return j.deny(contracts.ReasonDestinationNotAllowed, t.ScopeRule, why)
	}
	return true
}

// rules judges those of the bundle: the first that matches decides.
func (j *judging) rules() bool {
	switch x, a := j.s.eval.Match(j.tool.Rules); {
	case a == program.Failed:
		return j.fail(x.Name)
	case a == program.No:
		return j.deny(contracts.ReasonNoPolicyDefined, "", Why{What: "no rule matches the call"})
	case !x.Allow:
		why := explained(&j.s.eval, Why{Rule: x.Name, What: ruleDenies}, x.Tests)
		return j.deny(contracts.ReasonPolicyViolation, x.Name, why)
	default:
		j.record.Rule = x.Name
		return true
	}
}

// overlays judges what the documents of P2 say of the tool, in the order of narrowing.
func (j *judging) overlays() bool {
	if j.trace != nil {
		return j.trace.clauses(j, "P2", j.tool.Overlays, j.more.Overlays)
	}
	return j.clauses(j.tool.Overlays) && (len(j.more.Overlays) == 0 || j.clauses(j.more.Overlays))
}

// clauses judges what the documents of P0, or of P2, say of the tool. They can only deny.
func (j *judging) clauses(list []program.Clause) bool {
	for i := range list {
		c := &list[i]
		of := c.Of
		if !of.Concern(j.in, j.s.grants) {
			continue
		}
		if c.Risky {
			return j.denyBy(of, of.Ceilings, "the tool's risk is over the ceiling")
		}
		if of.Calls > 0 {
			switch n, what := j.s.eval.Allowed(""); {
			case what != "":
				j.trace.tell(of.Ceilings, "/ceilings/calls", program.Failed)
				return j.deny(contracts.ReasonFailClosedError, "", Why{Rule: of.Ceilings, What: what})
			case n >= of.Calls:
				j.trace.tell(of.Ceilings, "/ceilings/calls", program.No)
				return j.denyBy(of, of.Ceilings, "the session has had as many calls as the ceiling permits")
			}
			j.trace.tell(of.Ceilings, "/ceilings/calls", program.Yes)
		}
		switch x, a := j.s.eval.Match(c.Rules); a {
		case program.Failed:
			return j.fail(x.Name)
		case program.Yes:
			return j.deny(of.Reason, x.Name, explained(&j.s.eval, Why{Rule: x.Name, What: ruleDenies}, x.Tests))
		}
		if c.Outside {
			return j.denyBy(of, of.Only, "the tool is not among those permitted")
		}
		if of.Expiry.Passed(j.in.Time) {
			return j.denyBy(of, of.Expiry.Rule, "the document has expired")
		}
	}
	return true
}

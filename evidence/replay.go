package evidence

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/entry"
)

// entry holds the blobs that an entry names to BLOB and REPLAY. call is the ALLOW that the entry
// is, or that it is the receipt of.
func (r *replayer) entry(st *contracts.Statement, c *chain, call *pending) *Error {
	f := r.holds(st, c, call)
	if f == nil {
		f = r.marked(c, r.marks.before(&r.fold.log, c, st.Parents), bringerOf(st.Receipt, call))
	}
	return f
}

// marked folds what the entry at hand makes of its session: one that names the entries of these
// indexes.
func (r *replayer) marked(c *chain, above []uint64, by *bringer) *Error {
	var tainted bool
	var labels []string
	if by != nil {
		x, f := r.stack(by.policy)
		if f != nil {
			return f
		}
		if x.marks != nil {
			tainted, labels = x.marks.Marks(by.tool, by.signals)
		}
	}
	r.marks.fold(&r.fold.log, c, above, tainted, labels)
	r.back.mark(c, above, by)
	return nil
}

// stub takes the part of a stub in the past of other entries, and in a back-test. Nothing of it is
// judged again. call is the ALLOW that it is of.
func (r *replayer) stub(s *contracts.Stub, c *chain, call *pending) *Error {
	above := r.marks.before(&r.fold.log, c, s.Parents)
	x := s.Receipt
	if x == nil {
		r.back.passStub(call)
		return r.marked(c, above, nil)
	}
	if f := r.back.settleStub(x, call); f != nil {
		return f
	}
	return r.marked(c, above, &bringer{policy: call.policy, tool: call.tool})
}

// holds does what entry does but for what the entry makes of its session.
func (r *replayer) holds(st *contracts.Statement, c *chain, call *pending) *Error {
	switch d := st.Judgement(); {
	case d != nil && d.Verdict == contracts.Deny:
		return r.judgement(st, d, c, &pending{})
	case d != nil:
		return r.judgement(st, d, c, call)
	case st.Receipt != nil:
		if f := r.back.settle(st.Receipt, call); f != nil {
			return f
		}
		return r.outcome(st.Receipt, call)
	}
	return r.blobs.keepAll(st)
}

// judgement makes a verdict again from the kept inputs, and compares these with decision, entry and
// log.
func (r *replayer) judgement(
	st *contracts.Statement, d *contracts.DecisionRecord, c *chain, call *pending,
) *Error {
	raw, f := r.blobs.keep(d.InputsHash, entry.Inputs)
	if raw == nil {
		return r.withoutInputs(st, d, c, f)
	}
	if !r.compiled(d.PolicyHash) {
		raw = bytes.Clone(raw) // the documents are read next
	}
	x, f := r.stack(d.PolicyHash)
	if f != nil {
		return f
	}
	in, err := r.inputs.Inputs(raw)
	if err != nil {
		return r.blobs.note(r.blobs.fault(d.InputsHash, err.Error()))
	}
	if what := r.blobs.canonical.checkInputs(raw, in); what != "" {
		return r.blobs.note(r.blobs.fault(d.InputsHash, what))
	}
	call.kept = true
	call.box = boxOf(in.Sandbox, d.InputsHash)
	if field, what := r.asked(st, d, in); field != "" {
		return r.differs("inputs."+field, what)
	}
	if d.Verdict == contracts.Allow {
		call.nonces = r.reread.noncesOf(d, in)
	}
	p := &logPast{r: r, chain: c, kept: &in.State, policy: x.policy, parents: st.Parents}
	field, what := r.compare(d, in, x, p)
	if field == "" && !r.consumes(call) {
		field, what = "inputs.envelopes.approvals", "an earlier ALLOW consumed the nonce of one that counted"
	}
	switch {
	case p.trouble != nil:
		return p.trouble
	case field != "":
		return r.differs(field, what)
	}
	return r.replayed(d, in, x, p)
}

// withoutInputs takes note of a judgement whose inputs are not there, or not as they should be,
// which is the fault f if it counts at once.
func (r *replayer) withoutInputs(st *contracts.Statement, d *contracts.DecisionRecord, c *chain, f *Error) *Error {
	r.reread.absent.set(r.fold.size())
	r.report.skip(r.fold.size())
	if d.Verdict == contracts.Allow && len(d.Approvals) > 0 {
		r.unread.add(c)
	}
	r.back.pass(d)
	if f != nil {
		return f
	}
	return r.limited(st, d)
}

// compare compares a judgement with what the guardian says, as far as it can be asked. The empty
// field means that they agree.
func (r *replayer) compare(
	d *contracts.DecisionRecord, in *contracts.Inputs, x *stack, p *logPast,
) (field, what string) {
	switch {
	case x.why != "":
		return "predicate.decision.policyHash", x.why
	case x.policy != nil:
		return r.judged(d, in, x.policy, p)
	case d.KernelsOwn():
		field = unlike(&in.State, &contracts.SessionState{})
		if field != "" {
			return "inputs.state." + field, "read of the past by a refusal of the kernel's own"
		}
		return "", ""
	}
	return r.reread.consistent(d, in)
}

// replayed counts a judgement in which nothing differs, and has the candidate judge it.
func (r *replayer) replayed(d *contracts.DecisionRecord, in *contracts.Inputs, x *stack, p *logPast) *Error {
	switch {
	case d.KernelsOwn(): // no engine is asked for the kernel's own refusals
		r.report.KernelsOwn++
		return nil
	case x.policy == nil:
		r.report.skip(r.fold.size())
		r.report.by(x.engine)
		r.back.pass(d)
		return nil
	}
	r.report.Replayed++
	r.report.Unseen += uint64(len(p.unseen))
	return r.back.judge(d, in, p)
}

// limited compares what follows from the documents alone, since the inputs are not there: what the
// tool declares of its effect and risk, and how long it may run. For the rest the verdict would
// have to be made again.
func (r *replayer) limited(st *contracts.Statement, d *contracts.DecisionRecord) *Error {
	x, f := r.stack(d.PolicyHash)
	if f != nil {
		return f
	}
	if x.policy == nil {
		if x.why == "" {
			r.report.by(x.engine)
		}
		return nil
	}
	tool := x.policy.Refuse(contracts.Inputs{Tool: d.Tool}, d.Reason)
	limits, _ := x.policy.Limits(d.Tool)
	field := ""
	switch {
	case d.EffectType != tool.EffectType:
		field = "effectType"
	case d.Risk != tool.Risk:
		field = "risk"
	case d.Verdict == contracts.Allow && d.Expires != st.Time.Add(limits.Timeout):
		field = "expires"
	default:
		return nil
	}
	return r.differs("predicate.decision."+field, "not what the tool declares")
}

// judged asks the guardian, and compares every field. A refusal of the kernel's own read nothing of
// the past.
func (r *replayer) judged(
	d *contracts.DecisionRecord, in *contracts.Inputs, p *guardian.Policy, past *logPast,
) (field, what string) {
	var again contracts.DecisionRecord
	var state contracts.SessionState // what is read of the past
	if d.KernelsOwn() {
		again = p.Refuse(*in, d.Reason)
	} else {
		again, state, _ = p.Decide(in, r.fold.state, past)
	}
	// RECORD has checked them
	again.ID, again.InputsHash, again.PolicyDecisionHash = d.ID, d.InputsHash, d.PolicyDecisionHash
	if !d.Equal(&again) {
		r.text = d.Append(r.text[:0])
		n := len(r.text)
		r.text = again.Append(r.text)
		return "predicate.decision." + difference(r.text[:n], r.text[n:]),
			"not what the guardian says, given the kept inputs"
	}
	if field := unlike(&in.State, &state); field != "" {
		return "inputs.state." + field, "not what the guardian reads of the log"
	}
	if in.ArgsForm == "" {
		if _, missing := p.AppendDefaults(r.text[:0], in.Tool, in.Args); missing {
			return "inputs.args", "a default of the tool's schema is not filled in"
		}
	}
	return "", ""
}

// difference returns the first field in which two canonical records differ.
func difference(a, b []byte) string {
	var t, u crypto.Tree
	limits := func(b []byte) crypto.Limits { return crypto.Limits{Bytes: len(b), Depth: contracts.MaxRecordDepth} }
	if t.Parse(a, limits(a)) != nil || u.Parse(b, limits(b)) != nil {
		return ""
	}
	for _, pair := range [...][2]crypto.Value{{t.Root(), u.Root()}, {u.Root(), t.Root()}} {
		for it := pair[0].Iter(); it.Next(); {
			if !it.Value().Equal(pair[1].Get(string(it.Key()))) {
				return string(it.Key())
			}
		}
	}
	return ""
}

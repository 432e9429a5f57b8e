package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/guardian"
)

// replay takes what an entry says into the fold, and holds the blobs that it names to BLOB and REPLAY.
func (v *verifier) replay(st *contracts.Statement, c *chain, call *pending) *Error {
	switch r, d := st.Receipt, st.Judgement(); {
	case st.Policy != nil:
		v.stacks.add(st.Policy.Policy, v.size())
		return v.keepAll(st)
	case st.Close != nil:
		c.closed = true
	case d != nil:
		if d.Verdict == contracts.Deny {
			v.report.Receipts, v.report.Denials = v.report.Receipts+1, v.report.Denials+1
			return v.judgement(st, d, c, &pending{})
		}
		call := &pending{chain: c, index: v.size(), seq: st.Seq, same: sameOf(d.Tool, d.ArgsHash, d.EffectType), policy: d.PolicyHash, charges: slices.Clone(d.Charges)}
		v.report.Allows++
		v.pending[v.size()] = call
		c.open++
		return v.judgement(st, d, c, call)
	case r != nil:
		v.report.Receipts++
		c.open--
		if f := v.back.settle(r, call); f != nil {
			return f
		}
		return v.outcome(r, call)
	default:
		return v.keepAll(st)
	}
	return nil
}

func (v *verifier) keepAll(st *contracts.Statement) (f *Error) {
	entry.Blobs(st, func(d contracts.Digest, as entry.Role) {
		if f == nil {
			_, f = v.keep(d, as)
		}
	})
	return f
}

// judgement makes a verdict again from the kept inputs, and compares these with decision, entry and log.
func (v *verifier) judgement(st *contracts.Statement, d *contracts.DecisionRecord, c *chain, call *pending) *Error {
	raw, f := v.keep(d.InputsHash, entry.Inputs)
	if raw == nil {
		v.absent.set(v.size())
		v.report.Replay.skip(v.size())
		if d.Verdict == contracts.Allow && len(d.Approvals) > 0 {
			v.unread.add(c)
		}
		v.back.pass(d)
		if f == nil {
			f = v.declared(st, d)
		}
		return f
	}
	own := d.KernelsOwn()
	if !v.stacks.has(d.PolicyHash) {
		raw = bytes.Clone(raw) // the documents are read next
	}
	x, f := v.stack(d.PolicyHash)
	if f != nil {
		return f
	}
	in, err := v.inputs.Inputs(raw)
	if err != nil {
		return v.late(v.fault(ErrBlob, ustar.BlobPrefix+d.InputsHash.String(), err.Error()))
	}
	if what := v.crossedInputs(raw, in); what != "" {
		return v.late(v.fault(ErrBlob, ustar.BlobPrefix+d.InputsHash.String(), what))
	}
	call.kept = true
	if in.Sandbox != nil {
		call.sandbox = sandboxOf(in.Sandbox.Module, in.Sandbox.Profile)
	}
	differs := func(field, what string) *Error { return v.late(v.fault(ErrReplay, field, what)) }
	if field, what := v.asked(st, d, in); field != "" {
		return differs("inputs."+field, what)
	}
	if d.Verdict == contracts.Allow {
		call.nonces = v.noncesOf(d, in)
	}
	past := v.past(c, in)
	field, what := "", ""
	switch {
	case x.why != "":
		field, what = "predicate.decision.policyHash", x.why
	case x.policy != nil:
		field, what = v.judged(d, in, x.policy, past)
	case own:
		if field = unlike(&in.State, &contracts.SessionState{}); field != "" {
			field, what = "inputs.state."+field, "read of the past by a refusal of the kernel's own"
		}
	default:
		if field, what = past.untrue(d, in); field != "" {
			field = "inputs." + field
		}
	}
	if field == "" && !v.consumes(call) {
		field, what = "inputs.envelopes.approvals", "an earlier ALLOW consumed the nonce of one that counted"
	}
	switch {
	case past.trouble != nil:
		return past.trouble
	case field != "":
		return differs(field, what)
	case x.policy == nil && !own: // of its own refusals no engine is asked
		v.report.Replay.skip(v.size())
		if !slices.Contains(v.report.Replay.Engines, x.engine) {
			v.report.Replay.Engines = append(v.report.Replay.Engines, x.engine)
		}
		v.back.pass(d)
		return nil
	}
	if own {
		v.report.Replay.KernelsOwn++
		return nil
	}
	v.report.Replay.Replayed++
	return v.back.judge(d, in, past)
}

// declared compares what follows from the documents alone, though the inputs are not there: what the tool declares of its effect and risk, and
// how long it may run. Of the rest the verdict would have to be made again.
func (v *verifier) declared(st *contracts.Statement, d *contracts.DecisionRecord) *Error {
	x, f := v.stack(d.PolicyHash)
	if f != nil || x.policy == nil {
		return f
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
	return v.late(v.fault(ErrReplay, "predicate.decision."+field, "not what the tool declares"))
}

// judged asks the guardian, and compares every field. Whoever refused by himself asked for nothing.
func (v *verifier) judged(d *contracts.DecisionRecord, in *contracts.Inputs, p *guardian.Policy, past *logPast) (field, what string) {
	var again contracts.DecisionRecord
	told := *in // with what is read of the past
	if d.KernelsOwn() {
		again, told.State = p.Refuse(*in, d.Reason), contracts.SessionState{}
	} else {
		again, told.State, _ = p.Decide(in, v.state, past)
	}
	again.ID, again.InputsHash, again.PolicyDecisionHash = d.ID, d.InputsHash, d.PolicyDecisionHash // RECORD has checked them
	if !d.Equal(&again) {
		v.text = d.Append(v.text[:0])
		n := len(v.text)
		v.text = again.Append(v.text)
		return "predicate.decision." + v.difference(v.text[:n], v.text[n:]), "not what the guardian says, given the kept inputs"
	}
	if field := unlike(&in.State, &told.State); field != "" {
		return "inputs.state." + field, "not what the guardian reads of the log"
	}
	if in.ArgsForm == "" {
		if _, missing := p.AppendDefaults(v.text[:0], in.Tool, in.Args); missing {
			return "inputs.args", "a default of the tool's schema is not filled in"
		}
	}
	return "", ""
}

// difference is the first field in which two canonical records differ.
func (v *verifier) difference(a, b []byte) string {
	var t, u crypto.Tree
	if t.Parse(a, crypto.Limits{Bytes: len(a), Depth: contracts.MaxRecordDepth}) != nil || u.Parse(b, crypto.Limits{Bytes: len(b), Depth: contracts.MaxRecordDepth}) != nil {
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

// asked compares kept inputs with the decision, the entry and the log. The empty field means that they agree.
func (v *verifier) asked(st *contracts.Statement, d *contracts.DecisionRecord, in *contracts.Inputs) (field, what string) {
	const differs = "differs from the decision's"
	raw := in.ArgsForm != ""
	switch s := &in.State; {
	case in.ArgsForm != d.ArgsForm:
		return "argsForm", differs
	case in.ArgsHash != d.ArgsHash:
		return "argsHash", differs
	case in.Idempotency != d.Idempotency:
		return "idempotency", differs
	case in.Tool != d.Tool:
		return "tool", differs
	case !in.Caller.Equal(d.Caller):
		return "caller", differs
	case raw != (in.Args.Kind() == crypto.Missing):
		return "args", "left out with argsForm raw, and only then"
	case in.Time != st.Time:
		return "time", "not the entry's"
	case st.Session == contracts.SessionRefused && !contracts.IsHashed(in.Session) && !v.chain(in.Session).closed:
		return "session", "one that could have held the denial"
	case st.Session != contracts.SessionRefused && in.Session != st.Session:
		return "session", "not the entry's"
	case s.Trust != v.state.Digest():
		return "state.trust", "not the digest of the trust state here"
	case s.From != nil:
		return "state.from", "what was looked up in sources" + entry.Unsupported
	case s.Labels != nil:
		return "state.labels", "what labels the session had" + entry.Unsupported
	case s.Tainted != nil:
		return "state.tainted", "whether the session was tainted" + entry.Unsupported
	case slices.ContainsFunc(s.Receipts, func(r contracts.PriorReceipt) bool { return r.Facts.Kind() != crypto.Missing }):
		return "state.receipts", "facts of an earlier receipt" + entry.Unsupported
	}
	if !raw {
		v.text = in.Args.Append(v.text[:0])
		if crypto.Sum(v.text) != in.ArgsHash {
			return "args", "not those of argsHash"
		}
		if !in.Args.IsArgs() {
			if _, err := v.json.ParseArgs(nil, v.text); err != nil {
				return "args", err.Error()
			}
		}
	}
	return presented(d, &in.Envelopes)
}

// presented compares the envelopes with what the decision lists of them.
func presented(d *contracts.DecisionRecord, e *contracts.Envelopes) (field, what string) {
	among := func(list []contracts.Envelope) func(contracts.Digest) bool {
		return func(d contracts.Digest) bool {
			return !slices.ContainsFunc(list, func(e contracts.Envelope) bool { return e.Digest() == d })
		}
	}
	switch {
	case slices.ContainsFunc(d.Approvals, among(e.Approvals)):
		return "envelopes.approvals", "one that counted is not among them"
	case slices.ContainsFunc(d.Attestations, among(e.Attestations)):
		return "envelopes.attestations", "one that counted is not among them"
	case (d.Delegation != nil) != (len(e.Delegation) > 0), d.Delegation != nil && e.Delegation[0].Digest() != *d.Delegation:
		return "envelopes.delegation", "its leaf is not the decision's"
	}
	return "", ""
}

// sandboxOf names a sandbox as a driver declares it; never the zero Digest.
func sandboxOf(module contracts.Digest, profile string) contracts.Digest {
	return crypto.Sum(append(module[:], profile...))
}

package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/threat"
	"github.com/helmkernel/helm/internal/entry"
)

// outcome holds a receipt that is no denial to what was kept of its call: the sandbox in the
// inputs, the output, the pinned schema.
func (r *replayer) outcome(x *contracts.Receipt, call *pending) *Error {
	f := r.refunded(x, call)
	if f == nil && call.stub {
		f = r.effected(x, call)
	}
	if f != nil {
		return f
	}
	var kept keptOf
	if x.FactsHash != nil {
		kept.facts, f = r.blobs.keep(*x.FactsHash, entry.Facts)
		kept.facts = bytes.Clone(kept.facts) // the output is read next
	}
	if s := x.Sandbox; s != nil && f == nil && s.Profile != contracts.ProfileReported {
		f = r.blobs.keepModule(s.Module)
	}
	if x.OutputHash != nil && f == nil { // last, since it is looked into
		kept.output, f = r.blobs.keep(*x.OutputHash, entry.OutputRole(x))
	}
	if f != nil {
		return f
	}
	if field, what := call.ran(x); field != "" {
		return r.differs("predicate."+field, what)
	}
	if f := r.declared(x, call, kept); f != nil {
		return f
	}
	return r.runs.again(x, call)
}

// effected compares the effect of a receipt with what the tool declares, if there is no decision to
// compare it with.
func (r *replayer) effected(x *contracts.Receipt, call *pending) *Error {
	s, f := r.stack(call.policy)
	if f != nil || s.policy == nil {
		return f
	}
	if d := s.policy.Refuse(contracts.Inputs{Tool: x.Tool}, contracts.ReasonAllow); d.EffectType != x.EffectType {
		return r.differs("predicate.effectType", "not what the tool declares")
	}
	return nil
}

// A keptOf is what was kept of a receipt; nil is what was not.
type keptOf struct{ facts, output []byte }

// isJSON parses an output.
func (r *replayer) isJSON(output []byte) bool {
	return r.blobs.json.Parse(output, crypto.Limits{Bytes: maxBlob, Depth: contracts.MaxRecordDepth}) == nil
}

// declared compares a receipt, and what was kept of it, with what the policy of its call declares
// of the tool.
func (r *replayer) declared(x *contracts.Receipt, call *pending, kept keptOf) *Error {
	if kept.output != nil && !r.compiled(call.policy) {
		kept.output = bytes.Clone(kept.output) // the documents are read next
	}
	s, f := r.stack(call.policy)
	switch {
	case f != nil:
		return f
	case s.why != "" && x.OutputHash != nil && x.Outcome != contracts.Failed && (call.kept || kept.output != nil):
		return r.differs("predicate.outputHash", s.why)
	case s.policy == nil:
		return nil // another engine's, or judgements say why: it is not known what it declares
	}
	field, what := r.pinned(x, s.policy, kept)
	if field == "" {
		field, what = r.extracted(x, s.policy, kept)
	}
	if field == "" {
		field, what = r.scanned(x, s.policy, kept)
	}
	if field != "" {
		return r.differs("predicate."+field, what)
	}
	return nil
}

// pinned compares an output with the response schema that the tool pins. No schema is asked about
// what a failed tool says.
func (r *replayer) pinned(x *contracts.Receipt, p *guardian.Policy, kept keptOf) (field, what string) {
	if x.OutputHash == nil || x.Outcome == contracts.Failed {
		return "", ""
	}
	pinned := p.HasOutput(x.Tool)
	executed := x.Outcome == contracts.Executed
	switch {
	case !pinned && !executed:
		return "reason", "drift, though the tool pins no response schema"
	case pinned && executed && x.OutputForm == "raw":
		return "outputForm", "raw, though the tool pins a response schema"
	case kept.output == nil || x.OutputForm == "raw":
		return "", ""
	}
	isJSON := r.isJSON(kept.output)
	_, conforms := p.CheckOutput(x.Tool, r.blobs.json.Root())
	if isJSON && pinned && conforms != executed {
		return "outputHash", "whether the kept output is as the tool pins it is not what the outcome says"
	}
	return "", ""
}

// extracted compares facts with what the tool declares, and with the output. They follow from it,
// so their digest is enough.
func (r *replayer) extracted(x *contracts.Receipt, p *guardian.Policy, kept keptOf) (field, what string) {
	_, declared := p.Facts(x.Tool, crypto.Value{})
	switch has := x.FactsHash != nil; {
	case has != (declared && x.Outcome == contracts.Executed):
		return "factsHash", "there iff a tool that was executed declares facts"
	case !has:
		return "", ""
	}
	if kept.facts != nil {
		if doc, err := contracts.ParseFacts(kept.facts); err == nil && !p.CheckFacts(x.Tool, doc) {
			return "factsHash", "facts that are not those that the tool declares"
		}
	}
	if kept.output != nil && r.isJSON(kept.output) {
		if doc, _ := p.Facts(x.Tool, r.blobs.json.Root()); crypto.Sum(doc) != *x.FactsHash {
			return "factsHash", "facts that are not those of the output"
		}
	}
	return "", ""
}

// scanned compares the signals of an output that was released with those that are in it.
func (r *replayer) scanned(x *contracts.Receipt, p *guardian.Policy, kept keptOf) (field, what string) {
	unknown := func(id string) bool { _, ok := threat.Lookup(id); return !ok }
	switch released := x.Outcome == contracts.Executed || x.Outcome == contracts.Failed; {
	case len(x.Signals) > 0 && !p.ScansOutputs(x.Tool):
		return "signals", "nothing scans the outputs of the tool"
	case slices.ContainsFunc(x.Signals, unknown):
		return "signals", "one that the table does not have"
	case !released || kept.output == nil:
		return "", ""
	}
	var seen []string
	switch {
	case x.OutputForm == "raw":
		seen = p.RawSignals(x.Tool, kept.output)
	case !p.ScansOutputs(x.Tool):
	case r.isJSON(kept.output):
		seen = p.Signals(x.Tool, r.blobs.json.Root())
	}
	if !slices.Equal(x.Signals, seen) {
		return "signals", "not those in the kept output"
	}
	return "", ""
}

// refunded compares what a failed tool's receipt keeps of its charges with what the budgets say.
// BUDGET has checked every other outcome.
func (r *replayer) refunded(x *contracts.Receipt, call *pending) *Error {
	if x.Reason != contracts.ReasonToolError || len(call.charges) == 0 {
		return nil
	}
	s, f := r.stack(call.policy)
	if f != nil || s.policy == nil {
		return f // judged says why it does not compile
	}
	refunds := s.policy.Refunds(x.Tool, x.Reason)
	for i, c := range call.charges {
		if slices.Contains(refunds, c.Budget) {
			c.Amount = 0
		}
		if x.Settled[i].Amount != c.Amount {
			return r.differs("predicate.settled.amount", "not what the budget says of a tool's own failure")
		}
	}
	return nil
}

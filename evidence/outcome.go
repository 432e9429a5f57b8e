package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
)

// outcome holds a receipt that is no denial to what was kept of its call: the sandbox in the
// inputs, the output, the pinned schema.
func (r *replayer) outcome(x *contracts.Receipt, call *pending) *Error {
	if f := r.refunded(x, call); f != nil {
		return f
	}
	var facts, output []byte
	var f *Error
	if x.FactsHash != nil {
		facts, f = r.blobs.keep(*x.FactsHash, entry.Facts)
	}
	if s := x.Sandbox; s != nil && f == nil && s.Profile != entry.Reported {
		f = r.blobs.keepModule(s.Module)
	}
	if x.OutputHash != nil && f == nil { // last, since it is looked into
		output, f = r.blobs.keep(*x.OutputHash, entry.OutputRole(x))
	}
	switch {
	case f != nil:
		return f
	case facts != nil:
		return r.differs("predicate.factsHash", "a facts document"+entry.Unsupported)
	case call.kept && x.Sandbox != nil && sandboxOf(x.Sandbox.Module, x.Sandbox.Profile) != call.sandbox:
		return r.differs("predicate.sandbox", "not the one that the driver declared")
	case !call.kept && output == nil || x.OutputHash == nil || x.Outcome == contracts.Failed:
		return nil // no schema is asked about what a failed tool says
	}
	return r.pinned(x, call, output)
}

// isJSON parses an output.
func (r *replayer) isJSON(output []byte) bool {
	return r.blobs.json.Parse(output, crypto.Limits{Bytes: maxBlob, Depth: contracts.MaxRecordDepth}) == nil
}

// pinned compares an output, nil if it was not kept, with the response schema that the tool pins.
func (r *replayer) pinned(x *contracts.Receipt, call *pending, output []byte) *Error {
	if output != nil && !r.compiled(call.policy) {
		output = bytes.Clone(output) // the documents are read next
	}
	s, f := r.stack(call.policy)
	switch {
	case f != nil:
		return f
	case s.why != "":
		return r.differs("predicate.outputHash", s.why)
	case s.policy == nil:
		return nil // another engine's: it is not known what it pins
	}
	pinned := s.policy.HasOutput(x.Tool)
	executed := x.Outcome == contracts.Executed
	switch {
	case !pinned && !executed:
		return r.differs("predicate.reason", "drift, though the tool pins no response schema")
	case pinned && executed && x.OutputForm == "raw":
		return r.differs("predicate.outputForm", "raw, though the tool pins a response schema")
	case output == nil || x.OutputForm == "raw":
		return nil
	}
	isJSON := r.isJSON(output)
	_, conforms := s.policy.CheckOutput(x.Tool, r.blobs.json.Root())
	if isJSON && pinned && conforms != executed {
		return r.differs("predicate.outputHash",
			"whether the kept output is as the tool pins it is not what the outcome says")
	}
	return nil
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

package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
)

// outcome holds a receipt that is no denial to what was kept of its call: the sandbox in the inputs, the output, the pinned schema.
func (v *verifier) outcome(r *contracts.Receipt, call *pending) *Error {
	differs := func(field, what string) *Error { return v.late(v.fault(ErrReplay, "predicate."+field, what)) }
	if f := v.refunded(r, call); f != nil {
		return f
	}
	var facts, output []byte
	var f *Error
	if r.FactsHash != nil {
		facts, f = v.keep(*r.FactsHash, entry.Facts)
	}
	if r.OutputHash != nil && f == nil {
		output, f = v.keep(*r.OutputHash, entry.OutputRole(r))
	}
	switch {
	case f != nil:
		return f
	case facts != nil:
		return differs("factsHash", "a facts document"+entry.Unsupported)
	}
	whole := crypto.Limits{Bytes: maxBlob, Depth: contracts.MaxRecordDepth}
	if r.OutputForm == "raw" && output != nil && v.json.Parse(output, whole) == nil {
		return differs("outputForm", "raw, though the output is strict JSON")
	}
	if call.kept && r.Sandbox != nil && sandboxOf(r.Sandbox.Module, r.Sandbox.Profile) != call.sandbox {
		return differs("sandbox", "not the one that the driver declared")
	}
	if !call.kept && output == nil || r.OutputHash == nil {
		return nil
	}
	if output != nil && !v.stacks.has(call.policy) {
		output = bytes.Clone(output) // the documents are read next
	}
	x, f := v.stack(call.policy)
	switch {
	case f != nil:
		return f
	case x.why != "":
		return differs("outputHash", x.why)
	case x.policy == nil:
		return nil // another engine's: what it pins is not known
	}
	pinned := x.policy.HasOutput(r.Tool)
	executed := r.Outcome == contracts.Executed
	switch {
	case !pinned && !executed:
		return differs("reason", "drift, though the tool pins no response schema")
	case pinned && executed && r.OutputForm == "raw":
		return differs("outputForm", "raw, though the tool pins a response schema")
	case output == nil || r.OutputForm == "raw":
		return nil
	}
	err := v.json.Parse(output, whole)
	_, conforms := x.policy.CheckOutput(r.Tool, v.json.Root())
	if err == nil && pinned && conforms != executed {
		return differs("outputHash", "whether the kept output is as the tool pins it is not what the outcome says")
	}
	return nil
}

// refunded holds what a failed tool's receipt keeps of its charges to what the budgets say. Of every other outcome BUDGET has said it.
func (v *verifier) refunded(r *contracts.Receipt, call *pending) *Error {
	if r.Reason != contracts.ReasonToolError || len(call.charges) == 0 {
		return nil
	}
	x, f := v.stack(call.policy)
	if f != nil || x.policy == nil {
		return f // why is said where its policy judges
	}
	refunds := x.policy.Refunds(r.Tool, r.Reason)
	for i, c := range call.charges {
		if slices.Contains(refunds, c.Budget) {
			c.Amount = 0
		}
		if r.Settled[i].Amount != c.Amount {
			return v.late(v.fault(ErrReplay, "predicate.settled.amount", "not what the budget says of a tool's own failure"))
		}
	}
	return nil
}

package helm

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// Decision is the answer to an Intent. The zero Decision denies.
type Decision struct {
	Verdict contracts.Verdict          // the last word: Allow only if allowed, ran and recorded
	Reason  contracts.ReasonCode       // of the verdict
	Why     string                     // where it went wrong: JSON Pointer, constraint, rule id; never a value
	Record  contracts.DecisionRecord   // what was decided before anything ran, as signed in its entry
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED: what an approver must sign

	tool  string
	own   error // the tool's own error
	cause error
}

// Allowed tells whether the call was judged admissible, ran, and was recorded. It is true also when the tool itself failed: [Decision.Err]
// is nil exactly when the output was released.
func (d Decision) Allowed() bool { return d.Verdict == contracts.Allow }

// Err is nil exactly when the output was released. Else it is an [*Error], which Is ErrDenied or ErrWithheld, or the tool's own error,
// which is neither.
func (d Decision) Err() error {
	switch {
	case d.Verdict == contracts.Allow && d.Reason == contracts.ReasonAllow:
		return nil
	case d.Verdict == contracts.Allow && d.own != nil:
		return d.own
	}
	return &Error{Tool: d.tool, Reason: d.Reason, Why: d.Why, Pending: d.Pending, Err: foreign(d.cause)}
}

// Receipt is the proof of what became of a call. It is zero where nothing was recorded.
type Receipt struct {
	Record contracts.Receipt // what was signed, to read
	Entry  contracts.Entry   // the exact signed bytes: what to keep, send and verify
	Index  uint64            // place in the log
	Output []byte            // nil unless released; JSON, or raw bytes where the tool's output is not strict JSON
}

// Ref names the receipt, for Intent.After.
func (r Receipt) Ref() contracts.Ref {
	if len(r.Entry) == 0 {
		return contracts.Ref{}
	}
	return contracts.Ref{Index: r.Index, Hash: r.Entry.Hash()}
}

// MarshalJSON writes the entry. There is no UnmarshalJSON: a receipt is verified, by receipts.Open, not decoded.
func (r Receipt) MarshalJSON() ([]byte, error) { return r.Entry.MarshalJSON() }

// clone shares nothing with d that somebody could change.
func (d Decision) clone() Decision {
	d.Record = cloneRecord(d.Record)
	if d.Pending = copied(d.Pending); d.Pending != nil {
		d.Pending.Caller.Roles, d.Pending.Roles = slices.Clone(d.Pending.Caller.Roles), slices.Clone(d.Pending.Roles)
	}
	return d
}

// clone shares nothing with r that somebody could change.
func (r Receipt) clone() Receipt {
	r.Entry, r.Output = bytes.Clone(r.Entry), bytes.Clone(r.Output)
	x := &r.Record
	if x.Decision != nil {
		d := cloneRecord(*x.Decision)
		x.Decision = &d
	}
	x.FactsHash, x.OutputHash, x.Sandbox = copied(x.FactsHash), copied(x.OutputHash), copied(x.Sandbox)
	x.Settled, x.Signals = slices.Clone(x.Settled), slices.Clone(x.Signals)
	return r
}

func cloneRecord(d contracts.DecisionRecord) contracts.DecisionRecord {
	d.Approvals, d.Attestations, d.Charges, d.Signals = slices.Clone(d.Approvals), slices.Clone(d.Attestations), slices.Clone(d.Charges), slices.Clone(d.Signals)
	d.Caller.Roles = slices.Clone(d.Caller.Roles)
	d.Delegation, d.Pending = copied(d.Delegation), copied(d.Pending)
	return d
}

// copied gives a pointer to a copy.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	x := *p
	return &x
}

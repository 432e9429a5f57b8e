package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// consistent returns the first field in which the kept inputs of a judgement of another version of
// the engine do not agree with the decision. The judgement is not made again, and what its inputs
// say of the past is not compared with the log: what that engine reads of it is not known here.
func (x *rereader) consistent(d *contracts.DecisionRecord, in *contracts.Inputs) (field, what string) {
	for i := range d.Charges {
		c := &d.Charges[i]
		before := contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: c.Before, Window: c.Window}
		if !slices.Contains(in.State.Budgets, before) {
			return "inputs.state.budgets", "they lack the balance before a charge"
		}
	}
	var used []contracts.Digest
	if in.State.Used != nil {
		used = *in.State.Used
	}
	for _, u := range used {
		if !holds(in.Envelopes.Approvals, u) && !holds(in.Envelopes.Attestations, u) {
			return "inputs.state.used", "an envelope that was not presented"
		}
		if d.Verdict == contracts.Allow && slices.Contains(d.Approvals, u) {
			return "inputs.state.used", "an approval that counted"
		}
	}
	for _, e := range in.Envelopes.Approvals {
		if slices.Contains(d.Approvals, e.Digest()) && x.approval(e) == nil {
			return "inputs.envelopes.approvals", "one that counted is no approval"
		}
	}
	return "", ""
}

// holds reports whether an envelope of that digest is in the list.
func holds(list []contracts.Envelope, d contracts.Digest) bool {
	return slices.ContainsFunc(list, func(e contracts.Envelope) bool { return e.Digest() == d })
}

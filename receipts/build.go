package receipts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Result is how a run ended.
type Result struct {
	Reason  contracts.ReasonCode
	Output  []byte // canonical JSON, or bytes as the tool returned them; only its hash is recorded
	Form    string // of Output: "jcs" or "raw"; "" if the reason has no output
	Facts   []byte // the facts document, if the tool declares facts; only its hash is recorded
	Signals []string
	Sandbox *contracts.SandboxUse
	Refunds []string // budgets that return their charge: only if the tool itself failed
}

// Denied returns the receipt of a call that was not admissible. It refers to d. For an ALLOW it
// returns the zero Receipt, which no writer accepts.
func Denied(d *contracts.DecisionRecord) contracts.Receipt {
	if d == nil || d.Verdict == contracts.Allow {
		return contracts.Receipt{}
	}
	return contracts.Receipt{Outcome: contracts.Denied, Decision: d}
}

// Build returns the receipt of a permitted call. d is its decision, and entry the hash of the
// decision's entry. Build refuses a result that no reader would accept.
func Build(d *contracts.DecisionRecord, entry contracts.Digest, o Result) (*contracts.Receipt, error) {
	if d == nil || d.Verdict != contracts.Allow {
		return nil, errors.New("receipts: build: the decision is no ALLOW")
	}
	if len(o.Refunds) > 0 && o.Reason != contracts.ReasonToolError {
		return nil, errors.New("receipts: build: a refund, though it is not the tool itself that failed")
	}
	b := &struct {
		contracts.Receipt
		output  contracts.Digest
		facts   contracts.Digest
		sandbox contracts.SandboxUse
		grants  contracts.Digest
	}{}
	r := &b.Receipt
	*r = contracts.Receipt{ArgsHash: d.ArgsHash, DecisionHash: entry, EffectType: d.EffectType, Reason: o.Reason,
		Tool:       d.Tool,
		OutputForm: o.Form, Settled: settled(d.Charges, o.Refunds), Signals: slices.Clone(o.Signals)}
	r.Outcome, r.Verdict = o.Reason.Ending()
	if o.Form != "" {
		b.output = crypto.Sum(o.Output)
		r.OutputHash = &b.output
	}
	if o.Facts != nil {
		b.facts = crypto.Sum(o.Facts)
		r.FactsHash = &b.facts
	}
	if o.Sandbox != nil {
		b.sandbox = *o.Sandbox
		r.Sandbox = &b.sandbox
		if o.Sandbox.Grants != nil {
			b.grants = *o.Sandbox.Grants
			b.sandbox.Grants = &b.grants
		}
	}
	effect := r.Effect()
	r.EffectHash = effect.Hash()
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("receipts: build: %w", err)
	}
	if (o.Form == "" && len(o.Output) > 0) || (o.Form == "jcs" && len(o.Output) == 0) {
		return nil, errors.New("receipts: build: an output without a form, or JSON without a byte")
	}
	return r, nil
}

// settled returns the charges that stay: all but those of the budgets that return theirs.
func settled(charges []contracts.Charge, refunds []string) []contracts.Settlement {
	if len(charges) == 0 {
		return nil
	}
	list := make([]contracts.Settlement, 0, len(charges))
	for _, c := range charges {
		if slices.Contains(refunds, c.Budget) {
			c.Amount = 0
		}
		list = append(list, contracts.Settlement{Amount: c.Amount, Budget: c.Budget, Of: c.Of})
	}
	return list
}

// Unknown returns the receipt of a permitted call that an earlier process did not finish. d is its
// decision, and entry the hash of the decision's entry.
func Unknown(d *contracts.DecisionRecord, entry contracts.Digest) *contracts.Receipt {
	r, err := Build(d, entry, Result{Reason: contracts.ReasonOutcomeUnknown})
	if err != nil {
		return nil
	}
	return r
}

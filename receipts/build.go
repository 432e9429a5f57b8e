package receipts

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Result is how a run ended.
type Result struct {
	Reason  contracts.ReasonCode
	Output  []byte // canonical JSON, or bytes as the tool returned them; only its hash is recorded
	Form    string // of Output: "jcs" or "raw"; "" where the reason has no output
	Sandbox *contracts.SandboxUse
}

// Denied is the receipt of a call that was not admissible. It refers to d. That of an ALLOW is zero, which no writer takes.
func Denied(d *contracts.DecisionRecord) contracts.Receipt {
	if d == nil || d.Verdict == contracts.Allow {
		return contracts.Receipt{}
	}
	return contracts.Receipt{Outcome: contracts.Denied, Decision: d}
}

// Build is the receipt of a permitted call. d is its decision, and entry the hash of the entry in which that stands. Build refuses what no
// reader would take.
func Build(d *contracts.DecisionRecord, entry contracts.Digest, o Result) (*contracts.Receipt, error) {
	if d == nil || d.Verdict != contracts.Allow {
		return nil, errors.New("receipts: build: the decision is no ALLOW")
	}
	b := &struct {
		contracts.Receipt
		output  contracts.Digest
		sandbox contracts.SandboxUse
	}{}
	r := &b.Receipt
	*r = contracts.Receipt{ArgsHash: d.ArgsHash, DecisionHash: entry, EffectType: d.EffectType, Reason: o.Reason, Tool: d.Tool,
		OutputForm: o.Form, Settled: settled(d.Charges)}
	r.Outcome, r.Verdict = o.Reason.Ending()
	if o.Form != "" {
		b.output = crypto.Sum(o.Output)
		r.OutputHash = &b.output
	}
	if o.Sandbox != nil {
		b.sandbox = *o.Sandbox
		r.Sandbox = &b.sandbox
	}
	effect := r.Effect()
	r.EffectHash = effect.Hash()
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("receipts: build: %w", err)
	}
	if (o.Form == "") != (len(o.Output) == 0) {
		return nil, errors.New("receipts: build: the form of an output goes with an output that is not empty")
	}
	return r, nil
}

// settled is what stays charged: everything.
func settled(charges []contracts.Charge) []contracts.Settlement {
	if len(charges) == 0 {
		return nil
	}
	list := make([]contracts.Settlement, 0, len(charges))
	for _, c := range charges {
		list = append(list, contracts.Settlement{Amount: c.Amount, Budget: c.Budget, Of: c.Of})
	}
	return list
}

// Unknown is the receipt of a permitted call that the process before did not finish. d is its decision, and entry the hash of its entry.
func Unknown(d *contracts.DecisionRecord, entry contracts.Digest) *contracts.Receipt {
	r, err := Build(d, entry, Result{Reason: contracts.ReasonOutcomeUnknown})
	if err != nil {
		return nil
	}
	return r
}

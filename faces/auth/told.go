package auth

import (
	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Told is what an answer says of calls, in its member helm: nothing of arguments or outputs.
type Told struct {
	Session string     `json:"session"`
	Calls   []ToldCall `json:"calls"`
}

// ToldCall is what is said of one call.
type ToldCall struct {
	ID       string                     `json:"id,omitempty"` // that the model gave it
	Tool     string                     `json:"tool"`
	Verdict  contracts.Verdict          `json:"verdict"`
	Reason   contracts.ReasonCode       `json:"reason,omitempty"` // of a denial
	Why      string                     `json:"why,omitempty"`
	Decision string                     `json:"decision,omitempty"` // session/seq; empty: nothing was judged
	Receipt  *ToldReceipt               `json:"receipt,omitempty"`
	Pending  *contracts.ApprovalRequest `json:"pending,omitempty"`
}

// ToldReceipt names a receipt in the log.
type ToldReceipt struct {
	Index uint64           `json:"index"`
	Hash  contracts.Digest `json:"hash"`
}

// Tell returns what is said of a call.
func Tell(id string, d helm.Decision, r helm.Receipt) ToldCall {
	t := ToldCall{ID: id, Tool: d.Record.Tool, Verdict: d.Verdict, Decision: d.Record.ID}
	if d.Verdict != contracts.Allow {
		t.Reason, t.Why, t.Pending = d.Reason, d.Why, d.Pending
	}
	if ref := r.Ref(); ref != (contracts.Ref{}) {
		t.Receipt = &ToldReceipt{ref.Index, ref.Hash}
	}
	return t
}

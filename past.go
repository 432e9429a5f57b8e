package helm

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// past is what the guardian asks of the log for one call.
type past struct{ *call }

func (p past) Spent(c contracts.Charge) uint64 { return p.ledger.Spent(c) }

func (past) Calls(string) uint64 { return 0 }

func (past) Receipt(string, crypto.Value) (contracts.PriorReceipt, error) {
	return contracts.PriorReceipt{}, errors.New("helm: the session's receipts cannot be told")
}

func (past) Used(contracts.Digest, *contracts.ApprovalRequest) bool { return true }

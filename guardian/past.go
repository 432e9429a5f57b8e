package guardian

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Past is what the guardian asks of a log, for one call in one session: of the entries before the call's own. [Policy.Decide] asks, and
// leaves the answers in the inputs, so that [Policy.Judge] need not.
type Past interface {
	// Spent is the balance that a charge would be made on: of a [Ledger].
	Spent(c contracts.Charge) uint64

	// Calls counts the ALLOWs of the session, of one tool or, with "", of all.
	Calls(tool string) uint64

	// Receipt is the latest EXECUTED receipt of a tool in the session, with these values in the arguments of its call: same is an object of
	// pointers and values, Missing where any receipt will do. Without Entry there is none. An error says that it cannot be told. The answer
	// is the guardian's to keep.
	Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error)

	// Used tells whether an earlier ALLOW, of the session or of another, consumed the request that the approval with that digest answers.
	Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool
}

// Package past says what was before a call, as far as a verdict may depend on it: how much is spent
// of each budget, and what the call's session has done.
//
// A [Past] is what package guardian asks while it judges a call. A [Ledger] is the fold of all
// charges of a log, and a [Session] is the fold of the entries of one session. A kernel keeps both
// as it writes the log, and a verifier folds them again as it reads one.
package past

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Past answers what the guardian asks of a log, for one call in one session. It speaks of the
// entries before the call's own.
type Past interface {
	// Spent returns the balance that a charge would be made on, as a [Ledger] has it.
	Spent(c contracts.Charge) uint64

	// Calls returns how many calls of the session were allowed: of one tool or, with "", of all.
	Calls(tool string) uint64

	// Receipt returns the latest EXECUTED receipt of a tool in the session whose call had these
	// values in its arguments. same is an object of pointers and values; if it is Missing, any
	// receipt will do. The answer has no Entry if there is no such receipt. An error means that
	// this cannot be known. The guardian keeps the answer.
	Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error)

	// Used reports whether an earlier ALLOW, in this session or another, consumed the request that
	// the approval with this digest answers.
	Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool
}

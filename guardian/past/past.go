// Package past says what was before a call, as far as a verdict may depend on it: how much is spent
// of each budget, and what the call's session has done.
//
// A [Past] is what package guardian asks while it judges a call. A [Ledger] is the fold of all
// charges of a log, a [Session] is the fold of the entries of one session, and a [Marks] holds what
// sessions pass on to one another. A kernel keeps them as it writes the log, and a verifier folds
// them again as it reads one. From each entry is folded:
//
//	decision            its charges (Ledger.Charge), the call and its approvals (Session.Allow)
//	receipt             what is given back of charges (Ledger.Settle)
//	receipt, EXECUTED   the run, its arguments, the digest of its facts (Session.Execute)
//	message             the digest of the user's words (Session.Message)
//	each of a session   what it brings of taint and labels, and what its parents bring
//	that callers name   (Session.Mark)
//
// Arguments, facts documents and the user's words are blobs, and may be erased. A Session that was
// given one goes by it. Else it reads the blob at the first question that needs it, and has no
// answer as long as that fails. The session main is asked for none of this, and only its charges
// and marks need be folded.
package past

import (
	"cmp"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/source"
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
	// receipt will do. The answer has no Entry if there is no such receipt, and never Facts. An
	// error means that this cannot be known. The guardian keeps the answer.
	Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error)

	// Facts returns the facts document of a receipt that Receipt returned, or a Missing value if
	// the receipt has none. An error means that it cannot be read.
	Facts(r *contracts.PriorReceipt) (crypto.Value, error)

	// Source returns what a source of values supplied. An error means that this cannot be known.
	Source(s Source) (Supply, error)

	// Marks returns whether the session is tainted, and its labels, sorted by canonical form: by
	// the entries before the call's own, and by those in its parents. The labels must not be
	// modified. An error means that this cannot be known.
	Marks() (tainted bool, labels []string, err error)

	// Used reports whether an earlier ALLOW, in this session or another, consumed the request that
	// the approval with this digest answers.
	Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool
}

// A Source is what a policy asks for a value: the user's own words, or a fact of a tool.
type Source struct {
	Tool     string       // "": the user
	Fact     string       // the key of the fact in facts documents
	Declared *Declaration // of the tool
}

// A Declaration is what the policy of a judgement says of the facts of a tool, as far as it matters
// to sources. If the policy is compiled once, all its judgements have the same pointer.
type Declaration struct {
	facts []source.Fact // sorted by key
}

// A Fact is one declared fact of a tool that is no count.
type Fact struct {
	Key     string // its pointer as written, the key of facts documents
	Text    bool   // its values are texts, in which values are looked for
	Vouches bool   // it may be asked as a source
}

// NewDeclaration returns the declaration of these facts, which are all of a tool but counts. Those
// that may not vouch belong to it too, because their values use up the allowance of the tool.
func NewDeclaration(facts []Fact) *Declaration {
	d := new(Declaration)
	for _, f := range facts {
		d.facts = append(d.facts, source.Fact(f))
	}
	slices.SortFunc(d.facts, func(a, b source.Fact) int { return cmp.Compare(a.Key, b.Key) })
	return d
}

// A Supply is what a source supplied to a session before a call.
type Supply struct {
	// Count is the number of messages of the session, or of facts documents of the tool. State is
	// 32 zero bytes, then for each of them in log order SHA-256(State ‖ its digest). Both are of
	// all of them, those that are no source too.
	Count uint64
	State contracts.Digest

	Full   bool // the allowance is used up: some are no source
	Bytes  int  // of the texts that the source holds
	Values interface{ Has(v crypto.Value) bool }
}

// Has reports whether the source supplied the value.
func (s *Supply) Has(v crypto.Value) bool { return s.Values != nil && s.Values.Has(v) }

package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// pair does the check ARCHIVE as far as it depends on the receipt, and REFERENCE and BUDGET as far
// as two entries show them.
func (x *excerpt) pair() *Error {
	last := &x.entries[len(x.entries)-1]
	r := last.statement.Receipt
	switch denied := r.Decision != nil; {
	case denied && len(x.entries) > 1:
		return newError(ErrArchive, "decision", "the receipt is of a denial, and has its decision itself")
	case denied:
		return nil
	case len(x.entries) == 1:
		return newError(ErrArchive, "decision", "it is missing, and the receipt is not of a denial")
	}
	first := &x.entries[0]
	if field, what := refers(last, first); field != "" {
		return last.fault(newError(ErrReference, field, what))
	}
	if err := settles(r, first.statement.Decision.Charges); err != nil {
		return last.fault(newError(ErrBudget, "predicate.settled", err.Error()))
	}
	return nil
}

// refers returns in which field a receipt is not of that decision. In a log CHAIN and GRAPH hold
// the order of the two.
func refers(receipt, decision *excerpted) (field, what string) {
	is, was := receipt.statement, decision.statement
	r, d := is.Receipt, was.Decision
	switch {
	case r.DecisionHash != decision.hash:
		return "predicate.decisionHash", "not that of the decision"
	case is.Session != was.Session:
		return "predicate.session", "not that of the decision"
	case receipt.proof.index <= decision.proof.index:
		return "proof", "its index is not after that of the decision"
	case is.Seq <= was.Seq:
		return "predicate.seq", "not after that of the decision"
	case (is.Prev == decision.hash) != (is.Seq == was.Seq+1):
		return "predicate.prev", "the decision, iff no entry of the session is between the two"
	case is.Lamport <= was.Lamport:
		return "predicate.lamport", "not after that of the decision"
	case is.Time < was.Time:
		return "predicate.time", "before that of the decision"
	case sameOf(r.Tool, r.ArgsHash, r.EffectType) != sameOf(d.Tool, d.ArgsHash, d.EffectType):
		return "predicate.argsHash", "it, effectType or tool differs from the decision's"
	}
	return "", ""
}

// settles returns an error if the receipt does not say of each charge of the decision whether it
// stays. The balances before are not known.
func settles(r *contracts.Receipt, charges []contracts.Charge) error {
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Before = 0
	}
	var l past.Ledger
	if err := l.Charge(charges); err != nil {
		return err
	}
	return l.Settle(charges, r.Settled, r.Reason)
}

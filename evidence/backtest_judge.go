package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
)

// A backTest judges by a candidate what a verifier goes over. Of a change it holds where it is and what is said now; all else is read again when
// the pack is verified, so that nothing is told of a pack that is not, and little is held of one.
type backTest struct {
	r         *replayer
	candidate *guardian.Policy
	lists     bool // changes are asked for, not only their number
	found     Differences
	changes   []changed
	said      []Judged // each once
	numbers   map[Judged]uint32
	ledger    past.Ledger // of the candidate's budgets
	spent     map[uint64]spending

	tree         crypto.Tree // of arguments with the candidate's defaults
	filled, args []byte
}

// A changed is a change: its entry, of which an index holds no more, and what is said now.
type changed struct{ index, said uint32 }

// A spending is what a call has charged, by the index of its decision, until its receipt.
type spending struct {
	charges []contracts.Charge
	logged  bool // it is taken to have gone as it did then
}

// newBackTest has a replayer judge by a candidate, too.
func newBackTest(r *replayer, candidate *guardian.Policy, lists bool) *backTest {
	r.back = &backTest{
		r:         r,
		candidate: candidate,
		lists:     lists,
		spent:     map[uint64]spending{},
		numbers:   map[Judged]uint32{},
	}
	return r.back
}

// judge judges the call of the entry at hand, whose verdict was made again.
func (b *backTest) judge(d *contracts.DecisionRecord, in *contracts.Inputs, kept *logPast) *Error {
	if b == nil {
		return nil
	}
	if d.PolicyHash == b.candidate.Hash() { // the candidate has judged it, on the balances of then
		b.found.Judged, b.found.Same = b.found.Judged+1, b.found.Same+1
		b.spend(d, d.Charges, true)
		return nil
	}
	told := *in
	b.fill(&told)
	p := &elsewise{logPast: kept, ledger: &b.ledger}
	again, _, _ := b.candidate.Decide(&told, b.r.fold.state, p)
	switch {
	case p.trouble != nil:
		return p.trouble
	case p.untold:
		b.pass(d)
		return nil
	}
	n, now := &b.found, judgedOf(&again)
	if n.Judged++; now.Verdict == contracts.Allow || anew(d, now) {
		b.spend(d, p.charges, false)
	}
	switch then := judgedOf(d); {
	case anew(d, now):
		n.Anew++
	case then.Verdict != now.Verdict && now.Verdict == contracts.Deny:
		n.Denied++
	case then.Verdict != now.Verdict:
		n.Allowed++
	case then == now, then.lacksApproval() && now.lacksApproval() && len(in.Envelopes.Approvals) > 0: // which could count then, and cannot now
		n.Same++
		return nil
	default:
		n.Otherwise++
	}
	b.note(now)
	return nil
}

// pass notes a call that cannot be judged: it is taken to have gone as it did.
func (b *backTest) pass(d *contracts.DecisionRecord) {
	if b != nil {
		b.found.Unjudged = append(b.found.Unjudged, b.r.fold.size())
		b.spend(d, d.Charges, true)
	}
}

// note notes a change at the entry at hand.
func (b *backTest) note(now Judged) {
	if !b.lists {
		return
	}
	n, ok := b.numbers[now]
	if !ok {
		n = uint32(len(b.said))
		b.numbers[now], b.said = n, append(b.said, now)
	}
	b.changes = append(b.changes, changed{uint32(b.r.fold.size()), n})
}

// fill fills in what the candidate has defaults for. What is too much with them no kernel takes for arguments.
func (b *backTest) fill(in *contracts.Inputs) {
	if in.ArgsForm != "" {
		return
	}
	var missing bool
	if b.filled, missing = b.candidate.AppendDefaults(b.filled[:0], in.Tool, in.Args); !missing {
		return
	}
	var err error
	if b.args, err = b.tree.ParseArgs(b.args[:0], b.filled); err != nil {
		in.Args, in.ArgsForm = crypto.Value{}, "raw"
		return
	}
	in.Args, in.ArgsHash = b.tree.Root(), crypto.Sum(b.args)
}

// spend charges what a call asks, whatever the limits: they were asked for before, or are not the candidate's.
func (b *backTest) spend(d *contracts.DecisionRecord, charges []contracts.Charge, logged bool) {
	if len(charges) == 0 {
		return
	}
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Limit = ^uint64(0)
	}
	b.ledger.Reserve(charges, nil)
	if d.Verdict == contracts.Allow { // else it did not run, and nobody knows what would have become of it: all stays charged
		b.spent[b.r.fold.size()] = spending{charges, logged}
	}
}

// settle gives back what a call has charged, where the tool itself failed then.
func (b *backTest) settle(r *contracts.Receipt, call *pending) *Error {
	if b == nil {
		return nil
	}
	x, ok := b.spent[call.index]
	delete(b.spent, call.index)
	if !ok || r.Reason != contracts.ReasonToolError {
		return nil
	}
	settled := r.Settled
	if !x.logged {
		refunds := b.candidate.Refunds(r.Tool, r.Reason)
		settled = make([]contracts.Settlement, len(x.charges))
		for i, c := range x.charges {
			if settled[i] = (contracts.Settlement{Amount: c.Amount, Budget: c.Budget, Of: c.Of}); slices.Contains(refunds, c.Budget) {
				settled[i].Amount = 0
			}
		}
	}
	if err := b.ledger.Settle(x.charges, settled, r.Reason); err != nil {
		return b.r.fold.fault(ErrBudget, "predicate.settled", err.Error()) // cannot be: it was charged
	}
	return nil
}

// An elsewise is the past of a call for another stack than the one that judged it: what the log tells, and balances of the stack's own.
type elsewise struct {
	*logPast
	ledger  *past.Ledger
	charges []contracts.Charge // that were asked for
	untold  bool               // the answer hangs on what is not there
}

var _ past.Past = (*elsewise)(nil)

// Spent is asked for each charge once.
func (p *elsewise) Spent(c contracts.Charge) uint64 {
	p.charges = append(p.charges, c)
	return p.ledger.Spent(c)
}

// Receipt is what the log says. What cannot be read may matter if it is later than what can, unless the stack of then asked the same.
func (p *elsewise) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r, s, err := p.latest(tool, same)
	if err != nil || same.Kind() == crypto.Missing || p.answered(s, &r) {
		return r, err
	}
	for _, run := range s.gone {
		if run.Tool == tool && later(&p.r.fold.log, run.Receipt, &r) {
			p.untold = true
			return r, errUntold
		}
	}
	return r, nil
}

// Used is what the log says: an approval may be for the candidate, and have been shown to another stack.
func (p *elsewise) Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool {
	if at, ok := p.r.nonces[nonceOf(r.Nonce)]; ok && uint64(at) != p.r.fold.size() || p.logPast.Used(approval, r) {
		return true
	}
	p.untold = p.untold || p.r.unread.outside(p.chain) || p.session().lost.maybe(r)
	return false
}

package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
)

// A backTest has a candidate judge the calls that a verifier replays. Of a change it holds the
// place and the new judgement. All else is read again when the pack is verified, so that nothing is
// reported of a pack that is not, and little is held of one.
type backTest struct {
	r         *replayer
	candidate *guardian.Policy
	lists     bool // changes are wanted, not only their number
	found     Differences
	changes   []changed
	said      []Judged // new judgements, each once
	numbers   map[Judged]uint32
	ledger    past.Ledger // of the candidate's budgets
	marks     marks       // as the candidate declares the tools
	spent     map[uint64]spending

	tree         crypto.Tree // of arguments with the candidate's defaults
	filled, args []byte
}

// A changed is a change: the index of its entry, which has no more than 32 bits, and the number of
// the new judgement.
type changed struct{ index, said uint32 }

// A spending holds the charges of a call until its receipt.
type spending struct {
	charges []contracts.Charge
	logged  bool // the call is taken to have gone as the log says
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

// judge has the candidate judge the call of the entry at hand, whose verdict was made again.
func (b *backTest) judge(d *contracts.DecisionRecord, in *contracts.Inputs, kept *logPast) *Error {
	if b == nil {
		return nil
	}
	if d.PolicyHash == b.candidate.Hash() { // the candidate judged it itself, on the balances of then
		b.found.Judged, b.found.Same = b.found.Judged+1, b.found.Same+1
		b.spend(d.Verdict, d.Charges, true)
		return nil
	}
	told := *in
	b.fill(&told)
	p := &elsewise{logPast: kept, ledger: &b.ledger, marks: &b.marks}
	again, _, _ := b.candidate.Decide(&told, b.r.fold.state, p)
	switch {
	case p.trouble != nil:
		return p.trouble
	case p.untold:
		b.pass(d)
		return nil
	}
	n, now := &b.found, judgedOf(&again)
	if n.Judged++; now.Verdict == contracts.Allow || lacksOnlyApprovals(d, now) {
		b.spend(d.Verdict, p.charges, false)
	}
	switch then := judgedOf(d); {
	case lacksOnlyApprovals(d, now):
		n.Anew++
	case then.Verdict != now.Verdict && now.Verdict == contracts.Deny:
		n.Denied++
	case then.Verdict != now.Verdict:
		n.Allowed++
	case then == now, then.lacksApproval() && now.lacksApproval() && len(in.Envelopes.Approvals) > 0:
		// approvals that were presented could count then, and cannot now
		n.Same++
		return nil
	default:
		n.Otherwise++
	}
	b.note(now)
	return nil
}

// pass notes a call that cannot be judged: it is taken to have gone as the log says.
func (b *backTest) pass(d *contracts.DecisionRecord) {
	if b != nil {
		b.found.Unjudged = append(b.found.Unjudged, b.r.fold.size())
		b.spend(d.Verdict, d.Charges, true)
	}
}

// passStub notes the call of a stub.
func (b *backTest) passStub(call *pending) {
	if b != nil {
		b.found.Unjudged = append(b.found.Unjudged, b.r.fold.size())
		b.spend(contracts.Allow, call.charges, true)
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

// fill fills in the candidate's defaults. Arguments that are too large with them are none to a
// kernel.
func (b *backTest) fill(in *contracts.Inputs) {
	if in.ArgsForm != "" {
		return
	}
	var missing bool
	b.filled, missing = b.candidate.AppendDefaults(b.filled[:0], in.Tool, in.Args)
	if !missing {
		return
	}
	var err error
	b.args, err = b.tree.ParseArgs(b.args[:0], b.filled)
	if err != nil {
		in.Args, in.ArgsForm = crypto.Value{}, "raw"
		return
	}
	in.Args, in.ArgsHash = b.tree.Root(), crypto.Sum(b.args)
}

// spend charges a call without limits: they were checked before, or are not the candidate's.
func (b *backTest) spend(then contracts.Verdict, charges []contracts.Charge, logged bool) {
	if len(charges) == 0 {
		return
	}
	charges = slices.Clone(charges)
	for i := range charges {
		charges[i].Limit = ^uint64(0)
	}
	b.ledger.Reserve(charges, nil)
	// a denied call did not run: how it would have ended is not known, and all stays charged
	if then == contracts.Allow {
		b.spent[b.r.fold.size()] = spending{charges, logged}
	}
}

// settle refunds the charges of a call if the log says that the tool itself failed.
func (b *backTest) settle(r *contracts.Receipt, call *pending) *Error {
	return b.settleAs(call, r.Reason, r.Settled)
}

// settleStub does what settle does for a stub.
func (b *backTest) settleStub(r *contracts.ReceiptStub, call *pending) *Error {
	return b.settleAs(call, reasonOf(r), r.Settled)
}

func (b *backTest) settleAs(call *pending, reason contracts.ReasonCode, settled []contracts.Settlement) *Error {
	if b == nil {
		return nil
	}
	x, ok := b.spent[call.index]
	delete(b.spent, call.index)
	if !ok || reason != contracts.ReasonToolError {
		return nil
	}
	if !x.logged {
		refunds := b.candidate.Refunds(call.tool, reason)
		settled = make([]contracts.Settlement, len(x.charges))
		for i, c := range x.charges {
			if slices.Contains(refunds, c.Budget) {
				c.Amount = 0
			}
			settled[i] = contracts.Settlement{Amount: c.Amount, Budget: c.Budget, Of: c.Of}
		}
	}
	if err := b.ledger.Settle(x.charges, settled, reason); err != nil {
		return b.r.fold.fault(ErrBudget, "predicate.settled", err.Error()) // cannot be: it was charged
	}
	return nil
}

// An elsewise is the past of a call for a candidate: as the log has it, with the candidate's own
// balances.
type elsewise struct {
	*logPast
	ledger  *past.Ledger
	marks   *marks
	charges []contracts.Charge // whose balances were asked for
	untold  bool               // an answer hangs on inputs that are not there
}

var _ past.Past = (*elsewise)(nil)

// Spent is called once for each charge.
func (p *elsewise) Spent(c contracts.Charge) uint64 {
	p.charges = append(p.charges, c)
	return p.ledger.Spent(c)
}

// Receipt returns what the log says. A receipt whose arguments cannot be read may matter if it is
// later than the one that can, unless the inputs of then have the answer to the same question.
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

// Used returns what the log says: an approval may be for the candidate, though it was presented to
// another stack.
func (p *elsewise) Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool {
	if at, ok := p.r.nonces[nonceOf(r.Nonce)]; ok && uint64(at) != p.r.fold.size() || p.logPast.Used(approval, r) {
		return true
	}
	p.untold = p.untold || p.r.unread.outside(p.chain) || p.session().lost.maybe(r)
	return false
}

// Source returns what the log says, as the candidate declares the tool. If some of what the source
// said is not there, nobody can say what the candidate would find.
func (p *elsewise) Source(q past.Source) (past.Supply, error) {
	supply, err := p.supply(q)
	p.untold = p.untold || err != nil
	return supply, err
}

// Facts returns what the log says.
func (p *elsewise) Facts(r *contracts.PriorReceipt) (crypto.Value, error) {
	v, err := p.document(r)
	p.untold = p.untold || err != nil
	return v, err
}

// Marks returns what the session would have been, if the candidate had declared the tools.
func (p *elsewise) Marks() (tainted bool, labels []string, err error) {
	tainted, labels = p.marks.told(&p.r.fold.log, p.chain, p.parents)
	return tainted, labels, nil
}

// mark folds what the entry at hand would have made of its session.
func (b *backTest) mark(c *chain, above []uint64, by *bringer) {
	if b == nil {
		return
	}
	var tainted bool
	var labels []string
	if by != nil {
		tainted, labels = b.candidate.Marks(by.tool, by.signals)
	}
	b.marks.fold(&b.r.fold.log, c, above, tainted, labels)
}

package evidence

import (
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A logPast answers the guardian's questions about the past of a call whose inputs are kept, from the log. Only what the log does not tell is
// taken from the inputs, as far as it can be: balances, which are as old as the judgement and not as its place in the log (BUDGET holds those of
// charges to the log); and what hangs on the inputs of earlier calls that are not there.
type logPast struct {
	v       *verifier
	chain   *chain
	kept    *contracts.SessionState
	trouble *Error // the pack could not be read
}

var _ past.Past = (*logPast)(nil)

var errUntold = errors.New("evidence: the log does not tell")

func (v *verifier) past(c *chain, in *contracts.Inputs) *logPast {
	return &logPast{v: v, chain: c, kept: &in.State}
}

// Spent is what the inputs give. Of what they lack nothing is spent, and that it was read shows.
func (p *logPast) Spent(c contracts.Charge) uint64 {
	for i := range p.kept.Budgets {
		if b := &p.kept.Budgets[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			return b.Spent
		}
	}
	return 0
}

func (p *logPast) story() *story {
	if p.trouble == nil {
		s, f := p.v.story(p.chain)
		if f == nil {
			return s
		}
		p.trouble = f
	}
	return new(story) // what is answered now is not used
}

func (p *logPast) Calls(tool string) uint64 { return p.story().Calls(tool) }

// Receipt with no values to be equal is what the log says. With values it hangs on the arguments of earlier calls. A kernel that could not
// read them denied, and recorded nothing. What cannot be read here may be what the inputs name, if it is later than all that can.
func (p *logPast) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r, s, err := p.latest(tool, same)
	if err == nil && same.Kind() != crypto.Missing && !p.answered(s, &r) {
		err = errUntold
	}
	return r, err
}

// latest is the latest receipt that can be read, and the story that it is in.
func (p *logPast) latest(tool string, same crypto.Value) (contracts.PriorReceipt, *story, error) {
	s := p.story()
	if same.Kind() != crypto.Missing {
		p.v.stories.shape(p.chain, s, tool, same)
	}
	r, err := s.Receipt(tool, same, func(r past.Run) (crypto.Value, error) { return p.arguments(s, r) })
	return r, s, err
}

// answered tells whether kept inputs have the same question, and makes their answer of the one that can be read where it may be the right one.
func (p *logPast) answered(s *story, r *contracts.PriorReceipt) bool {
	for i := range p.kept.Receipts {
		if k := &p.kept.Receipts[i]; k.Tool == r.Tool && k.Same.Equal(r.Same) {
			if p.hidden(s, k, r) {
				r.Entry, r.Time = k.Entry, k.Time
			}
			return true
		}
	}
	return false
}

// hidden tells whether kept inputs name an EXECUTED receipt of the tool whose call cannot be read, and later than the one that can.
func (p *logPast) hidden(s *story, kept, found *contracts.PriorReceipt) bool {
	if kept.Entry == nil {
		return false
	}
	at, _, ok := p.v.index.Lookup(*kept.Entry)
	run, gone := s.gone[at]
	if !ok || !gone || run.Tool != kept.Tool || run.Time != kept.Time {
		return false
	}
	return p.v.later(at, found)
}

// later tells whether the receipt at an index is later than one that was found, if any was.
func (v *verifier) later(at uint64, found *contracts.PriorReceipt) bool {
	if found.Entry == nil {
		return true
	}
	latest, _, _ := v.index.Lookup(*found.Entry)
	return latest < at
}

// arguments reads those of a run. One whose inputs are not there is like none that is asked for, and is remembered.
func (p *logPast) arguments(s *story, r past.Run) (crypto.Value, error) {
	st, f := p.v.again(r.Decision)
	if f != nil {
		p.trouble = f
		return crypto.Value{}, f
	}
	in, f := p.v.inputsOf(r.Decision, st.Decision)
	if f != nil {
		p.trouble = f
		return crypto.Value{}, f
	}
	if in == nil {
		p.v.stories.miss(p.chain, s, r)
		return crypto.Value{}, nil
	}
	return in.Args, nil
}

// Used tells of requests. Where an earlier ALLOW consumed approvals that cannot be read, what it may have consumed is as the inputs say; and so
// is one that an ALLOW of another session has consumed, or may have, since a call that was denied may have been judged before that.
func (p *logPast) Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool {
	s := p.story()
	if _, lost := s.lost.approvals[approval]; lost || s.Used(r) {
		return true
	}
	_, elsewhere := p.v.nonces[nonceOf(r.Nonce)]
	return p.kept.Used != nil && slices.Contains(*p.kept.Used, approval) && (elsewhere || p.v.unread.outside(p.chain) || s.lost.maybe(r))
}

// unlike gives the first field in which kept inputs say another past than was asked for and told.
func unlike(kept, told *contracts.SessionState) string {
	receipt := func(a, b contracts.PriorReceipt) bool {
		return a.Tool == b.Tool && a.Time == b.Time && a.Same.Equal(b.Same) && equal(a.Entry, b.Entry)
	}
	switch {
	case !slices.Equal(kept.Budgets, told.Budgets):
		return "budgets"
	case !slices.Equal(kept.Calls, told.Calls):
		return "calls"
	case !slices.EqualFunc(kept.Receipts, told.Receipts, receipt):
		return "receipts"
	case (kept.Used == nil) != (told.Used == nil), kept.Used != nil && !slices.Equal(*kept.Used, *told.Used):
		return "used"
	}
	return ""
}

func equal(a, b *contracts.Digest) bool { return a == b || a != nil && b != nil && *a == *b }

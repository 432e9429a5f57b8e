package evidence

import (
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
)

// A logPast answers the guardian's questions about the past of a call whose inputs are kept, from
// the log. Only what the log does not say is taken from the inputs, as far as it can be true:
// balances, which are as old as the judgement and not as its place in the log (BUDGET holds those
// of charges to the log); and what hangs on the inputs of earlier calls that are not there.
type logPast struct {
	r       *replayer
	chain   *chain
	kept    *contracts.SessionState
	policy  *guardian.Policy // that judged
	parents []contracts.Digest
	trouble *Error // the pack could not be read
	unseen  []int  // those of the kept sources that not all of is in the pack
	read    int    // bytes of what the sources said
}

var _ past.Past = (*logPast)(nil)

var errUntold = errors.New("evidence: the log does not tell")

// Spent returns the balance in the inputs. If they lack it, nothing is spent; that it was read
// shows in the comparison.
func (p *logPast) Spent(c contracts.Charge) uint64 {
	for i := range p.kept.Budgets {
		if b := &p.kept.Budgets[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			return b.Spent
		}
	}
	return 0
}

func (p *logPast) session() *session {
	if p.trouble == nil {
		s, f := p.r.session(p.chain)
		if f == nil {
			return s
		}
		p.trouble = f
	}
	return new(session) // what is answered now is not used
}

func (p *logPast) Calls(tool string) uint64 { return p.session().Calls(tool) }

// Receipt without values to be equal returns what the log says. With values the answer hangs on the
// arguments of earlier calls. A kernel that could not read them denied, and recorded nothing. A
// receipt whose arguments cannot be read here may be the one that the inputs name, if it is later
// than all that can be read.
func (p *logPast) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r, s, err := p.latest(tool, same)
	if err == nil && same.Kind() != crypto.Missing && !p.answered(s, &r) {
		err = errUntold
	}
	return r, err
}

// latest returns the latest receipt that can be read, and the session that it is in.
func (p *logPast) latest(tool string, same crypto.Value) (contracts.PriorReceipt, *session, error) {
	s := p.session()
	if same.Kind() != crypto.Missing {
		p.r.sessions.shape(p.chain, s, tool, same)
	}
	r, err := s.Receipt(tool, same, func(run past.Run) (crypto.Value, error) {
		return p.arguments(s, run)
	})
	return r, s, err
}

// answered reports whether kept inputs have the same question. If their answer may be the right
// one, it replaces the one that can be read.
func (p *logPast) answered(s *session, r *contracts.PriorReceipt) bool {
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

// hidden reports whether kept inputs name an EXECUTED receipt of the tool whose call cannot be
// read, and that is later than the one that can.
func (p *logPast) hidden(s *session, kept, found *contracts.PriorReceipt) bool {
	if kept.Entry == nil {
		return false
	}
	at, _, ok := p.r.fold.index.Lookup(*kept.Entry)
	run, gone := s.gone[at]
	if !ok || !gone || run.Tool != kept.Tool || run.Time != kept.Time {
		return false
	}
	return later(&p.r.fold.log, at, found)
}

// later reports whether the receipt at an index is later than one that was found, if any was.
func later(l *log, at uint64, found *contracts.PriorReceipt) bool {
	if found.Entry == nil {
		return true
	}
	latest, _, _ := l.index.Lookup(*found.Entry)
	return latest < at
}

// arguments reads the arguments of a run. If its inputs are not there, the run matches no question,
// and is remembered.
func (p *logPast) arguments(s *session, run past.Run) (crypto.Value, error) {
	var st *contracts.Statement
	var in *contracts.Inputs
	var f *Error
	if p.r.fold.stub(run.Decision) == nil {
		st, f = p.r.reread.statement(run.Decision)
	}
	if f == nil && st != nil {
		in, f = p.r.reread.inputsOf(run.Decision, st.Decision.InputsHash)
	}
	switch {
	case f != nil:
		p.trouble = f
		return crypto.Value{}, f
	case in == nil:
		p.r.sessions.miss(p.chain, s, run)
		return crypto.Value{}, nil
	}
	return in.Args, nil
}

// Used reports whether a request was consumed. If an earlier ALLOW consumed approvals that cannot
// be read, the inputs say which requests of its call it consumed. They also say it of a request
// that an ALLOW of another session consumed, or may have, since a call that was denied may have
// been judged before that.
func (p *logPast) Used(approval contracts.Digest, r *contracts.ApprovalRequest) bool {
	s := p.session()
	if _, lost := s.lost.digests[approval]; lost || s.Used(r) {
		return true
	}
	if p.kept.Used == nil || !slices.Contains(*p.kept.Used, approval) {
		return false
	}
	_, elsewhere := p.r.nonces[nonceOf(r.Nonce)]
	return elsewhere || p.r.unread.outside(p.chain) || s.lost.maybe(r)
}

// unlike returns the first field in which kept inputs have another past than was asked for and
// answered.
func unlike(kept, told *contracts.SessionState) string {
	receipt := func(a, b contracts.PriorReceipt) bool {
		return a.Tool == b.Tool && a.Time == b.Time && a.Same.Equal(b.Same) && a.Facts.Equal(b.Facts) &&
			equal(a.Entry, b.Entry)
	}
	source := func(a, b contracts.Source) bool {
		return a.Source == b.Source && a.Count == b.Count && a.State == b.State && slices.Equal(a.Found, b.Found)
	}
	switch {
	case !slices.Equal(kept.Budgets, told.Budgets):
		return "budgets"
	case !slices.Equal(kept.Calls, told.Calls):
		return "calls"
	case !slices.EqualFunc(kept.From, told.From, source):
		return "from"
	case !equalLists(kept.Labels, told.Labels):
		return "labels"
	case !slices.EqualFunc(kept.Receipts, told.Receipts, receipt):
		return "receipts"
	case !equal(kept.Tainted, told.Tainted):
		return "tainted"
	case !equalLists(kept.Used, told.Used):
		return "used"
	}
	return ""
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func equalLists[T comparable](a, b *[]T) bool {
	return a == b || a != nil && b != nil && slices.Equal(*a, *b)
}

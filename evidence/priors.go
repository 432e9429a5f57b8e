package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Decisions of another version of the engine are not made again. But what their inputs say of the
// log is held to the log, and so are the approvals that counted.

// checkPriors returns the first field in which kept inputs say what the log does not.
func (p *logPast) checkPriors(d *contracts.DecisionRecord, in *contracts.Inputs) (field, what string) {
	const differs = "not what the log says"
	for i := range d.Charges {
		c := &d.Charges[i]
		before := contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: c.Before, Window: c.Window}
		if !slices.Contains(p.kept.Budgets, before) {
			return "state.budgets", "they lack the balance before a charge"
		}
	}
	for _, c := range p.kept.Calls {
		if p.Calls(c.Of) != c.Count {
			return "state.calls", differs
		}
	}
	for i := range p.kept.Receipts {
		k := &p.kept.Receipts[i]
		if k.Same.Kind() == crypto.Missing {
			if r, err := p.Receipt(k.Tool, k.Same); err != nil || r.Time != k.Time || !equal(r.Entry, k.Entry) {
				return "state.receipts", differs
			}
		} else if !p.ran(k) {
			return "state.receipts", differs
		}
	}
	return p.misused(d, in)
}

// ran reports whether a receipt that inputs name is an EXECUTED one of the session and tool, with
// that time. Whether the values are equal, and no later receipt has them, is not looked into: a
// pack could ask that for more values than anybody can look up.
func (p *logPast) ran(k *contracts.PriorReceipt) bool {
	if k.Entry == nil {
		return true
	}
	at, _, ok := p.r.fold.index.Lookup(*k.Entry)
	if !ok {
		return false
	}
	st, f := p.r.reread.statement(at)
	if f != nil {
		p.trouble = f
		return false
	}
	r := st.Receipt
	return r != nil && r.Outcome == contracts.Executed && r.Tool == k.Tool && st.Session == p.chain.name &&
		st.Time == k.Time
}

// misused returns what is wrong with approvals that counted, or that are said to have counted
// before.
func (p *logPast) misused(d *contracts.DecisionRecord, in *contracts.Inputs) (field, what string) {
	var said []contracts.Digest
	if p.kept.Used != nil {
		said = *p.kept.Used
	}
	for _, u := range said {
		if !slices.ContainsFunc(in.Envelopes.Approvals, func(e contracts.Envelope) bool { return e.Digest() == u }) {
			return "state.used", "an approval that was not presented"
		}
	}
	for _, e := range in.Envelopes.Approvals {
		name := e.Digest()
		a := p.r.reread.approval(e)
		counts, used := slices.Contains(d.Approvals, name), a != nil && p.Used(name, &a.Request)
		switch {
		case counts && a == nil:
			return "envelopes.approvals", "one that counted is no approval"
		case counts && a.Request.Session != p.chain.name:
			return "envelopes.approvals", "one that counted is for another session"
		case counts && used:
			return "envelopes.approvals", "one that counted was used before"
		case counts && slices.Contains(said, name), p.kept.Used != nil && used != slices.Contains(said, name):
			return "state.used", "not what the log says"
		}
	}
	return "", ""
}

package evidence

import (
	"encoding/hex"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// What another version of the engine decided is not judged again. But what its inputs say of the log is held to the log, and so is what counted
// of what was presented.

// untrue gives the first field in which kept inputs say what the log does not.
func (p *logPast) untrue(d *contracts.DecisionRecord, in *contracts.Inputs) (field, what string) {
	const differs = "not what the log says"
	for i := range d.Charges {
		c := &d.Charges[i]
		if !slices.Contains(p.kept.Budgets, contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: c.Before, Window: c.Window}) {
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

// ran tells whether a receipt that inputs name is an EXECUTED one of the session and tool, of that time. Whether the values are equal, and no
// later one has them, is not looked into: a pack could ask it for more values than anybody can look up.
func (p *logPast) ran(k *contracts.PriorReceipt) bool {
	if k.Entry == nil {
		return true
	}
	at, _, ok := p.v.index.Lookup(*k.Entry)
	if !ok {
		return false
	}
	st, f := p.v.again(at)
	if f != nil {
		p.trouble = f
		return false
	}
	r := st.Receipt
	return r != nil && r.Outcome == contracts.Executed && r.Tool == k.Tool && st.Session == p.chain.name && st.Time == k.Time
}

// misused tells what is wrong with approvals that counted, or that are said to have counted before.
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
		a := p.v.approval(e)
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

// consumes notes the nonces that an ALLOW consumes, whatever the session, and tells whether they were free: those of one ALLOW may be the same.
func (v *verifier) consumes(call *pending) bool {
	free := true
	for _, n := range call.nonces {
		nonce := nonceOf(n)
		at, ok := v.nonces[nonce]
		free = free && (!ok || uint64(at) == call.index)
		v.nonces[nonce] = uint32(call.index)
	}
	return free
}

// blanks is in which session something cannot be read any more, or that there are several.
type blanks struct {
	chain   *chain
	several bool
}

func (u *blanks) add(c *chain) {
	if u.chain == nil {
		u.chain = c
	}
	u.several = u.several || u.chain != c
}

// outside tells whether there is another session than that.
func (u *blanks) outside(c *chain) bool { return u.several || u.chain != nil && u.chain != c }

// nonceOf is the bytes of one, which stands in a request as 32 digits.
func nonceOf(digits string) (b [16]byte) {
	_, _ = hex.Decode(b[:], []byte(digits))
	return b
}

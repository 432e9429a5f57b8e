package guardian

import (
	"errors"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Ledger is what is spent of every budget, in every window: the fold of the charges of a log's decisions in log order, less what their
// receipts did not keep. Who writes a log moves it in the same order, by [Ledger.Reserve] and [Ledger.Settle], each at the place in the log
// of the entry that says so; who reads one folds it with [Ledger.Charge] and [Ledger.Settle].
//
// The zero Ledger has spent nothing. It is safe for concurrent use by multiple goroutines, and must not be copied.
type Ledger struct {
	mu    sync.Mutex // held for a few look-ups; protects spent
	spent map[fund]uint64
}

// A fund is the digest that stands for (budget, of, window), so that a balance takes the same room whatever its name.
type fund contracts.Digest

func fundOf(c *contracts.Charge) fund {
	var buf [512]byte
	b := crypto.AppendString(buf[:0], c.Budget)
	b = crypto.AppendString(b, c.Of)
	return fund(crypto.Sum(crypto.AppendString(b, c.Window)))
}

// Spent is the balance that a charge would be made on.
func (l *Ledger) Spent(c contracts.Charge) uint64 {
	f := fundOf(&c)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent[f]
}

// Reserve makes all the charges of an ALLOW or none, and writes into each, and into the inputs that it was decided on, the balance as it is
// now. It is false, and nothing is charged, where one does not fit its limit: then these inputs are judged again.
func (l *Ledger) Reserve(charges []contracts.Charge, in *contracts.Inputs) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := true
	for i := range charges {
		c := &charges[i]
		c.Before = l.spent[fundOf(c)]
		all = all && fits(c)
		for j := range in.State.Budgets {
			if b := &in.State.Budgets[j]; b.Budget == c.Budget {
				b.Spent = c.Before
			}
		}
	}
	if all {
		l.add(charges)
	}
	return all
}

// Charge folds the charges of a decision. It is an error, and nothing is charged, where a balance before it is another, or it does not fit.
func (l *Ledger) Charge(charges []contracts.Charge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		switch c := &charges[i]; {
		case c.Before != l.spent[fundOf(c)]:
			return errors.New("before is not the balance that the log gives")
		case !fits(c):
			return errors.New("over the limit")
		}
	}
	l.add(charges)
	return nil
}

func (l *Ledger) add(charges []contracts.Charge) {
	if l.spent == nil && len(charges) > 0 {
		l.spent = map[fund]uint64{}
	}
	for i := range charges {
		l.spent[fundOf(&charges[i])] += charges[i].Amount
	}
}

// Settle folds what a receipt of that reason says of the charges of its decision: all stays charged or, where the tool itself failed,
// nothing may. It is an error, and nothing is given back, where it says anything else.
func (l *Ledger) Settle(charges []contracts.Charge, settled []contracts.Settlement, reason contracts.ReasonCode) error {
	if len(charges) != len(settled) {
		return errors.New("not one for each charge")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		c, s := &charges[i], &settled[i]
		switch {
		case s.Budget != c.Budget || s.Of != c.Of:
			return errors.New("not that of the charge")
		case s.Amount != c.Amount && (s.Amount != 0 || reason != contracts.ReasonToolError):
			return errors.New("neither all of the charge nor, where the tool itself failed, nothing")
		case l.spent[fundOf(c)] < c.Amount:
			return errors.New("of a charge that was not made")
		}
	}
	for i := range charges {
		if settled[i].Amount == 0 {
			l.spent[fundOf(&charges[i])] -= charges[i].Amount
		}
	}
	return nil
}

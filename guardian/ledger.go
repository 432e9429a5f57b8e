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
	mu       sync.Mutex       // held for a few look-ups; protects what follows
	books    map[string]*book // by budget
	accounts uint32           // how many windows of budgets were charged
	spent    map[fund]uint64
}

// A book has the accounts of a budget: numbers, from 1 on, of the windows that were charged.
type book struct {
	window  string // the latest of them
	account uint32
	all     map[string]uint32
}

// A fund is what one subject has spent of an account. Its key takes the same room whatever the names: a subject of more than 27 bytes stands
// there by its digest, which the last byte tells from a text and its length.
type fund struct {
	account uint32
	of      [28]byte
}

// fundOf is the fund of a charge. That of an account which was never charged, which has no number, is empty.
func (l *Ledger) fundOf(c *contracts.Charge) (f fund) {
	if b := l.books[c.Budget]; b != nil {
		if f.account = b.account; b.window != c.Window {
			f.account = b.all[c.Window]
		}
	}
	const last = len(f.of) - 1
	if n := copy(f.of[:last], c.Of); n == len(c.Of) {
		f.of[last] = byte(n)
	} else {
		var buf [128]byte
		digest := crypto.Sum(append(buf[:0], c.Of...))
		copy(f.of[:last], digest[:])
		f.of[last] = 0xff
	}
	return f
}

// Spent is the balance that a charge would be made on.
func (l *Ledger) Spent(c contracts.Charge) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent[l.fundOf(&c)]
}

// Reserve makes all the charges of an ALLOW or none, and writes into each, and into the inputs that it was decided on, the balance as it is
// now. It is false, and nothing is charged, where one does not fit its limit: then these inputs are judged again.
func (l *Ledger) Reserve(charges []contracts.Charge, in *contracts.Inputs) bool {
	var room [contracts.MaxCharges]fund
	funds, all := room[:0], true
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		f := l.fundOf(c)
		funds = append(funds, f)
		c.Before = l.spent[f]
		all = all && fits(c)
		for j := range in.State.Budgets {
			if b := &in.State.Budgets[j]; b.Budget == c.Budget {
				b.Spent = c.Before
			}
		}
	}
	if all {
		l.add(charges, funds)
	}
	return all
}

// Charge folds the charges of a decision. It is an error, and nothing is charged, where a balance before it is another, or it does not fit.
func (l *Ledger) Charge(charges []contracts.Charge) error {
	var room [contracts.MaxCharges]fund
	funds := room[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		f := l.fundOf(c)
		funds = append(funds, f)
		switch {
		case c.Before != l.spent[f]:
			return errors.New("before is not the balance that the log gives")
		case !fits(c):
			return errors.New("over the limit")
		}
	}
	l.add(charges, funds)
	return nil
}

// add makes charges on their funds.
func (l *Ledger) add(charges []contracts.Charge, funds []fund) {
	for i := range charges {
		if funds[i].account == 0 {
			funds[i].account = l.number(&charges[i])
		}
		l.spent[funds[i]] += charges[i].Amount
	}
}

// number is that of a charge's account, a new one if need be.
func (l *Ledger) number(c *contracts.Charge) uint32 {
	if l.books == nil {
		l.books, l.spent = map[string]*book{}, map[fund]uint64{}
	}
	b := l.books[c.Budget]
	if b == nil {
		b = &book{all: map[string]uint32{}}
		l.books[c.Budget] = b
	}
	if b.all[c.Window] == 0 {
		l.accounts++
		b.window, b.account, b.all[c.Window] = c.Window, l.accounts, l.accounts
	}
	return b.all[c.Window]
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
		case l.spent[l.fundOf(c)] < c.Amount:
			return errors.New("of a charge that was not made")
		}
	}
	for i := range charges {
		if settled[i].Amount < charges[i].Amount {
			l.spent[l.fundOf(&charges[i])] -= charges[i].Amount
		}
	}
	return nil
}

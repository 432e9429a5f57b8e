package past

import (
	"errors"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A Ledger holds what is spent of every budget, in every window: the fold of the charges of a log's
// decisions in log order, less what their receipts gave back. The writer of a log calls
// [Ledger.Reserve] and [Ledger.Settle] in the order of the log, each when the place of its entry is
// taken. A reader folds the log with [Ledger.Charge] and [Ledger.Settle].
//
// Nothing is spent in the zero Ledger. It is safe for concurrent use by multiple goroutines, and
// must not be copied.
type Ledger struct {
	mu       sync.Mutex       // held for a few look-ups; protects the fields below
	books    map[string]*book // by budget
	accounts uint32           // how many windows of budgets were charged
	spent    map[fund]uint64
}

// A book numbers the accounts of one budget: an account for each window that was charged, from 1 on
// across all budgets.
type book struct {
	window  string // the latest of them
	account uint32
	all     map[string]uint32
}

// A fund is the key of what one subject has spent of an account. It has the same size whatever the
// names are: a subject of more than 27 bytes is held as its digest. The last byte is the length of
// the text, with callerText for one that shorten made, or 0xff for a digest.
type fund struct {
	account uint32
	of      [28]byte
}

const (
	callerText   = 0x80
	beforeID     = `{"id":"`
	beforeTenant = `","tenant":"`
	afterAll     = `"}`
)

// shorten appends a shorter form of a caller to dst, and reports whether there is one: the id and,
// after a zero byte, the tenant, both as they are in the canonical object. No other subject has
// that form, since none has a zero byte.
func shorten(dst []byte, of string) ([]byte, bool) {
	text, ok := strings.CutPrefix(of, beforeID)
	if !ok {
		return dst, false
	}
	text, ok = strings.CutSuffix(text, afterAll)
	if !ok || strings.IndexByte(text, 0) >= 0 {
		return dst, false
	}
	id, tenant, ok := strings.Cut(text, beforeTenant)
	dst = append(dst, id...)
	if ok {
		dst = append(append(dst, 0), tenant...)
	}
	return dst, true
}

// fundOf returns the fund of a charge. Its account is 0 if the window was never charged.
func (l *Ledger) fundOf(c *contracts.Charge) (f fund) {
	if b := l.books[c.Budget]; b != nil {
		f.account = b.account
		if b.window != c.Window {
			f.account = b.all[c.Window]
		}
	}
	const last = len(f.of) - 1
	if n := copy(f.of[:last], c.Of); n == len(c.Of) {
		f.of[last] = byte(n)
		return f
	}
	var buf [128]byte
	if text, ok := shorten(buf[:0], c.Of); ok && len(text) <= last {
		f.of = [len(f.of)]byte{}
		f.of[last] = callerText | byte(copy(f.of[:last], text))
		return f
	}
	digest := crypto.Sum(append(buf[:0], c.Of...))
	copy(f.of[:last], digest[:])
	f.of[last] = 0xff
	return f
}

// Spent returns the balance that a charge would be made on.
func (l *Ledger) Spent(c contracts.Charge) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent[l.fundOf(&c)]
}

// Set sets a balance to what the store of a log with several writers says that it is.
func (l *Ledger) Set(b contracts.Balance) {
	c := contracts.Charge{Budget: b.Budget, Of: b.Of, Window: b.Window}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fundOf(&c)
	if f.account == 0 && b.Spent == 0 {
		return
	}
	if f.account == 0 {
		f.account = l.number(&c)
	}
	l.spent[f] = b.Spent
}

// Reserve makes all the charges of an ALLOW or none, and reports whether it made them. It makes
// none if one of them does not fit its limit: then the call must be judged again. In either case it
// updates Before of each charge, and Spent of the balances of the same budgets, to the balance now.
func (l *Ledger) Reserve(charges []contracts.Charge, balances []contracts.Balance) bool {
	var buf [contracts.MaxCharges]fund
	funds, all := buf[:0], true
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		f := l.fundOf(c)
		funds = append(funds, f)
		c.Before = l.spent[f]
		all = all && value.Fits(c)
		for j := range balances {
			if balances[j].Budget == c.Budget {
				balances[j].Spent = c.Before
			}
		}
	}
	if all {
		l.add(charges, funds)
	}
	return all
}

// Charge folds the charges of a decision. It returns an error, and charges nothing, if the Before
// of one is not the balance, or if one does not fit its limit.
func (l *Ledger) Charge(charges []contracts.Charge) error {
	var buf [contracts.MaxCharges]fund
	funds := buf[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range charges {
		c := &charges[i]
		f := l.fundOf(c)
		funds = append(funds, f)
		switch {
		case c.Before != l.spent[f]:
			return errors.New("before is not the balance that the log gives")
		case !value.Fits(c):
			return errors.New("over the limit")
		}
	}
	l.add(charges, funds)
	return nil
}

// add makes charges on their funds, which are in the same order.
func (l *Ledger) add(charges []contracts.Charge, funds []fund) {
	for i := range charges {
		if funds[i].account == 0 {
			funds[i].account = l.number(&charges[i])
		}
		l.spent[funds[i]] += charges[i].Amount
	}
}

// number returns the account of a charge, and opens one if there is none.
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

// Settle folds what a receipt with that reason says of the charges of its decision. Each charge
// stays whole; only if the tool itself failed may it be given back, and then whole too. If the
// receipt says anything else Settle returns an error, and returns no charge.
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

package guardian

import (
	"bytes"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A bill is what one budget asks of a call.
type bill struct {
	from   *budget
	charge contracts.Charge
}

// charged judges condition 3: what the budgets that apply ask, and whether the balances suffice for all of it.
func (j *judging) charged(s *scratch, t *tool, in *contracts.Inputs) bool {
	var room [contracts.MaxCharges]bill
	bills := room[:0]
	for i := range t.budgets {
		b := &t.budgets[i]
		a := yes
		if b.of != nil && !b.of.concern(in, s.root) {
			a = no
		}
		for i := 0; i < len(b.tests) && a == yes; i++ {
			a = s.eval(&b.tests[i])
		}
		if a == failed {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: b.name, Pointer: s.pointer, What: s.what})
			return false
		}
		if a == no {
			continue
		}
		c := contracts.Charge{Budget: b.name, Limit: b.limit, Window: b.window.starts(in.Time)}
		why := Why{Rule: b.name}
		if c.Of, why.What = b.whose(in); why.What == "" {
			if c.Amount, why.What = b.cost.of(in.Args); why.What != "" {
				why.Pointer = b.cost.pointer
			}
		}
		if why.What != "" {
			j.deny(contracts.ReasonBudgetError, b.name, why)
			return false
		}
		bills = append(bills, bill{b, c})
	}
	return j.afford(s, bills, in)
}

// afford reads the balances, and denies by the first budget, in the order of the stack, that does not suffice.
func (j *judging) afford(s *scratch, bills []bill, in *contracts.Inputs) bool {
	var short *budget
	if len(bills) == 0 {
		return true
	}
	for i := range bills {
		c := &bills[i].charge
		var ok bool
		if c.Before, ok = s.balance(c, in); !ok {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: c.Budget, What: "the inputs lack the balance"})
			return false
		}
		if short == nil && !fits(c) {
			short = bills[i].from
		}
	}
	if short != nil {
		j.deny(contracts.ReasonBudgetExceeded, short.name, Why{Rule: short.name, What: "the budget does not suffice"})
		return false
	}
	charges := make([]contracts.Charge, len(bills))
	for i := range bills {
		charges[i] = bills[i].charge
	}
	j.record.Charges = charges
	slices.SortFunc(charges, func(a, b contracts.Charge) int { return strings.Compare(a.Budget, b.Budget) }) // each budget is there once
	return true
}

// fits tells whether a charge can be made on the balance before it. Nothing overflows: of a limit that was lowered there may be less than
// nothing left, and a cost may be more than any limit.
func fits(c *contracts.Charge) bool { return c.Before <= c.Limit && c.Amount <= c.Limit-c.Before }

// balance gives what is spent: as the past says, and then the inputs do, or as the inputs say.
func (s *scratch) balance(c *contracts.Charge, in *contracts.Inputs) (uint64, bool) {
	list := in.State.Budgets
	if s.past == nil {
		for i := range list {
			if b := &list[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
				return b.Spent, true
			}
		}
		return 0, false
	}
	b := contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: s.past.Spent(*c), Window: c.Window}
	at, _ := slices.BinarySearchFunc(list, b, byBudget)
	in.State.Budgets = slices.Insert(list, at, b)
	return b.Spent, true
}

// byBudget is the order of balances in inputs, that of their canonical form: no id has a character that comes before a quote.
func byBudget(a, b contracts.Balance) int { return strings.Compare(a.Budget, b.Budget) }

// whose gives the subject that a balance is of, or why there is none.
func (b *budget) whose(in *contracts.Inputs) (of, what string) {
	switch b.per {
	case "all":
		return "", ""
	case "caller":
		of, what = in.Caller.ID, "the caller has no id"
	case "tenant":
		of, what = in.Caller.Tenant, "the caller has no tenant"
	case "tool":
		of = in.Tool
	case "session":
		if of = in.Session; of == contracts.DefaultSession {
			return "", "the session is the one of all calls that name none: name a session"
		}
	}
	const most = 128
	switch {
	case of == "":
		return "", what
	case !contracts.IsWords(of, most):
		return contracts.Hashed(of), ""
	}
	return of, ""
}

// of gives the cost of a call, or why it has none. A number's decimal text is moved by the scale, digit by digit: no double is multiplied.
func (c *cost) of(args crypto.Value) (amount uint64, what string) {
	if !c.from {
		return c.fixed, ""
	}
	v := follow(args, c.path)
	if v.Kind() != crypto.Number {
		return 0, "the cost is not a number"
	}
	return scaled(v.Raw(), c.scale)
}

// unaffordable is the amount of a cost that no limit can hold.
const unaffordable = crypto.MaxInt + 1

// scaled gives the canonical text of a number times ten to a power, which must be whole and not below zero.
func scaled(text []byte, power int) (n uint64, what string) {
	if text[0] == '-' {
		return 0, "the cost is below zero"
	}
	mantissa, exponent, _ := bytes.Cut(text, []byte{'e'})
	for i, c := range exponent {
		if c == '+' || c == '-' {
			continue
		}
		e := int(c - '0') // at most three digits: the greatest double is 1.8e308
		for _, c := range exponent[i+1:] {
			e = e*10 + int(c-'0')
		}
		if exponent[0] == '-' {
			e = -e
		}
		power += e
		break
	}
	point := false
	for _, c := range mantissa { // at most 21 digits, of which the last ones may be zeros
		if c == '.' {
			point = true
			continue
		}
		if point {
			power--
		}
		if n = n*10 + uint64(c-'0'); n > unaffordable && power >= 0 && !point {
			n = unaffordable
		}
	}
	for ; power < 0 && n > 0; power++ {
		if n%10 != 0 {
			return 0, "the cost is not a whole number of the budget's units"
		}
		n /= 10
	}
	for ; power > 0 && n > 0 && n < unaffordable; power-- {
		n *= 10
	}
	return min(n, unaffordable), ""
}

// Refunds names the budgets that give their charge back when a run of the tool ended for this reason: those that say refund: error, where
// the tool itself failed.
func (p *Policy) Refunds(tool string, reason contracts.ReasonCode) (budgets []string) {
	t := p.tool(tool)
	if t == nil || reason != contracts.ReasonToolError {
		return nil
	}
	for i := range t.budgets {
		if t.budgets[i].refund {
			budgets = append(budgets, t.budgets[i].name)
		}
	}
	return budgets
}

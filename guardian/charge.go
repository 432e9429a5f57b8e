package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// charged judges condition 3: what the budgets that apply ask, and whether the balances suffice for all of it.
func (j *judging) charged(s *scratch, t *tool, in *contracts.Inputs) bool {
	charges, ok := j.bill(s, t, in)
	n := len(charges)
	if ok && n > 0 {
		ok = j.afford(s, charges)
	}
	if !ok {
		clear(charges)
		return false
	}
	if n > 0 {
		s.charges, j.record.Charges = s.charges[n:], charges[:n:n]
	}
	return true
}

// bill gives what each budget that applies asks, in stack order.
func (j *judging) bill(s *scratch, t *tool, in *contracts.Inputs) ([]contracts.Charge, bool) {
	if len(s.charges) < len(t.budgets) {
		s.charges = make([]contracts.Charge, 4*contracts.MaxCharges)
	}
	charges := s.charges[:0]
	for i := range t.budgets {
		b := &t.budgets[i]
		if b.of != nil && !b.of.concern(in, s.behind) {
			continue
		}
		a := yes
		for i := 0; i < len(b.tests) && a == yes; i++ {
			a = s.eval(&b.tests[i])
		}
		if a == failed {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: b.name, Pointer: s.pointer, What: s.what})
			return charges, false
		}
		if a == no {
			continue
		}
		of, what := b.whose(in)
		if what != "" {
			j.deny(contracts.ReasonBudgetError, b.name, Why{Rule: b.name, What: what})
			return charges, false
		}
		amount, what := b.cost.of(in.Args)
		if what != "" {
			j.deny(contracts.ReasonBudgetError, b.name, Why{Rule: b.name, Pointer: b.cost.pointer, What: what})
			return charges, false
		}
		charges = append(charges, contracts.Charge{Amount: amount, Budget: b.name, Limit: b.limit, Of: of, Window: b.window.Start(in.Time)})
	}
	return charges, true
}

// afford reads the balances, and denies by the first budget, in the order of the stack, that does not suffice. It leaves the charges
// in the order of records.
func (j *judging) afford(s *scratch, charges []contracts.Charge) bool {
	short := ""
	if s.past != nil {
		s.ask(charges, j.state)
	}
	for i := range charges {
		c := &charges[i]
		if s.past == nil && !recorded(c, j.state.Budgets) {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: c.Budget, What: "the inputs lack the balance"})
			return false
		}
		if short == "" && !value.Fits(c) {
			short = c.Budget
		}
	}
	if len(charges) > 1 { // each budget is there once
		slices.SortFunc(charges, func(a, b contracts.Charge) int { return strings.Compare(a.Budget, b.Budget) })
	}
	if short != "" {
		j.deny(contracts.ReasonBudgetExceeded, short, Why{Rule: short, What: "the budget does not suffice"})
		return false
	}
	return true
}

// ask reads the balances before charges from the past, and leaves them in the state when it has all.
func (s *scratch) ask(charges []contracts.Charge, state *contracts.SessionState) {
	n := len(charges)
	if len(s.balances) < n {
		s.balances = make([]contracts.Balance, 4*contracts.MaxCharges)
	}
	balances := s.balances[:n:n]
	for i := range charges {
		c := &charges[i]
		c.Before = s.past.Spent(*c)
		balances[i] = contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: c.Before, Window: c.Window}
	}
	if n > 1 { // by canonical form: no id has a character that comes before a quote
		slices.SortFunc(balances, func(a, b contracts.Balance) int { return strings.Compare(a.Budget, b.Budget) })
	}
	s.balances, state.Budgets = s.balances[n:], balances
}

// recorded reads the balance before a charge from those of inputs.
func recorded(c *contracts.Charge, list []contracts.Balance) bool {
	for i := range list {
		if b := &list[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			c.Before = b.Spent
			return true
		}
	}
	return false
}

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
	v := value.Follow(args, c.path)
	if v.Kind() != crypto.Number {
		return 0, "the cost is not a number"
	}
	return value.Scaled(v.Raw(), c.scale)
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

package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// affordable judges condition 3: what the budgets that apply charge, and whether the balances
// suffice for all of it.
func (j *judging) affordable() bool {
	charges, ok := j.bill()
	n := len(charges)
	if ok && n > 0 {
		ok = j.afford(charges)
	}
	if !ok {
		clear(charges)
		return false
	}
	if n > 0 {
		j.s.charges, j.record.Charges = j.s.charges[n:], charges[:n:n]
	}
	return true
}

// bill returns the charge of each budget that applies, in stack order.
func (j *judging) bill() ([]contracts.Charge, bool) {
	if len(j.s.charges) < len(j.tool.Budgets)+len(j.more.Budgets) {
		j.s.charges = make([]contracts.Charge, 4*contracts.MaxCharges)
	}
	charges, ok := j.charge(j.s.charges[:0], j.tool.Budgets)
	if ok && len(j.more.Budgets) > 0 {
		charges, ok = j.charge(charges, j.more.Budgets)
	}
	return charges, ok
}

// charge appends the charges of those budgets that apply.
func (j *judging) charge(charges []contracts.Charge, budgets []program.Budget) ([]contracts.Charge, bool) {
	payer := &j.in.Caller
	if j.s.lender != nil {
		payer = j.s.lender
	}
	for i := range budgets {
		b := &budgets[i]
		if b.Of != nil && !b.Of.Concern(j.in, j.s.grants) {
			continue
		}
		step := j.trace.begin(b.Name, b.At)
		switch j.s.eval.All(b.Tests) {
		case program.Failed:
			j.trace.decided(step, program.Failed)
			return charges, j.fail(b.Name)
		case program.No:
			continue
		}
		of, what := b.Subject(j.in, payer, &j.s.names)
		if what != "" {
			j.trace.decided(step, program.Failed)
			return charges, j.deny(contracts.ReasonBudgetError, b.Name, Why{Rule: b.Name, What: what})
		}
		amount, what := b.Cost.Of(j.in.Args)
		if what != "" {
			j.trace.decided(step, program.Failed)
			why := Why{Rule: b.Name, Pointer: b.Cost.Pointer, What: what}
			return charges, j.deny(contracts.ReasonBudgetError, b.Name, why)
		}
		j.trace.billed(step)
		charges = append(charges, contracts.Charge{
			Amount: amount, Budget: b.Name, Limit: b.Limit, Of: of, Window: b.Window.Start(j.in.Time),
		})
	}
	return charges, true
}

// afford reads the balances, and denies by the first budget in stack order that does not suffice.
// It leaves the charges in the order of records.
func (j *judging) afford(charges []contracts.Charge) bool {
	short := ""
	if j.s.past != nil {
		j.readBalances(charges)
	}
	for i := range charges {
		c := &charges[i]
		if j.s.past == nil && !recorded(c, j.state.Budgets) {
			j.trace.charged(i, program.Failed)
			return j.deny(contracts.ReasonFailClosedError, "", Why{Rule: c.Budget, What: "the inputs lack the balance"})
		}
		if short != "" {
			continue
		}
		fits := value.Fits(c)
		j.trace.charged(i, program.AnswerOf(fits))
		if !fits {
			short = c.Budget
		}
	}
	if len(charges) > 1 { // each budget is there once
		slices.SortFunc(charges, func(a, b contracts.Charge) int { return strings.Compare(a.Budget, b.Budget) })
	}
	if short != "" {
		why := explained(&j.s.eval, Why{Rule: short, What: "the budget does not suffice"}, j.testsOf(short))
		return j.deny(contracts.ReasonBudgetExceeded, short, why)
	}
	return true
}

// testsOf returns the tests of a budget of the call.
func (j *judging) testsOf(budget string) []program.Node {
	for _, list := range [...][]program.Budget{j.tool.Budgets, j.more.Budgets} {
		for i := range list {
			if list[i].Name == budget {
				return list[i].Tests
			}
		}
	}
	return nil
}

// readBalances asks the past for the balances before charges, and notes them in the state when it
// has all.
func (j *judging) readBalances(charges []contracts.Charge) {
	n := len(charges)
	if len(j.s.balances) < n {
		j.s.balances = make([]contracts.Balance, 4*contracts.MaxCharges)
	}
	balances := j.s.balances[:n:n]
	for i := range charges {
		c := &charges[i]
		c.Before = j.s.past.Spent(*c)
		balances[i] = contracts.Balance{Budget: c.Budget, Of: c.Of, Spent: c.Before, Window: c.Window}
	}
	if n > 1 { // the canonical order, since no id has a character that sorts before a quote
		slices.SortFunc(balances, func(a, b contracts.Balance) int { return strings.Compare(a.Budget, b.Budget) })
	}
	j.s.balances, j.state.Budgets = j.s.balances[n:], balances
}

// recorded sets Before of a charge to its balance in the list, and reports whether it is there.
func recorded(c *contracts.Charge, list []contracts.Balance) bool {
	for i := range list {
		if b := &list[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			c.Before = b.Spent
			return true
		}
	}
	return false
}

// Refunds returns the names of the budgets that give their charge back when a run of the tool ended
// for this reason: those with refund: error, if the tool itself failed.
func (p *Policy) Refunds(tool string, reason contracts.ReasonCode) (budgets []string) {
	t := p.tool(tool)
	if t == nil || reason != contracts.ReasonToolError {
		return nil
	}
	for _, of := range [...][]program.Budget{t.Budgets, p.stack.More(tool).Budgets} {
		for i := range of {
			if of[i].Refund {
				budgets = append(budgets, of[i].Name)
			}
		}
	}
	return budgets
}

package compile

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

const maxScale = 15 // ten to that power is the greatest that an integer of a record holds

// readBudgets reads a document's budgets.
func (l *loader) readBudgets(p docValue) {
	list, ok := l.list(p, 0, maxRules)
	if !ok {
		return
	}
	for _, b := range list {
		if !l.object(b, grammar.Budget) {
			continue
		}
		id, named := l.ruleID(b)
		x := program.Budget{Name: l.prefix + id, Of: l.ofOverlay(), At: l.placed(b.at)}
		l.readTerm(b, &x)
		var tools []*program.Tool
		if sel, ok := l.need(b, "tools"); ok {
			tools = l.catalog.drafted(l.catalog.selected(sel, l.layer != bundleLayer))
		}
		price, ok := l.need(b, "cost")
		made := map[*program.Shape]program.Budget{}
		for _, t := range tools {
			if unread(t) {
				l.idle.tools++
				continue
			}
			of, whole := made[t.Shape]
			if !whole {
				l.idle.tools++
				of = x
				if ok {
					of.Cost, whole = l.readCost(price, t)
				}
				r, right := l.readRule(b, t, false)
				of.Tests = r.Tests
				whole = whole && right && named
				if whole {
					made[t.Shape] = of
				}
			}
			if !whole {
				continue
			}
			t.Budgets = append(t.Budgets, of)
			if len(t.Budgets) == contracts.MaxCharges+1 { // those that follow are too many because of this one
				what := "more than " + strconv.Itoa(contracts.MaxCharges) + " budgets for " + t.Name
				l.compiler(t).
					refuse(b.at, what, "a decision holds no more charges than that: let one budget do for several")
			}
		}
		l.idle.report(l.catalog)
	}
}

// readTerm reads how much may be spent, by whom, and in what time.
func (l *loader) readTerm(b docValue, x *program.Budget) {
	if p, ok := l.need(b, "limit"); ok {
		x.Limit, ok = p.v.Uint()
		if !ok {
			remedy := "write an integer from 0 to 9007199254740991, in units of the scaled cost"
			l.refuse(p.at, "no limit", remedy)
		}
	}
	if p, ok := l.need(b, "per"); ok {
		x.Per, _ = l.oneOf(p, grammar.Per...)
	}
	if p, ok := l.need(b, "window"); ok {
		word, ok := l.oneOf(p, grammar.Windows...)
		x.Window = &value.Window{Unit: word}
		if ok && word == "session" && x.Per != "session" && x.Per != "" {
			remedy := "write per: session; a balance of another's has no session to end with"
			l.refuse(p.at, "window session with per "+x.Per, remedy)
		}
	}
	if p := b.get("refund"); p.exists() {
		_, x.Refund = l.oneOf(p, grammar.Refunds...)
	}
}

// readCost reads what a call of one tool costs. A cost that depends on the arguments must never be
// missing, since a call of unknown cost could not be charged.
func (l *loader) readCost(p docValue, t *program.Tool) (program.Cost, bool) {
	c := l.compiler(t)
	if !p.isObject() {
		n, ok := p.v.Uint()
		if !ok || n == 0 {
			l.refuse(p.at, "no cost", "write an integer from 1 on, or {arg: POINTER, scale: DIGITS}")
		}
		return program.Cost{Fixed: n}, ok && n > 0
	}
	if !l.strict(p, grammar.Cost) {
		return program.Cost{}, false
	}
	arg, ok := l.need(p, "arg")
	if !ok {
		return program.Cost{}, false
	}
	x := program.Cost{Varies: true}
	if s := p.get("scale"); s.exists() {
		n, whole := s.v.Uint()
		if !whole || n > maxScale {
			remedy := "write how many decimal places count: an integer from 0 to " + strconv.Itoa(maxScale)
			l.refuse(s.at, "no scale", remedy)
			return program.Cost{}, false
		}
		x.Scale = int(n)
	}
	segments, place, ok := c.pointer(arg, nil, false)
	switch {
	case !ok:
		return program.Cost{}, false
	case place.Types&numeric == 0:
		c.refuse(arg.at, "never a number in a call of "+t.Name, "name a number")
		return program.Cost{}, false
	case presenceOf(place) == open:
		what := "the cost may be missing or null in a call of " + t.Name
		c.refuse(arg.at, what, "make it required in the schema, or give it a default")
		return program.Cost{}, false
	}
	x.Path, x.Pointer = segments, value.JoinPointer(segments)
	return x, true
}

package guardian

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A budget of one tool: what a call of it costs, and whose balance that is charged to.
type budget struct {
	name   string // layer:bundle:id
	of     *terms // of the overlay that it is in; nil where every call is concerned
	tests  []node // it applies to a call if all hold
	limit  uint64
	per    string
	window *value.Window
	cost   cost
	refund bool // the charge is given back when the tool itself failed
}

// A cost is a constant or, with a pointer, a number of the arguments times ten to the power of scale.
type cost struct {
	fixed   uint64
	from    bool
	path    []string
	pointer string
	scale   int
}

const maxScale = 15 // ten to that power is the greatest that an integer of a record holds

// readBudgets reads a document's budgets. The ids of rules and budgets are of one space: a decision names either in one field.
func (l *loader) readBudgets(p part) {
	list, ok := l.list(p, 0, 1<<20)
	if !ok {
		return
	}
	for _, b := range list {
		errs := len(l.errs)
		if !l.object(b, []string{"id", "tools", "limit", "per", "window", "cost", "refund", "when", "unless"}, nil) || len(l.errs) > errs {
			continue
		}
		id, named := l.ruleID(b)
		x := budget{name: l.prefix + id}
		if l.layer == overlayLayer {
			x.of = l.terms
		}
		l.readTerm(b, &x)
		var tools []*tool
		if sel, ok := l.need(b, "tools"); ok {
			tools = l.selected(sel, l.layer != bundleLayer)
		}
		price, ok := l.need(b, "cost")
		made := map[*shape]budget{}
		for _, t := range tools {
			if t.input == nil || !ok {
				continue
			}
			of, whole := made[t.shape]
			if !whole {
				of = x
				of.cost, whole = l.readCost(price, t)
				r, right := l.readRule(b, t, false)
				of.tests = r.tests
				if whole = whole && right && named; whole {
					made[t.shape] = of
				}
			}
			if whole {
				t.budgets = append(t.budgets, of)
			}
			if len(t.budgets) > contracts.MaxCharges {
				l.refuse(b.at, "more than "+strconv.Itoa(contracts.MaxCharges)+" budgets for "+t.name, "a decision holds no more charges than that: let one budget do for several")
			}
		}
		l.idle.report(l)
	}
}

// readTerm reads how much may be spent, by whom, and in what time.
func (l *loader) readTerm(b part, x *budget) {
	if p, ok := l.need(b, "limit"); ok {
		if x.limit, ok = p.v.Uint(); !ok {
			l.refuse(p.at, "no limit", "write an integer from 0 to 9007199254740991, in units of the scaled cost")
		}
	}
	if p, ok := l.need(b, "per"); ok {
		x.per, _ = l.oneOf(p, "caller", "tenant", "session", "tool", "all")
	}
	if p, ok := l.need(b, "window"); ok {
		word, ok := l.oneOf(p, "hour", "day", "month", "session", "total")
		x.window = &value.Window{Unit: word}
		if ok && word == "session" && x.per != "session" && x.per != "" {
			l.refuse(p.at, "window session with per "+x.per, "write per: session; a balance of another's has no session to end with")
		}
	}
	if p := b.get("refund"); p.there() {
		_, x.refund = l.oneOf(p, "error")
	}
}

// readCost reads what a call of one tool costs. That must never be missing: a call whose price is not known could not be charged.
func (l *loader) readCost(p part, t *tool) (cost, bool) {
	if p.v.Kind() != crypto.Object {
		n, ok := p.v.Uint()
		if !ok || n == 0 {
			l.refuse(p.at, "no cost", "write an integer from 1 on, or {arg: POINTER, scale: DIGITS}")
		}
		return cost{fixed: n}, ok && n > 0
	}
	errs := len(l.errs)
	if !l.object(p, []string{"arg", "scale"}, nil) || len(l.errs) > errs {
		return cost{}, false
	}
	arg, ok := l.need(p, "arg")
	if !ok {
		return cost{}, false
	}
	x := cost{from: true}
	if s := p.get("scale"); s.there() {
		n, whole := s.v.Uint()
		if !whole || n > maxScale {
			l.refuse(s.at, "no scale", "write how many decimal places count: an integer from 0 to "+strconv.Itoa(maxScale))
			return cost{}, false
		}
		x.scale = int(n)
	}
	c := compiler{l: l, t: t}
	segments, place, ok := c.pointer(arg, nil, false)
	switch {
	case !ok:
		return cost{}, false
	case place.Types&numeric == 0:
		l.refuse(arg.at, "never a number in a call of "+t.name, "name a number")
		return cost{}, false
	case gapOf(place) == open:
		l.refuse(arg.at, "the cost may be missing or null in a call of "+t.name, "make it required in the schema, or give it a default")
		return cost{}, false
	}
	x.path, x.pointer = segments, value.JoinPointer(segments)
	return x, true
}

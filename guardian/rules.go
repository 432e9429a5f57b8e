package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A rule of one tool. It matches a call if all tests hold.
type rule struct {
	name  string // layer:bundle:id
	tests []node
	allow bool

	general bool // it looks at nothing that is in another place for another tool, so all tools share it
}

var reservedIDs = []string{"only", "expires", "scope", "ceilings"}

func (l *loader) readRules(p part) {
	const most = 1 << 20
	rules, ok := l.list(p, 0, most)
	if !ok {
		return
	}
	before := newPrecedence()
	for _, r := range rules {
		errs := len(l.errs)
		if !l.object(r, []string{"id", "allow", "deny", "when", "unless"}, nil) {
			continue
		}
		spelt := len(l.errs) == errs
		id, named := l.ruleID(r)
		allow, deny := r.get("allow"), r.get("deny")
		if allow.there() == deny.there() {
			if spelt || allow.there() { // or one of them may be the misspelt key
				l.refuse(r.at, "neither or both of allow and deny", "write one of them")
			}
			continue
		}
		var tools []*tool
		switch {
		case deny.there():
			tools = l.selected(deny, l.layer != bundleLayer)
		case l.layer != bundleLayer:
			l.refuse(allow.at, "allow in layer "+l.layer, "allow it in a bundle: "+l.layer+" can only deny")
			continue
		default:
			tools = l.exactly(allow)
		}
		name := l.prefix + id
		var x rule
		made := map[*shape]rule{}
		for _, t := range tools {
			if t.input == nil {
				continue
			}
			if of, there := made[t.shape]; there {
				x = of
			} else if whole := x.general; !whole {
				if x, whole = l.readRule(r, t, allow.there()); !whole || !named {
					x.general = false
					continue
				}
				x.name = name
				if len(tools) > 1 {
					made[t.shape] = x
				}
			}
			l.give(t, x)
		}
		l.idle.report(l)
		if len(l.errs) == errs {
			l.live(r, id, tools, before)
		}
	}
}

// give gives a tool its next rule of this document.
func (l *loader) give(t *tool, x rule) {
	rules := &t.rules
	if l.layer != bundleLayer {
		rules = &l.clause(t).rules
	}
	*rules = append(*rules, x)
}

// ruleID is that of a rule, requirement or budget, none twice in a document: a decision names any of them by it.
func (l *loader) ruleID(r part) (string, bool) {
	p, ok := l.need(r, "id")
	if !ok {
		return "", false
	}
	id, ok := l.word(p, contracts.IsID, "1 to 64 of A-Z a-z 0-9 . _ -")
	switch {
	case !ok:
		return "", false
	case slices.Contains(reservedIDs, id):
		l.refuse(p.at, quote(id)+" is a reserved id", "choose another")
		return "", false
	case l.ids[id]:
		l.refuse(p.at, "a second rule of id "+quote(id), "choose another: rules, requirements and budgets are told apart by it")
		return "", false
	}
	l.ids[id] = true
	return id, true
}

func (l *loader) readRule(r part, t *tool, allow bool) (rule, bool) {
	x := rule{allow: allow}
	when, unless := restricts, relaxes
	if allow {
		when, unless = relaxes, restricts
	}
	c := compiler{l: l, t: t}
	whole := true
	if p := r.get("when"); p.there() {
		n, ok := c.predicate(p, 1, when)
		x.tests, whole = append(x.tests, n), ok
	}
	if p := r.get("unless"); p.there() {
		n, ok := c.predicate(p, 1, unless)
		x.tests, whole = append(x.tests, node{op: opNot, slot: noSlot, ref: noSlot, kids: []node{n}}), whole && ok
	}
	x.general = !slices.ContainsFunc(x.tests, func(n node) bool { return n.particular() })
	return x, whole
}

// particular tells whether a predicate looks at a value of the call, for which each tool has slots of its own.
func (n *node) particular() bool {
	return n.slot != noSlot || n.ref != noSlot || n.op == opReceipt && n.more.prior.same != nil ||
		slices.ContainsFunc(n.kids, func(n node) bool { return n.particular() })
}

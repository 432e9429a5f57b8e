package compile

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/grammar"
)

var reservedIDs = []string{"only", "expires", "scope", "ceilings"}

// maxRules is the most rules, requirements or budgets that a document has.
const maxRules = 1 << 20

func (l *loader) readRules(p docValue) {
	rules, ok := l.list(p, 0, maxRules)
	if !ok {
		return
	}
	before := precedence{
		reader: l.reader, rules: map[*program.Tool][]*precedent{},
		terms: &terms{l.reads.lists, map[string]int32{}, map[int32]*points{}, map[pair]bool{}},
	}
	for _, r := range rules {
		errs := l.refused
		if !l.object(r, grammar.Rule) {
			continue
		}
		spelt := l.refused == errs
		id, named := l.ruleID(r)
		allow, deny := r.get("allow"), r.get("deny")
		if allow.exists() == deny.exists() {
			if spelt || allow.exists() { // or one of them may be the misspelt key
				l.refuse(r.at, "neither or both of allow and deny", "write one of them")
			}
			continue
		}
		var tools []*program.Tool
		switch {
		case deny.exists():
			tools = l.catalog.drafted(l.catalog.selected(deny, l.layer != bundleLayer))
		case l.layer != bundleLayer:
			l.refuse(allow.at, "allow in layer "+l.layer, "allow it in a bundle: "+l.layer+" can only deny")
			continue
		default:
			tools = l.catalog.allowed(allow)
		}
		l.addRule(r, tools, allow.exists(), id, named)
		l.idle.report(l.catalog)
		if l.refused == errs && !l.catalog.partial && !slices.ContainsFunc(tools, unread) {
			before.refuseDead(r, id, tools)
		}
	}
}

// unread reports whether the declaration of a tool was refused, so that nothing can be said of its
// calls.
func unread(t *program.Tool) bool { return t.Input == nil }

// addRule adds a rule to its tools. It is read once for each shape and, if it looks at no value of
// the call, once for all.
func (l *loader) addRule(r docValue, tools []*program.Tool, allow bool, id string, named bool) {
	var x program.Rule
	made := map[*program.Shape]program.Rule{}
	for _, t := range tools {
		if unread(t) {
			l.idle.tools++
			continue
		}
		if of, known := made[t.Shape]; known {
			x = of
		} else if !x.General {
			l.idle.tools++
			var whole bool
			x, whole = l.readRule(r, t, allow)
			if !whole || !named {
				x.General = false
				continue
			}
			x.Name, x.At = l.prefix+id, l.placed(r.at)
			if len(tools) > 1 {
				made[t.Shape] = x
			}
		}
		rules := &t.Rules
		if l.layer != bundleLayer {
			rules = &l.clause(t).Rules
		}
		*rules = append(*rules, x)
	}
}

// ruleID reads the id of a rule, requirement or budget. No two of a document have the same, since a
// decision names any of them by it.
func (l *loader) ruleID(r docValue) (string, bool) {
	p, ok := l.need(r, "id")
	if !ok {
		return "", false
	}
	id, ok := l.word(p, contracts.IsID, formID)
	switch {
	case !ok:
		return "", false
	case slices.Contains(reservedIDs, id):
		l.refuse(p.at, quote(id)+" is a reserved id", "choose another")
		return "", false
	case l.ids[id]:
		remedy := "choose another: rules, requirements and budgets are told apart by it"
		l.refuse(p.at, "a second rule of id "+quote(id), remedy)
		return "", false
	}
	l.ids[id] = true
	return id, true
}

// readRule reads when and unless of a rule for one tool, and reports whether both are right.
func (l *loader) readRule(r docValue, t *program.Tool, allow bool) (program.Rule, bool) {
	x := program.Rule{Allow: allow}
	when, unless := restricts, relaxes
	if allow {
		when, unless = relaxes, restricts
	}
	c := l.compiler(t)
	whole := true
	if p := r.get("when"); p.exists() {
		n, ok := c.predicate(p, 1, when)
		x.Tests, whole = append(x.Tests, n), ok
	}
	if p := r.get("unless"); p.exists() {
		n, ok := c.predicate(p, 1, unless)
		not := program.Node{Op: program.OpNot, Slot: program.NoSlot, Ref: program.NoSlot, Kids: []program.Node{n}}
		x.Tests, whole = append(x.Tests, not), whole && ok
	}
	x.General = !slices.ContainsFunc(x.Tests, particular)
	return x, whole
}

// particular reports whether a predicate looks at a value of the call, for which each tool has
// slots of its own.
func particular(n program.Node) bool {
	return n.Slot != program.NoSlot || n.Ref != program.NoSlot ||
		n.Op == program.OpReceipt && n.More.Prior.Same != nil || slices.ContainsFunc(n.Kids, particular)
}

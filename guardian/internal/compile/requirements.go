package compile

import (
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/grammar"
)

// readRequires reads a document's requirements.
func (l *loader) readRequires(p docValue) {
	list, ok := l.list(p, 0, maxRules)
	if !ok {
		return
	}
	for _, r := range list {
		errs := l.refused
		if !l.object(r, grammar.Requirement) {
			continue
		}
		spelt := l.refused == errs
		id, named := l.ruleID(r)
		var tools []*program.Tool
		if sel, ok := l.need(r, "tools"); ok {
			tools = l.catalog.drafted(l.catalog.selected(sel, l.layer != bundleLayer))
		}
		needs, either, ok := l.needs(r, spelt)
		var x *program.Requirement
		made := map[*program.Shape]*program.Requirement{}
		for _, t := range tools {
			if unread(t) {
				l.idle.tools++
				continue
			}
			if of := made[t.Shape]; of != nil {
				x = of
			} else if x == nil || !x.General {
				l.idle.tools++
				x = &program.Requirement{Name: l.prefix + id, Of: l.ofOverlay(), Any: either, At: l.placed(r.at)}
				if !l.readRequirement(r, needs, t, x) || !ok || !named {
					x = nil
					continue
				}
				made[t.Shape] = x
			}
			t.Requires = append(t.Requires, x)
		}
		l.idle.report(l.catalog)
		if x != nil && l.refused == errs {
			l.stated = append(l.stated, stated{x, r.at, tools})
			for i, n := range x.Needs {
				if a, at := n.Approval, needs[i].at+"/approval"; a != nil {
					place := LoadError{Document: l.doc.Name, Pos: l.pos(at), Pointer: at}
					l.asked = append(l.asked, Asked{a.Roles, a.Quorum, place})
				}
			}
		}
	}
}

// needs returns the needs of a requirement, and whether one of them is enough. If a key of it is
// not spelt right, it may be the one that is lacking.
func (l *loader) needs(r docValue, spelt bool) (list []docValue, either, ok bool) {
	all, some := r.get("all"), r.get("any")
	if all.exists() == some.exists() {
		if spelt || all.exists() {
			remedy := "write one of them: a list of approval, attestation and receipt"
			l.refuse(r.at, "neither or both of all and any", remedy)
		}
		return nil, false, false
	}
	if some.exists() {
		list, ok = l.list(some, 1, maxKids)
		return list, true, ok
	}
	list, ok = l.list(all, 1, maxKids)
	return list, false, ok
}

// readRequirement reads what may differ from tool to tool.
func (l *loader) readRequirement(r docValue, needs []docValue, t *program.Tool, x *program.Requirement) bool {
	when, whole := l.readRule(r, t, false)
	x.Tests, x.General = when.Tests, when.General
	c := l.compiler(t)
	for _, p := range needs {
		n, ok := c.requirementNeed(p)
		bound := n.Attestation != nil && n.Attestation.Bind != nil || n.Receipt.Op != 0 && particular(n.Receipt)
		x.Needs = append(x.Needs, n)
		x.General, whole = x.General && !bound, whole && ok
	}
	return whole
}

package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// A requirement of one tool: what must be there before a call of it, where it applies.
type requirement struct {
	name  string // layer:bundle:id
	of    *terms // of the overlay that it is in; nil where every call is concerned
	tests []node // it applies to a call if all hold
	any   bool   // one of the needs will do
	needs []need

	general bool // as of a rule
}

// A stated requirement is one as it stands in its document.
type stated struct {
	*requirement
	at    string
	tools []*tool
}

// readRequires reads a document's requirements. Their ids are of one space with those of rules and budgets.
func (l *loader) readRequires(p part) {
	list, ok := l.list(p, 0, 1<<20)
	if !ok {
		return
	}
	for _, r := range list {
		errs := len(l.errs)
		if !l.object(r, []string{"id", "tools", "when", "unless", "all", "any"}, nil) || len(l.errs) > errs {
			continue
		}
		id, named := l.ruleID(r)
		var tools []*tool
		if sel, ok := l.need(r, "tools"); ok {
			tools = l.selected(sel, l.layer != bundleLayer)
		}
		needs, either, ok := l.needs(r)
		var x *requirement
		made := map[*shape]*requirement{}
		for _, t := range tools {
			if t.input == nil || !ok || !named {
				continue
			}
			if of := made[t.shape]; of != nil {
				x = of
			} else if x == nil || !x.general {
				x = &requirement{name: l.prefix + id, any: either}
				if l.layer == overlayLayer {
					x.of = l.terms
				}
				if !l.readRequirement(r, needs, t, x) {
					x = nil
					continue
				}
				made[t.shape] = x
			}
			t.requires = append(t.requires, x)
		}
		l.idle.report(l)
		if x != nil && len(l.errs) == errs {
			l.stated = append(l.stated, stated{x, r.at, tools})
		}
	}
}

// needs finds those of a requirement, and whether one of them will do.
func (l *loader) needs(r part) (list []part, either, ok bool) {
	all, some := r.get("all"), r.get("any")
	if all.there() == some.there() {
		l.refuse(r.at, "neither or both of all and any", "write one of them: a list of approval, attestation and receipt")
		return nil, false, false
	}
	if some.there() {
		list, ok = l.list(some, 1, maxKids)
		return list, true, ok
	}
	list, ok = l.list(all, 1, maxKids)
	return list, false, ok
}

// readRequirement reads what of a requirement may be another for each tool.
func (l *loader) readRequirement(r part, needs []part, t *tool, x *requirement) bool {
	when, whole := l.readRule(r, t, false)
	x.tests, x.general = when.tests, when.general
	c := compiler{l: l, t: t}
	for _, p := range needs {
		n, ok := c.need(p)
		x.needs = append(x.needs, n)
		x.general, whole = x.general && !n.particular(), whole && ok
	}
	return whole
}

// inStackOrder puts what bundles, which are read first, have brought to a tool into the order of the stack: that of names is not, for
// overlays stand in the order of narrowing.
func inStackOrder[T any](list []T, name func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a)[:len(floorLayer)], name(b)[:len(floorLayer)]) })
}

// An applied requirement is one that the present call must meet. It asks if nothing but approvals can meet it.
type applied struct {
	*requirement
	asks bool
}

// required judges condition 4 as if every approval were there.
func (j *judging) required(s *scratch, t *tool, in *contracts.Inputs) bool {
	for _, x := range t.requires {
		if x.of != nil && !x.of.concern(in, s.behind) {
			continue
		}
		a := yes
		for i := 0; i < len(x.tests) && a == yes; i++ {
			a = s.eval(&x.tests[i])
		}
		if a == no {
			continue
		}
		asks, lacks := false, ""
		if a == yes {
			a, asks, lacks = j.met(s, x, in)
		}
		if a == failed {
			j.deny(contracts.ReasonFailClosedError, "", Why{Rule: x.name, Pointer: s.pointer, What: s.what})
			return false
		}
		if a == no {
			j.deny(contracts.ReasonMissingRequirement, x.name, Why{Rule: x.name, What: lacks})
			return false
		}
		s.applied = append(s.applied, applied{x, asks})
	}
	return true
}

// met tells whether a requirement that applies can be met: by what there is, or only by people, who are asked last. Where one need will do
// the others are looked at first, whatever their order, so that nobody is asked for nothing.
func (j *judging) met(s *scratch, x *requirement, in *contracts.Inputs) (a answer, asks bool, lacks string) {
	for i := range x.needs {
		n := &x.needs[i]
		if n.approval != nil {
			asks = true
			continue
		}
		switch a := j.there(s, n, in); {
		case a == failed:
			return failed, false, ""
		case a == yes && x.any:
			return yes, false, ""
		case a == no && lacks == "":
			lacks = n.lacks
		}
		if lacks != "" && !x.any {
			return no, false, lacks
		}
	}
	if asks || !x.any {
		return yes, asks, ""
	}
	return no, false, lacks
}

// there tells whether a need is met that is no approval.
func (j *judging) there(s *scratch, n *need, in *contracts.Inputs) answer {
	if n.attestation != nil {
		return answerOf(j.attested(s, n.attestation, in))
	}
	return s.eval(&n.receipt)
}

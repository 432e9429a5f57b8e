package compile

import (
	"slices"

	"github.com/helmkernel/helm/guardian/internal/program"
)

// A precedence is the rules so far of each tool of a document, in order. It refuses a rule that is
// provably dead.
type precedence struct {
	*reader
	rules map[*program.Tool][]*precedent
	terms *terms
}

// A precedent is a rule that was read before, as far as it decides whether a later one can match.
type precedent struct {
	id        string
	conjuncts []conjunct
}

// refuseDead refuses a rule that can never decide: for each of its tools, an earlier rule matches,
// or errs, whenever it does. It notes the rule for those that follow.
func (before precedence) refuseDead(r docValue, id string, tools []*program.Tool) {
	x := &precedent{id, before.conjuncts(r)}
	var by *precedent
	dead := len(tools) > 0
	for _, t := range tools {
		if dead {
			i := slices.IndexFunc(before.rules[t], func(e *precedent) bool { return before.covers(e, x) })
			dead = i >= 0
			if dead && by == nil {
				by = before.rules[t][i]
			}
		}
		before.rules[t] = append(before.rules[t], x)
	}
	if dead {
		what := "the rule can never decide: whenever it matches, " + quote(by.id) + " has matched before it"
		before.refuse(r.at, what, "put it before "+by.id+", or remove it")
	}
}

// covers reports whether e matches, or errs, whenever x does: each of its conjuncts is implied by
// one of x's.
func (before precedence) covers(e, x *precedent) bool {
next:
	for i := range e.conjuncts {
		for j := range x.conjuncts {
			if before.terms.implies(&x.conjuncts[j], &e.conjuncts[i]) {
				continue next
			}
		}
		return false
	}
	return true
}

// conjuncts returns the predicates that must all hold for a rule to match: the members of when, if
// it is an all, at any depth of all, else when itself; and {not: unless}.
func (before precedence) conjuncts(r docValue) (all []conjunct) {
	if p := r.get("when"); p.exists() {
		all = before.conjunction(all, p)
	}
	if p := r.get("unless"); p.exists() {
		all = append(all, conjunct{text: before.terms.word(`{"not":` + string(p.v.Append(nil)) + `}`)})
	}
	return all
}

func (before precedence) conjunction(all []conjunct, p docValue) []conjunct {
	if list := p.get("all"); list.exists() {
		for _, kid := range list.elements() {
			all = before.conjunction(all, kid)
		}
		return all
	}
	return append(all, before.terms.conjunct(p))
}

package compile

import "github.com/helmkernel/helm/crypto"

// Implies reports whether the condition q holds wherever p does, by the table of terms.implies. A
// condition is an object with the when and unless of a rule, or with neither. Both are of rules
// about one tool that loaded, and name no lists.
func Implies(p, q crypto.Value) bool {
	of := precedence{terms: &terms{nil, map[string]int32{}, map[int32]*points{}, map[pair]bool{}}}
	later := &precedent{conjuncts: of.conjuncts(docValue{p, ""})}
	return of.covers(&precedent{conjuncts: of.conjuncts(docValue{q, ""})}, later)
}

package policy

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// budgets finds those that never bind, since another is used up before them.
func (l *linter) budgets() {
	var list []*statement
	for i := range l.rules {
		if l.rules[i].kind == "budgets" {
			list = append(list, &l.rules[i])
		}
	}
	for i, b := range list {
		for j, a := range list {
			if i != j && exhausts(a, b) && (j < i || !exhausts(b, a)) {
				l.find("budget-idle", b.doc, b.at, "it never binds: "+a.doc.layer+":"+a.doc.name+":"+a.id()+
					" counts all its calls, and is used up no later", "lower its limit, or remove it")
				break
			}
		}
	}
}

// exhausts reports whether budget a is certainly used up no later than b.
func exhausts(a, b *statement) bool {
	get := func(s *statement, key string) string { return string(s.v.Get(key).Append(nil)) }
	if a.v.Get("limit").Float() > b.v.Get("limit").Float() || !a.doc.forAll() && a.doc != b.doc ||
		a.v.Get("refund").Exists() && !b.v.Get("refund").Exists() {
		return false
	}
	if a.conditional() && (a.doc != b.doc || get(a, "when") != get(b, "when") || get(a, "unless") != get(b, "unless")) {
		return false
	}
	if p, q := a.v.Get("cost"), b.v.Get("cost"); get(a, "cost") != get(b, "cost") &&
		!(p.Kind() == crypto.Number && q.Kind() == crypto.Number && p.Float() >= q.Float()) {
		return false
	}
	per, other := a.v.Get("per").Text(), b.v.Get("per").Text()
	if per != other && per != "all" && !(per == "tenant" && other == "caller") {
		return false
	}
	window, inner := a.v.Get("window").Text(), b.v.Get("window").Text()
	if calendar := []string{"hour", "day", "month", "total"}; window != inner &&
		(inner == "session" && window != "total" || slices.Index(calendar, window) < slices.Index(calendar, inner)) {
		return false
	}
	return !slices.ContainsFunc(b.tools, func(t *declared) bool { return !slices.Contains(a.tools, t) })
}

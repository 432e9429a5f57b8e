package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A clause is a rule, requirement or budget as it is compared.
type clause struct {
	*statement
	whole     inline // without id
	condition inline // when and unless
	of        map[string]bool
}

func clausesOf(s *stack) (list []*clause) {
	for i := range s.rules {
		x := &clause{statement: &s.rules[i], of: map[string]bool{}}
		whole, condition := nodeOf(x.v, ""), &node{kind: crypto.Object}
		putLists(whole, x.doc.root.Get("lists"))
		for _, key := range []string{"when", "unless"} {
			if p := whole.get(key); p != nil {
				condition.set(key, p)
			}
		}
		x.whole, x.condition = parsed(whole.json(nil)), parsed(condition.json(nil))
		for _, t := range x.tools {
			x.of[t.Name] = true
		}
		list = append(list, x)
	}
	return list
}

func (x *clause) name() string { return x.doc.layer + ":" + x.doc.name + ":" + x.id() }

// sameCondition reports whether two conditions have one text.
func (x *clause) sameCondition(y *clause) bool {
	return bytes.Equal(x.condition.text, y.condition.text)
}

// implies reports whether the condition of y holds wherever that of x does.
func (x *clause) implies(y *clause) bool {
	return x.sameCondition(y) || guardian.Implies(x.condition.v, y.condition.v)
}

// reaches reports whether a document of P0 or P2 is for all calls that another is for.
func (x *clause) reaches(y *clause) bool {
	return x.doc.forAll() || x.doc.layer == y.doc.layer && x.doc.name == y.doc.name &&
		x.doc.root.Get("for").Equal(y.doc.root.Get("for"))
}

// statements notes the changes of rules, requirements and budgets.
func (d *differ) statements() {
	old, now := clausesOf(d.from), clausesOf(d.to)
	p := prover{d: d, old: old, now: now, proved: map[string]bool{}}
	before := map[string]*clause{}
	for _, x := range old {
		before[x.kind+x.name()] = x
	}
	still := map[*clause]bool{}
	var kept []*clause // of the old, in the order of the new
	for _, x := range now {
		was := before[x.kind+x.name()]
		if was != nil {
			still[was] = true
			kept = append(kept, was)
		}
	}
	displaced := outOfOrder(old, kept)
	for _, x := range now {
		switch was := before[x.kind+x.name()]; {
		case was == nil:
			d.note(kinds[x.kind], added, x.name(), x.doc, x.at, p.added(x))
		case !bytes.Equal(was.whole.text, x.whole.text):
			d.note(kinds[x.kind], changed, x.name(), x.doc, x.at, p.changed(was, x))
		case displaced[was]:
			d.note(kinds[x.kind], moved, x.name(), x.doc, x.at, p.changed(was, x))
		}
	}
	for _, x := range old {
		if !still[x] {
			d.note(kinds[x.kind], removed, x.name(), x.doc, x.at, p.removed(x))
		}
	}
}

var kinds = map[string]string{"rules": "rule", "requires": "requirement", "budgets": "budget"}

// outOfOrder returns those of kept that stand after one that they stood before. Of two that changed
// places it returns as few as it can: those outside of the longest run that is still in order.
func outOfOrder(old, kept []*clause) map[*clause]bool {
	at := map[*clause]int{}
	for i, x := range old {
		at[x] = i
	}
	var tails []int // by length: index in kept of the least last element
	last := make([]int, len(kept))
	for i, x := range kept {
		n, _ := slices.BinarySearchFunc(tails, at[x], func(j, want int) int { return at[kept[j]] - want })
		last[i] = -1
		if n > 0 {
			last[i] = tails[n-1]
		}
		tails = append(tails[:n], append([]int{i}, tails[min(n+1, len(tails)):]...)...)
	}
	out := map[*clause]bool{}
	for _, x := range kept {
		out[x] = true
	}
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = last[i] {
			delete(out, kept[i])
		}
	}
	return out
}

// A prover finds out whether what changed can allow more.
type prover struct {
	d        *differ
	old, now []*clause
	proved   map[string]bool // by tool: its bundle's rules allow no more
	inputs   map[*declared]*jsonschema.Schema
}

func (p *prover) added(x *clause) string {
	if x.doc.layer != grammar.Bundle || x.kind != "rules" {
		return no
	}
	return p.ofBundle(x, nil, either(x.allows(), yes, unknown))
}

func (p *prover) removed(x *clause) string {
	if x.doc.layer == grammar.Bundle && x.kind == "rules" {
		return p.ofBundle(nil, x, either(x.allows(), unknown, yes))
	}
	return either(p.covered(x), no, yes)
}

func (p *prover) changed(was, x *clause) string {
	if x.doc.layer == grammar.Bundle && x.kind == "rules" {
		return p.ofBundle(x, was, unknown)
	}
	return either(p.covered(was), no, unknown)
}

// ofBundle returns no if the rules of bundles allow no more of each tool that a rule was about, or
// is.
func (p *prover) ofBundle(x, was *clause, otherwise string) string {
	for _, c := range []*clause{x, was} {
		if c == nil {
			continue
		}
		for _, t := range c.tools {
			if !p.narrower(t.Name) {
				return otherwise
			}
		}
	}
	return no
}

// narrower reports whether the rules of the bundle of a tool certainly allow no call that those of
// the old one do not. For each rule that allows there must be an old one that holds wherever it
// does, and nothing before that one that denied, or erred, and does not any more.
func (p *prover) narrower(tool string) bool {
	if known, ok := p.proved[tool]; ok {
		return known
	}
	old, now := rulesOf(p.old, tool), rulesOf(p.now, tool)
	ok := slices.EqualFunc(old, now, alike)
	if !ok {
		ok = true
		for j, s := range now {
			ok = ok && (!s.allows() || p.allowedBefore(tool, s, now[:j], old))
		}
	}
	p.proved[tool] = ok
	return ok
}

func alike(x, y *clause) bool { return x.allows() == y.allows() && x.sameCondition(y) }

// rulesOf returns the rules of bundles about a tool.
func rulesOf(list []*clause, tool string) (some []*clause) {
	for _, x := range list {
		if x.kind == "rules" && x.doc.layer == grammar.Bundle && x.of[tool] {
			some = append(some, x)
		}
	}
	return some
}

// allowedBefore reports whether each call that a rule decides, after those before it, was allowed
// by the old rules.
func (p *prover) allowedBefore(tool string, s *clause, before, old []*clause) bool {
	earlier := map[string]bool{} // conditions that are no, and do not err, when the rule decides
	for _, x := range before {
		earlier[string(x.condition.text)] = true
	}
	for _, r := range old {
		if r.allows() && s.implies(r) {
			return true
		}
		if earlier[string(r.condition.text)] {
			continue
		}
		if !p.neverErrs(r, tool) {
			return false
		}
		if !r.allows() && !slices.ContainsFunc(before, r.implies) {
			return false
		}
	}
	return false
}

// covered reports whether what an old rule of a floor or overlay, requirement or budget refuses is
// refused still, of each tool that is still there.
func (p *prover) covered(r *clause) bool {
	for _, t := range r.tools {
		if p.d.to.named[t.Name] == nil {
			continue
		}
		if !slices.ContainsFunc(p.now, func(s *clause) bool { return s.kind == r.kind && p.covers(s, r, t.Name) }) {
			return false
		}
	}
	return true
}

// covers reports whether s refuses each call of a tool that r refuses.
func (p *prover) covers(s, r *clause, tool string) bool {
	if !s.of[tool] || s.allows() || !s.reaches(r) || !r.implies(s) || !s.sameCondition(r) && !p.neverErrs(r, tool) {
		return false
	}
	switch r.kind {
	case "rules":
		return s.doc.layer != grammar.Bundle
	case "requires":
		return stricterNeeds(s.whole.v, r.whole.v)
	}
	return s.name() == r.name() && p.stricterBudget(s, r)
}

// stricterNeeds reports whether a requirement is met only if another one is.
func stricterNeeds(s, r crypto.Value) bool {
	all, other := s.Get("all"), r.Get("all")
	if !all.Exists() || !other.Exists() {
		return bytes.Equal(s.Get("any").Append(nil), r.Get("any").Append(nil)) && all.Exists() == other.Exists()
	}
	for need := range other.Elements() {
		found := false
		for x := range all.Elements() {
			found = found || stricterNeed(x, need)
		}
		if !found {
			return false
		}
	}
	return true
}

func stricterNeed(s, r crypto.Value) bool {
	a, b := s.Get("approval"), r.Get("approval")
	switch {
	case s.Equal(r):
		return true
	case a.Exists() && b.Exists():
		for role := range a.Get("roles").Elements() {
			if !has(b.Get("roles"), role.Text()) {
				return false
			}
		}
		return quorum(a) >= quorum(b) && amount(a.Get("ttl"), "10m") <= amount(b.Get("ttl"), "10m")
	case s.Get("receipt").Exists() && r.Get("receipt").Exists():
		for _, key := range grammar.Receipt {
			if key != "max_age" && !bytes.Equal(s.Get(key).Append(nil), r.Get(key).Append(nil)) {
				return false
			}
		}
		const ever = "36525d"
		return amount(s.Get("max_age"), ever) <= amount(r.Get("max_age"), ever)
	}
	return false
}

func quorum(approval crypto.Value) float64 {
	if q := approval.Get("quorum"); q.Exists() {
		return q.Float()
	}
	return 1
}

// stricterBudget reports whether a budget counts at least what it counted, against no higher limit.
func (p *prover) stricterBudget(s, r *clause) bool {
	for _, key := range []string{"per", "window"} {
		if s.v.Get(key).Text() != r.v.Get(key).Text() {
			return false
		}
	}
	cost, was := s.v.Get("cost"), r.v.Get("cost")
	constant := cost.Kind() == crypto.Number && was.Kind() == crypto.Number
	if !cost.Equal(was) && !(constant && cost.Float() >= was.Float()) {
		return false
	}
	for _, t := range r.tools {
		if !s.of[t.Name] && p.d.to.named[t.Name] != nil {
			return false
		}
	}
	return s.v.Get("limit").Float() <= r.v.Get("limit").Float() &&
		(!s.v.Get("refund").Exists() || r.v.Get("refund").Exists())
}

// neverErrs reports whether a condition is true or false of every call of a tool whose arguments
// have its schema.
func (p *prover) neverErrs(x *clause, tool string) bool {
	when, unless := x.condition.v.Get("when"), x.condition.v.Get("unless")
	t := p.d.from.named[tool]
	return t != nil && (!when.Exists() || p.total(when, t)) && (!unless.Exists() || p.total(unless, t))
}

// total reports whether a predicate never errs.
func (p *prover) total(v crypto.Value, t *declared) bool {
	for _, key := range []string{"all", "any"} {
		if list := v.Get(key); list.Exists() {
			for kid := range list.Elements() {
				if !p.total(kid, t) {
					return false
				}
			}
			return true
		}
	}
	if kid := v.Get("not"); kid.Exists() {
		return p.total(kid, t)
	}
	for it := v.Iter(); it.Next(); {
		if it.Value().Kind() == crypto.Object {
			return false // it refers to another value
		}
	}
	if v.Get("caller").Exists() || v.Get("time").Exists() {
		return true
	}
	arg := v.Get("arg")
	if !arg.Exists() {
		return false
	}
	if v.Get("exists").Exists() || v.Get("type").Exists() {
		return true
	}
	plain := slices.Concat(grammar.Comparisons, []string{"in", "not_in", "prefix", "suffix", "regex", "finds"})
	return slices.ContainsFunc(plain, func(op string) bool { return v.Get(op).Exists() }) &&
		p.ofOneType(t, arg.Text())
}

// ofOneType reports whether the values at a pointer are all strings, all numbers or all booleans.
func (p *prover) ofOneType(t *declared, pointer string) bool {
	s, ok := p.inputs[t]
	if !ok {
		var open [][]string
		for _, x := range t.Open {
			open = append(open, split(x))
		}
		s, _ = jsonschema.Compile(t.v.Get("input"), true, open...)
		if p.inputs == nil {
			p.inputs = map[*declared]*jsonschema.Schema{}
		}
		p.inputs[t] = s
	}
	place, ok := s.Lookup(split(pointer))
	const numeric = jsonschema.TypeNumber | jsonschema.TypeInteger
	return ok && (place.Types == jsonschema.TypeString || place.Types == jsonschema.TypeBoolean ||
		place.Types != 0 && place.Types&^numeric == 0)
}

// split returns the segments of a JSON Pointer.
func split(pointer string) (segments []string) {
	if pointer == "" {
		return nil
	}
	for _, s := range strings.Split(pointer, "/")[1:] {
		segments = append(segments, unescapeSegment.Replace(s))
	}
	return segments
}

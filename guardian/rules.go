package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A rule of one tool. It matches a call if all tests hold.
type rule struct {
	name  string // layer:bundle:id
	tests []node
	allow bool
}

var reservedIDs = []string{"only", "expires", "scope", "ceilings"}

func (l *loader) readRules(p part) {
	const most = 1 << 20
	rules, ok := l.list(p, 0, most)
	if !ok {
		return
	}
	ids := make(map[string]bool, len(rules))
	for _, r := range rules {
		before := len(l.errs)
		if !l.object(r, []string{"id", "allow", "deny", "when", "unless"}, ruleLater) {
			continue
		}
		spelt := len(l.errs) == before
		id, named := l.ruleID(r, ids)
		allow, deny := r.get("allow"), r.get("deny")
		if allow.there() == deny.there() {
			if spelt || allow.there() { // or one of them may be the misspelt key
				l.refuse(r.at, "neither or both of allow and deny", "write one of them")
			}
			continue
		}
		var tools []*tool
		if allow.there() {
			tools = l.exactly(allow)
		} else {
			tools = l.selected(deny)
		}
		for _, t := range tools {
			if t.input == nil {
				continue
			}
			x, ok := l.readRule(r, t, allow.there())
			if ok && named {
				x.name = l.prefix + id
				t.rules = append(t.rules, x)
			}
		}
	}
}

func (l *loader) ruleID(r part, ids map[string]bool) (string, bool) {
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
	case ids[id]:
		l.refuse(p.at, "a second rule of id "+quote(id), "choose another")
		return "", false
	}
	ids[id] = true
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
		x.tests, whole = append(x.tests, node{op: opNot, slot: noSlot, kids: []node{n}}), whole && ok
	}
	return x, whole
}

// exactly gives the tools of an allow: names, never patterns, which would take in tools added later.
func (l *loader) exactly(p part) []*tool {
	return l.each(p, func(e part, name string) []*tool {
		if strings.Contains(name, star) {
			l.refuse(e.at, "allow takes exact names", "name each tool")
			return nil
		}
		return l.named(e, name)
	})
}

// selected gives the tools of a deny: names, and patterns over the bundle's own tools.
func (l *loader) selected(p part) []*tool {
	if p.v.Kind() == crypto.Object {
		l.refuse(p.at, "only the layers P0 and P2 select tools by effect", "name the tools")
		return nil
	}
	return l.each(p, func(e part, name string) []*tool {
		prefix, pattern := strings.CutSuffix(name, star)
		if !pattern {
			return l.named(e, name)
		}
		var out []*tool
		for _, n := range l.names {
			if strings.HasPrefix(n, prefix) {
				out = append(out, l.tools[n])
			}
		}
		if strings.Contains(prefix, star) {
			l.refuse(e.at, quote(name)+" is no pattern", "write one * at the end")
		} else if len(out) == 0 {
			l.refuse(e.at, quote(name)+" covers no tool of this bundle", "a pattern must cover one")
		}
		return out
	})
}

func (l *loader) named(e part, name string) []*tool {
	if t := l.tools[name]; t != nil {
		return []*tool{t}
	}
	l.refuse(e.at, "no tool "+quote(name)+" in this bundle", l.nearTool(name))
	return nil
}

func (l *loader) nearTool(name string) string {
	for _, n := range l.names {
		if near(name, n) {
			return "did you mean " + n + "?"
		}
	}
	return "a bundle's rules name its own tools"
}

// each goes through a name or a list of names, and gives each tool once, in the order of names.
func (l *loader) each(p part, tools func(e part, name string) []*tool) []*tool {
	if p.v.Kind() == crypto.Array && p.v.Len() == 0 {
		l.refuse(p.at, "an empty list", "name a tool")
	}
	var out []*tool
	seen := map[string]bool{}
	for _, e := range p.elements() {
		name, ok := l.text(e)
		if !ok {
			continue
		}
		if seen[name] {
			l.refuse(e.at, quote(name)+" twice", "name it once")
		}
		seen[name] = true
		out = append(out, tools(e, name)...)
	}
	slices.SortFunc(out, func(a, b *tool) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(out)
}

package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// exactly gives the tools of an allow: names, never patterns, which would take in tools added later.
func (l *loader) exactly(p part) []*tool {
	return l.each(p, func(e part, name string) []*tool {
		if strings.Contains(name, value.Star) {
			l.refuse(e.at, "allow takes exact names", "name each tool")
			return nil
		}
		return l.named(e, name)
	})
}

// selected gives the tools of a deny or only: names, and patterns over the tools that the document can speak of; or a class of them.
func (l *loader) selected(p part, classes bool) []*tool {
	if p.v.Kind() == crypto.Object && classes {
		return l.class(p)
	}
	if p.v.Kind() == crypto.Object {
		l.refuse(p.at, "only rules of the layers P0 and P2 select tools by effect", "name the tools")
		return nil
	}
	return l.each(p, func(e part, name string) []*tool {
		prefix, pattern := strings.CutSuffix(name, value.Star)
		if !pattern {
			return l.named(e, name)
		}
		var out []*tool
		for _, n := range l.names {
			if strings.HasPrefix(n, prefix) {
				out = append(out, l.tools[n])
			}
		}
		if strings.Contains(prefix, value.Star) {
			l.refuse(e.at, quote(name)+" is no pattern", "write one * at the end")
		} else if len(out) == 0 {
			l.refuse(e.at, quote(name)+" covers no tool of this "+l.scope(), "a pattern must cover one")
		}
		return out
	})
}

func (l *loader) named(e part, name string) []*tool {
	if t := l.tools[name]; t != nil {
		return []*tool{t}
	}
	l.refuse(e.at, "no tool "+quote(name)+" in this "+l.scope(), l.nearTool(name))
	return nil
}

func (l *loader) nearTool(name string) string {
	for _, n := range l.names {
		if near(name, n) {
			return "did you mean " + n + "?"
		}
	}
	if l.layer != bundleLayer {
		return "name a tool that a bundle of the stack declares"
	}
	return "a bundle's rules name its own tools"
}

// scope is where the tools are that the document can speak of.
func (l *loader) scope() string {
	if l.layer == bundleLayer {
		return "bundle"
	}
	return "stack"
}

// class gives the tools of some effects, or that data leave by, or both.
func (l *loader) class(p part) []*tool {
	errs := len(l.errs)
	if !l.object(p, []string{"effects", "egress"}, nil) || len(l.errs) > errs {
		return nil
	}
	with, out := p.get("effects"), p.get("egress")
	if !with.there() && !out.there() {
		l.refuse(p.at, "neither effects nor egress", "write {effects: [write]} or {egress: true}")
		return nil
	}
	var of map[string]bool
	if with.there() {
		of = l.words(with, 1, func(e part) { l.oneOf(e, effects...) })
	}
	if out.there() {
		if leaves, ok := l.boolean(out); ok && !leaves {
			l.refuse(out.at, "egress: false", "write egress: true, or effects: a rule about what stays inside has no other form")
		}
	}
	if len(l.errs) > errs {
		return nil
	}
	var tools []*tool
	for _, name := range l.names {
		if t := l.tools[name]; (of == nil || of[string(t.effect)]) && (t.egress || !out.there()) {
			tools = append(tools, t)
		}
	}
	if tools == nil {
		l.refuse(p.at, "covers no tool of this stack", "a rule must cover one; what a floor permits of effects is in its profile")
	}
	return tools
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
			continue // or a short document, of a pattern many times, were all its tools as many times
		}
		seen[name] = true
		out = append(out, tools(e, name)...)
	}
	slices.SortFunc(out, func(a, b *tool) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(out)
}

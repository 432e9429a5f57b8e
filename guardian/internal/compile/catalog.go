package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

// Layers. A stack is P0, P1 and each P2. No layer can widen another, since only P1 can allow.
const (
	floorLayer   = grammar.Floor
	bundleLayer  = grammar.Bundle
	overlayLayer = grammar.Overlay
)

var (
	effects = grammar.Effects
	risks   = grammar.Risks
)

// A catalog is the tools that a document can speak of: a bundle of its own, floors and overlays of
// all.
type catalog struct {
	*reader
	layer    string
	tools    map[string]*program.Tool
	names    []string    // of the tools, sorted
	labels   *vocabulary // of the stack
	profiles *profiles   // of P0 and P1

	// Some of the tools are not known, because what declares them was refused. That a document
	// names a tool which is not there, or says nothing about any, is not its fault then.
	partial bool

	doubtful map[string]bool // of a bundle's tools: something in the declaration was refused

	drafts *drafts // over a stack; nil: the tools are being made, and may be changed
}

// draft returns the tool to add to.
func (c *catalog) draft(t *program.Tool) *program.Tool {
	if c.drafts == nil {
		return t
	}
	return c.drafts.of(t)
}

// drafted returns the tools to add to.
func (c *catalog) drafted(tools []*program.Tool) []*program.Tool {
	if c.drafts == nil {
		return tools
	}
	out := make([]*program.Tool, len(tools))
	for i, t := range tools {
		out[i] = c.drafts.of(t)
	}
	return out
}

// allowed reads the tools of an allow: names, never patterns, which would take in tools added
// later.
func (c *catalog) allowed(p docValue) []*program.Tool {
	return c.each(p, func(e docValue, name string) []*program.Tool {
		if strings.Contains(name, value.Star) {
			c.refuse(e.at, "allow takes exact names", "name each tool")
			return nil
		}
		return c.named(e, name)
	})
}

// selected reads the tools of a deny or only: names and patterns over the tools of the catalog or,
// in floors and overlays, a class of them.
func (c *catalog) selected(p docValue, classes bool) []*program.Tool {
	if p.isObject() && classes {
		return c.class(p)
	}
	if p.isObject() {
		c.refuse(p.at, "only rules of the layers P0 and P2 select tools by effect", "name the tools")
		return nil
	}
	return c.each(p, func(e docValue, name string) []*program.Tool {
		prefix, pattern := strings.CutSuffix(name, value.Star)
		if !pattern {
			return c.named(e, name)
		}
		var out []*program.Tool
		first, _ := slices.BinarySearch(c.names, prefix)
		for _, n := range c.names[first:] {
			if !strings.HasPrefix(n, prefix) {
				break
			}
			out = append(out, c.tools[n])
		}
		if strings.Contains(prefix, value.Star) {
			c.refuse(e.at, quote(name)+" is no pattern", "write one * at the end")
		} else if len(out) == 0 && !c.partial {
			c.refuse(e.at, quote(name)+" covers no tool of this "+c.extent(), "a pattern must cover one")
		}
		return out
	})
}

func (c *catalog) named(e docValue, name string) []*program.Tool {
	if t := c.tools[name]; t != nil {
		return []*program.Tool{t}
	}
	if c.partial {
		return nil
	}
	remedy := "a bundle's rules name its own tools"
	if c.layer != bundleLayer {
		remedy = "name a tool that a bundle of the stack declares"
	}
	if i := slices.IndexFunc(c.names, func(n string) bool { return near(name, n) }); i >= 0 {
		remedy = "did you mean " + c.names[i] + "?"
	}
	c.refuse(e.at, "no tool "+quote(name)+" in this "+c.extent(), remedy)
	return nil
}

// extent says where the tools of the catalog are declared.
func (c *catalog) extent() string {
	if c.layer == bundleLayer {
		return "bundle"
	}
	return "stack"
}

// class reads the tools of some effects, or with egress, or both.
func (c *catalog) class(p docValue) []*program.Tool {
	before := c.refused
	if !c.strict(p, grammar.Class) {
		return nil
	}
	with, out := p.get("effects"), p.get("egress")
	if !with.exists() && !out.exists() {
		c.refuse(p.at, "neither effects nor egress", "write {effects: [write]} or {egress: true}")
		return nil
	}
	var of map[string]bool
	if with.exists() {
		of = c.words(with, 1, func(e docValue) { c.oneOf(e, effects...) })
	}
	if out.exists() {
		if leaves, ok := c.boolean(out); ok && !leaves {
			remedy := "write egress: true, or effects: a rule about what stays inside has no other form"
			c.refuse(out.at, "egress: false", remedy)
		}
	}
	if c.refused > before {
		return nil
	}
	var tools []*program.Tool
	for _, name := range c.names {
		t := c.tools[name]
		if (of == nil || of[string(t.Effect)]) && (t.Surface.Egress || !out.exists()) {
			tools = append(tools, t)
		}
	}
	if tools == nil && !c.partial {
		remedy := "a rule must cover one; what a floor permits of effects is in its profile"
		c.refuse(p.at, "covers no tool of this stack", remedy)
	}
	return tools
}

// each goes through a name or a list of names. It returns each tool once, in the order of names.
func (c *catalog) each(p docValue, tools func(e docValue, name string) []*program.Tool) []*program.Tool {
	if p.v.Kind() == crypto.Array && p.v.Len() == 0 {
		c.refuse(p.at, "an empty list", "name a tool")
	}
	var out []*program.Tool
	seen := map[string]bool{}
	for _, e := range p.elements() {
		name, ok := c.text(e)
		if !ok {
			continue
		}
		if seen[name] {
			c.refuse(e.at, quote(name)+" twice", "name it once")
			continue // a short document with one pattern many times would be all its tools as many times
		}
		seen[name] = true
		out = append(out, tools(e, name)...)
	}
	slices.SortFunc(out, func(a, b *program.Tool) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(out)
}

package compile

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// userSource is the source that is the user's own words.
const userSource = "user"

const maxSources = 16

// sources reads those that a value of a call of the tool is looked for in: the user, and facts of
// the catalog's tools. It also returns what the value may be then.
func (c *catalog) sources(
	p docValue, of *program.Tool, value jsonschema.Types,
) (list []program.Source, kinds program.Kinds, ok bool) {
	if n := p.v.Len(); p.v.Kind() == crypto.Array && n > maxSources {
		c.refuse(p.at, strconv.Itoa(n)+" sources", "write at most "+strconv.Itoa(maxSources))
		return nil, 0, false
	}
	elements, ok := c.list(p, 1, maxSources)
	seen := map[string]bool{}
	for _, e := range elements {
		name, isText := c.text(e)
		if !isText || seen[name] {
			if isText {
				c.refuse(e.at, "a source twice", "name it once")
			}
			ok = false
			continue
		}
		seen[name] = true
		s, types, found := c.source(e, name)
		if found && sameKinds(types)&sameKinds(value)&(textual|numeric) == 0 {
			what := name + " is " + types.String() + ", and the value is " + value.String() + " in a call of " + of.Name
			c.refuse(e.at, what, "name a source of its type")
			found = false
		}
		ok = ok && found
		list, kinds = append(list, s), kinds|kindsOf(types&(textual|numeric))
	}
	return list, kinds, ok
}

// source reads one, and returns the types of its values.
func (c *catalog) source(p docValue, name string) (s program.Source, types jsonschema.Types, ok bool) {
	if name == userSource {
		return program.Source{Name: userSource}, textual | numeric, true
	}
	tool, fact, isFact := strings.Cut(name, "#")
	if !isFact {
		c.refuse(p.at, "no source "+quote(name), "write "+userSource+", or tool#fact")
		return s, 0, false
	}
	tools := c.named(p, tool)
	if tools == nil {
		return s, 0, false
	}
	facts := tools[0].Output.Facts
	f := c.factNamed(p, tools[0], fact, c.unread(tools[0]))
	switch {
	case f == nil || f.Types == 0: // refused
	case f.Count:
		c.refuse(p.at, name+" is a count", "name a fact with values")
	case !f.Vouches:
		c.refuse(p.at, name+" is what an untrusted tool says: anybody may have written it",
			"write trusted: true at the fact if nobody you guard against can")
	default:
		if c.drafts == nil { // nobody has the tools yet, so they may be changed
			facts.Asked = true
		}
		return facts.Source(tool, f), f.Types, true
	}
	return s, 0, false
}

// unread reports whether something in the declaration of a tool was refused: what it lacks may be
// there when that is mended.
func (c *catalog) unread(t *program.Tool) bool { return t.Input == nil || c.doubtful[t.Name] }

// factNamed returns a fact of a tool, or refuses the name.
func (r *reader) factNamed(p docValue, t *program.Tool, name string, unread bool) *program.Fact {
	f := t.Output.Facts.Named(name)
	if f != nil || unread {
		return f
	}
	remedy := "declare it under facts of " + t.Name
	if facts := t.Output.Facts; facts != nil {
		for i := range facts.List {
			if g := facts.List[i].Name; near(name, g) {
				remedy = "did you mean " + g + "?"
			}
		}
	}
	r.refuse(p.at, t.Name+" has no fact "+quote(name), remedy)
	return nil
}

// sameKinds adds to types those whose values may be equal to theirs.
func sameKinds(t jsonschema.Types) jsonschema.Types {
	if t&numeric != 0 {
		return t | numeric
	}
	return t
}

// kindsOf returns the kinds of scalars of some types.
func kindsOf(t jsonschema.Types) (kinds program.Kinds) {
	for _, k := range []crypto.Kind{crypto.String, crypto.Number, crypto.Bool} {
		if typesOf(k)&t != 0 {
			kinds = kinds.With(k)
		}
	}
	return kinds
}

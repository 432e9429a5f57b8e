package jsonschema

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// filler returns the defaults that may be missing from a value for which all of the schemas hold.
// It checks that these schemas allow the value with the defaults filled in.
func (c *compiler) filler(schemas []*node) *filler {
	schemas = withRefs(schemas)
	var names []string // members with a default in them
	var elements, rests []*node
	inElements, inRests := false, false
	for _, n := range schemas {
		if n.object != nil {
			for _, m := range n.object.members {
				if m.schema != nil && m.schema.defaultAt != "" {
					names = append(names, m.name)
				}
			}
			if n.object.rest != nil {
				rests = append(rests, n.object.rest)
				inRests = inRests || n.object.rest.defaultAt != ""
			}
		}
		if n.array != nil && n.array.items != nil {
			elements = append(elements, n.array.items)
			inElements = inElements || n.array.items.defaultAt != ""
		}
	}
	if names == nil && !inElements && !inRests || c.err != nil {
		return nil
	}
	f := new(filler)
	if inElements {
		f.items = c.filler(elements)
	}
	if inRests {
		f.rest = c.filler(rests)
	}
	if f.rest != nil { // it is not for the members that some schema declares
		for _, n := range schemas {
			names = append(names, n.declared()...)
		}
	}
	slices.SortFunc(names, compareNames)
	for _, name := range slices.Compact(names) {
		var declared, below []*node
		for _, n := range schemas {
			if s := n.declares(name); s != nil {
				declared, below = append(declared, s), append(below, s)
			} else if n.object != nil && n.object.rest != nil {
				below = append(below, n.object.rest)
			}
		}
		if x := c.fill(name, declared, below); x.value != nil || x.below != nil || f.rest != nil {
			f.fills = append(f.fills, x)
		}
	}
	if f.items == nil && f.fills == nil && f.rest == nil { // a default of elements has no effect
		return nil
	}
	f.next = make([]int, len(f.fills)+1)
	f.next[len(f.fills)] = len(f.fills)
	for i := len(f.fills) - 1; i >= 0; i-- {
		f.next[i] = i
		if f.fills[i].value == nil {
			f.next[i] = f.next[i+1]
		}
	}
	return f
}

// fill returns the default of one member, which some schemas declare. All that describe it must
// allow the default.
func (c *compiler) fill(name string, declared, all []*node) fill {
	x := fill{name: name, key: append(crypto.AppendString(nil, name), ':'), below: c.filler(all)}
	for _, n := range withRefs(declared) {
		if n.value.Kind() != crypto.Missing {
			x.value = c.filledIn(n, x.below, all)
			break
		}
	}
	return x
}

// filledIn returns the default of n with the defaults that it omits itself. The schemas must allow
// it.
func (c *compiler) filledIn(n *node, f *filler, schemas []*node) []byte {
	text := f.append(nil, n.value, maxFilled)
	at := join(n.at, "default")
	c.filled += len(text)
	if c.filled > maxFilled {
		c.fail(at, "with the defaults in it written out it is too long: all together have 1 MiB", "shorten it")
	}
	if c.err != nil {
		return nil
	}
	var tree crypto.Tree
	if err := tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}); err != nil {
		c.fail(at, "with the defaults in it written out it is nested too deep", "flatten it")
		return nil
	}
	for _, s := range schemas {
		if violation := (&Schema{root: s}).Validate(tree.Root()); violation != nil {
			where := ""
			if violation.Pointer != "" {
				where = ", at " + label(violation.Pointer)
			}
			c.fail(at, "the schema does not allow this default"+where+" ("+violation.Constraint+")", "correct either")
			return nil
		}
	}
	return text
}

// withRefs returns the schemas and those that their $ref lead to, each before the ones that it
// refers to.
func withRefs(schemas []*node) (all []*node) {
	for _, n := range schemas {
		all = append(append(all, n), withRefs(n.all)...)
	}
	return all
}

// declared returns the members that n itself has a schema for.
func (n *node) declared() (names []string) {
	if n.object != nil {
		for _, m := range n.object.members {
			if m.schema != nil {
				names = append(names, m.name)
			}
		}
	}
	return names
}

// declares returns the schema that n itself has for a member, or nil.
func (n *node) declares(name string) *node {
	if n.object != nil {
		if i, found := n.object.find(0, []byte(name)); found {
			return n.object.members[i].schema
		}
	}
	return nil
}

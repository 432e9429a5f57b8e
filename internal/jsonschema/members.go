package jsonschema

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// members compiles properties and additionalProperties, and reads required and dependentRequired.
// closes says that no member is allowed that has no schema here.
func (c *compiler) members(n *node, p place, x site, closes bool, depth int) {
	o := object{dependent: c.dependent(p), names: readNaming(c, p), max: unlimited}
	if n.object != nil { // it has bounds
		o.min, o.max = n.object.min, n.object.max
	}
	properties, at := p.v.Get("properties"), join(p.at, "properties")
	if properties.Kind() != crypto.Missing {
		c.want(properties, crypto.Object, at)
	}
	o.rest = c.rest(p, x, depth)
	if bare := closes && n.types&TypeObject != 0 && properties.Len() == 0 && !has(p.v, "additionalProperties"); bare &&
		!x.in.object && !x.root() {
		what := "no member is named, so it could only be {}"
		if !has(p.v, "type") && properties.Kind() == crypto.Missing {
			what = "without type it may be anything"
		}
		c.fail(p.at, what, `write its type and members, "additionalProperties": false if it has none, or `+x.remedy())
	}
	index := make(map[string]int)
	for it := properties.Iter(); it.Next() && c.err == nil; {
		name := string(it.Key())
		index[name] = len(o.members)
		child := c.schema(place{it.Value(), join(at, name)}, x.member(name, o.rest != nil), depth+1)
		o.members = append(o.members, member{name: name, schema: child})
	}
	if !x.isOpen() {
		c.foldAlike(o.members, at)
	}
	o.closed = closes && o.rest == nil && !c.letsAll(p)
	allowed := func(name, at string) bool {
		if _, known := index[name]; !known && o.closed {
			c.fail(at, label(name)+" is required but not allowed: it is not in properties", "declare it there")
		}
		return c.err == nil
	}
	required, at := p.v.Get("required"), join(p.at, "required")
	if required.Kind() == crypto.Bool {
		c.fail(at, "expected array, not boolean", "draft 3: list the names under required of the object around it")
	}
	for name := range c.distinct(required, at) {
		i, known := index[name]
		if !known && !allowed(name, at) {
			return
		}
		if !known {
			i, index[name] = len(o.members), len(o.members)
			o.members = append(o.members, member{name: name})
		}
		o.members[i].required = true
	}
	for _, d := range o.dependent {
		at := join(p.at, "dependentRequired", d.name)
		for _, name := range append([]string{d.name}, d.needs...) {
			if !allowed(name, at) {
				return
			}
		}
	}
	if n.object = nil; c.err == nil && n.types&TypeObject != 0 && (closes || o.says()) {
		n.object = newObject(o)
		c.possible(n.object, p)
	}
}

// letsAll reports whether additionalProperties is true, which an open schema may say.
func (c *compiler) letsAll(p place) bool {
	v := p.v.Get("additionalProperties")
	return v.Kind() == crypto.Bool && v.Bool()
}

// rest compiles a schema in additionalProperties.
func (c *compiler) rest(p place, x site, depth int) *node {
	v, at := p.v.Get("additionalProperties"), join(p.at, "additionalProperties")
	switch v.Kind() {
	case crypto.Missing:
		return nil
	case crypto.Bool:
		if v.Bool() && !x.isOpen() {
			c.fail(at, "additionalProperties: true lets any member in",
				"name the members in properties, write false if no others are meant, or "+x.remedy())
		}
		return nil
	}
	return c.schema(place{v, at}, x.elements(), depth+1)
}

// possible refuses bounds that no object is within.
func (c *compiler) possible(o *object, p place) {
	required := uint64(0)
	for _, m := range o.members {
		if m.required {
			required++
		}
	}
	switch {
	case o.min > o.max:
		c.fail(join(p.at, "minProperties"), "minProperties is more than maxProperties", "swap them")
	case required > o.max:
		c.fail(join(p.at, "maxProperties"), "more members are required than maxProperties allows", "correct either")
	case o.closed && o.min > uint64(len(o.members)):
		c.fail(join(p.at, "minProperties"), "minProperties is more than the members that are allowed", "correct either")
	}
}

// distinct yields the strings of a list, none twice.
func (c *compiler) distinct(v crypto.Value, at string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if v.Kind() == crypto.Missing || !c.want(v, crypto.Array, at) {
			return
		}
		seen := make(map[string]bool, v.Len())
		for e := range v.Elements() {
			if !c.want(e, crypto.String, at) {
				return
			}
			name := e.Text()
			if seen[name] {
				c.fail(at, label(name)+" is required twice", "remove one")
			}
			seen[name] = true
			if c.err != nil || !yield(name) {
				return
			}
		}
	}
}

// dependent reads dependentRequired.
func (c *compiler) dependent(p place) (list []dependency) {
	v, at := p.v.Get("dependentRequired"), join(p.at, "dependentRequired")
	if v.Kind() == crypto.Missing || !c.want(v, crypto.Object, at) {
		return nil
	}
	for it := v.Iter(); it.Next(); {
		d := dependency{name: string(it.Key())}
		d.needs = slices.Collect(c.distinct(it.Value(), join(at, d.name)))
		list = append(list, d)
	}
	return list
}

// foldAlike refuses names that arguments cannot have together: names that are equal under ASCII
// case folding plus U+017F = s and U+212A = k.
func (c *compiler) foldAlike(members []member, at string) {
	seen := make(map[string]bool)
	for _, m := range members {
		folded := strings.Map(func(r rune) rune {
			switch {
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			case r == 0x17f:
				return 's'
			case r == 0x212a:
				return 'k'
			}
			return r
		}, m.name)
		if seen[folded] {
			c.fail(join(at, m.name), "the name differs from another by letter case only", "rename one")
		}
		seen[folded] = true
	}
}

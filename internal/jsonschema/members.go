package jsonschema

import (
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// members compiles properties and reads required and additionalProperties.
func (c *compiler) members(n *node, p place, closed bool, depth int) {
	if ap := p.v.Get("additionalProperties"); ap.Kind() != crypto.Missing && (ap.Kind() != crypto.Bool || ap.Bool()) {
		c.fail(join(p.at, "additionalProperties"), "additionalProperties can only be false",
			"write false, and name the members in properties")
	}
	var members []member
	index := make(map[string]int)
	properties, at := p.v.Get("properties"), join(p.at, "properties")
	if properties.Kind() != crypto.Missing {
		c.want(properties, crypto.Object, at)
	}
	for it := properties.Iter(); it.Next() && c.err == nil; {
		name := string(it.Key())
		index[name] = len(members)
		child := c.schema(place{it.Value(), join(at, name)}, inside{!c.closed, !c.closed}, depth+1)
		members = append(members, member{name: name, schema: child})
	}
	if c.closed {
		c.foldAlike(members, at)
	}
	required, at := p.v.Get("required"), join(p.at, "required")
	if required.Kind() != crypto.Missing {
		c.want(required, crypto.Array, at)
	}
	for e := range required.Elements() {
		if !c.want(e, crypto.String, at) || c.err != nil {
			return
		}
		name := e.Text()
		i, known := index[name]
		switch {
		case known && members[i].required:
			c.fail(at, label(name)+" is required twice", "remove one")
		case !known && closed:
			c.fail(at, label(name)+" is required but not allowed: it is not in properties", "declare it there")
		case !known:
			i, index[name] = len(members), len(members)
			members = append(members, member{name: name})
		}
		if c.err != nil {
			return
		}
		members[i].required = true
	}
	if n.types&TypeObject != 0 && (len(members) > 0 || closed) {
		n.object = newObject(members, closed)
	}
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

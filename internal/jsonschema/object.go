package jsonschema

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// object is what a schema says of objects.
type object struct {
	members []member // in canonical order
	next    []int    // next[i] is the first required member from i on, or len(members)
	closed  bool     // no others are allowed
}

// A member is declared if it has a schema, and merely required if not.
type member struct {
	name     string
	schema   *node
	required bool
}

func newObject(members []member, closed bool) *object {
	slices.SortFunc(members, func(a, b member) int { return compareNames(a.name, b.name) })
	o := &object{members, make([]int, len(members)+1), closed}
	o.next[len(members)] = len(members)
	for i := len(members) - 1; i >= 0; i-- {
		o.next[i] = o.next[i+1]
		if members[i].required {
			o.next[i] = i
		}
	}
	return o
}

// find is where in the members from the nth on the name is, or would be. Most often that is the nth.
func (o *object) find(n int, name []byte) (int, bool) {
	switch {
	case n == len(o.members):
		return n, false
	case o.members[n].name == string(name):
		return n, true
	case compareNames(o.members[n].name, name) > 0:
		return n, false
	}
	i, found := slices.BinarySearchFunc(o.members[n+1:], name, func(m member, name []byte) int { return compareNames(m.name, name) })
	return n + 1 + i, found
}

// declares gives what the schema by itself says of a member, or nil.
func (n *node) declares(name string) *node {
	if n.object != nil {
		if i, found := n.object.find(0, []byte(name)); found {
			return n.object.members[i].schema
		}
	}
	return nil
}

func (o *object) has(name string) bool {
	_, found := o.find(0, []byte(name))
	return found
}

func (o *object) required() (n int) {
	for _, m := range o.members {
		if m.required {
			n++
		}
	}
	return n
}

// compareNames is the canonical order of names, RFC 8785 section 3.2.3: by UTF-16 code units. UTF-8 has the same but that it sorts U+E000
// to U+FFFF, which start with EE or EF, before what is above them, which starts with F0 to F4 and in UTF-16 with a surrogate, D800 to DFFF.
func compareNames[A, B string | []byte](a A, b B) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			if x >= 0xEE && y >= 0xEE && x>>4 != y>>4 {
				return int(y) - int(x)
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// members compiles properties and reads required and additionalProperties.
func (c *compiler) members(n *node, p place, closed bool, depth int) {
	if ap := p.v.Get("additionalProperties"); ap.Kind() != crypto.Missing && (ap.Kind() != crypto.Bool || ap.Bool()) {
		c.fail(join(p.at, "additionalProperties"), "additionalProperties can only be false", "write false, and name the members in properties")
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

// foldAlike refuses names that no arguments may hold together: those equal under ASCII case folding plus U+017F = s and U+212A = k.
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

// checkObject walks members and schema side by side: both are in canonical order, so the first violation is the same whatever the order
// of keys, and the time linear, bar the look-up of a name that is not the next one.
func (n *node) checkObject(v crypto.Value, w *walk) bool {
	o, at := n.object, 0
	for it := v.Iter(); it.Next(); {
		i, declared := o.find(at, it.Key())
		if r := o.next[at]; r < i {
			return w.missing(n, r)
		}
		at = i
		if declared {
			if m := &o.members[i]; m.schema != nil && !m.schema.check(it.Value(), w) {
				return w.member(m.name)
			}
			at++
		} else if o.closed {
			return w.fail(n, "additionalProperties")
		}
	}
	if r := o.next[at]; r < len(o.members) {
		return w.missing(n, r)
	}
	return true
}

package jsonschema

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// object holds the keywords for objects.
type object struct {
	members   []member // in canonical order
	next      []int    // next[i] is the first required member at or after i, or len(members)
	closed    bool     // no other members are allowed
	rest      *node    // of all other members; nil if anything, or nothing, is allowed for them
	names     *naming  // of all members; nil if any
	min, max  uint64   // number of members
	dependent []dependency
}

// A member is declared if it has a schema, otherwise only required.
type member struct {
	name     string
	schema   *node
	required bool
}

// A dependency is the names that an object with some name must have, too.
type dependency struct {
	name  string
	needs []string
}

// read reads a bound.
func (o *object) read(c *compiler, name string, v crypto.Value, at string) {
	if name == "minProperties" {
		o.min = c.length(v, at)
	} else {
		o.max = c.length(v, at)
	}
}

// says reports whether there is anything to check of objects that are not closed.
func (o *object) says() bool {
	return len(o.members) > 0 || o.rest != nil || o.names != nil || o.dependent != nil ||
		o.min > 0 || o.max != unlimited
}

func newObject(o object) *object {
	slices.SortFunc(o.members, func(a, b member) int { return compareNames(a.name, b.name) })
	o.next = make([]int, len(o.members)+1)
	o.next[len(o.members)] = len(o.members)
	for i := len(o.members) - 1; i >= 0; i-- {
		o.next[i] = o.next[i+1]
		if o.members[i].required {
			o.next[i] = i
		}
	}
	return &o
}

// find returns the position of the name among the members from n on, or the one to insert it at.
// It is fast if that is n, the most common case.
func (o *object) find(n int, name []byte) (int, bool) {
	switch {
	case n == len(o.members):
		return n, false
	case o.members[n].name == string(name):
		return n, true
	case compareNames(o.members[n].name, name) > 0:
		return n, false
	}
	byName := func(m member, name []byte) int { return compareNames(m.name, name) }
	i, found := slices.BinarySearchFunc(o.members[n+1:], name, byName)
	return n + 1 + i, found
}

func (o *object) has(name string) bool {
	_, found := o.find(0, []byte(name))
	return found
}

// compareNames compares names in canonical order, RFC 8785 section 3.2.3: by UTF-16 code units.
// Bytes of UTF-8 sort in the same way, except that U+E000 to U+FFFF, whose first byte is EE or EF,
// come before the characters above, whose first byte is F0 to F4. In UTF-16 those begin with a
// surrogate, D800 to DFFF.
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

// check walks the members of the value and of the schema in parallel. Both are in canonical order,
// so the first violation does not depend on the order of keys. The time is linear, except for
// looking up a name that is not the next one.
func (o *object) check(n *node, v crypto.Value, w *walk) bool {
	if o.min > 0 || o.max != unlimited {
		switch count := uint64(v.Len()); {
		case count < o.min:
			return w.fail(n, "minProperties")
		case count > o.max:
			return w.fail(n, "maxProperties")
		}
	}
	at := 0
	for it := v.Iter(); it.Next(); {
		key := it.Key()
		i, declared := o.find(at, key)
		if r := o.next[at]; r < i {
			return w.missing(n, r)
		}
		at = i
		if o.names != nil && !o.names.allows(key, w) {
			return w.fail(n, "propertyNames")
		}
		switch {
		case declared:
			m := &o.members[i]
			s := m.schema
			if s == nil {
				s = o.rest
			}
			if s != nil && !s.check(it.Value(), w) {
				return w.below(step{m.name, -1})
			}
			at++
		case o.rest != nil:
			if !o.rest.check(it.Value(), w) {
				return w.within(key)
			}
		case o.closed:
			return w.extra(n, key)
		}
	}
	if r := o.next[at]; r < len(o.members) {
		return w.missing(n, r)
	}
	for i := range o.dependent {
		if d := &o.dependent[i]; has(v, d.name) {
			for _, name := range d.needs {
				if !has(v, name) {
					return w.needed(n, name)
				}
			}
		}
	}
	return true
}

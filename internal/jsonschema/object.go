package jsonschema

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// object holds the keywords for objects.
type object struct {
	members []member // in canonical order
	next    []int    // next[i] is the first required member at or after i, or len(members)
	closed  bool     // no other members are allowed
}

// A member is declared if it has a schema, otherwise only required.
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
	at := 0
	for it := v.Iter(); it.Next(); {
		i, declared := o.find(at, it.Key())
		if r := o.next[at]; r < i {
			return w.missing(n, r)
		}
		at = i
		if declared {
			if m := &o.members[i]; m.schema != nil && !m.schema.check(it.Value(), w) {
				return w.below(step{m.name, -1})
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

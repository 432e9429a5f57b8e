package jsonschema

import (
	"sync"

	"github.com/helmkernel/helm/crypto"
)

// Validate returns the first violation, or nil if v is valid. The order is: type, const, enum,
// bounds and lengths, members in canonical order (a missing one at its place) or elements, and then
// $ref, anyOf and oneOf. If no branch of an anyOf or oneOf holds, but only one allows the type of
// the value, it returns the violation of that branch.
func (s *Schema) Validate(v crypto.Value) *Violation {
	if s == nil || s.root == nil {
		return &Violation{"", "no schema: nothing is allowed"}
	}
	if v.Kind() == crypto.Missing {
		return &Violation{"", "a value"}
	}
	w := walk{pool: &s.scratch}
	if s.root.check(v, &w) {
		return nil
	}
	return w.violation()
}

// walk is the state of one validation. It records a violation only if that will be the result, not
// in a branch that is tried.
type walk struct {
	quiet   int // number of anyOf and oneOf being tried
	node    *node
	keyword string
	name    string // of the missing member
	path    []step // from the violation up to the root
	pool    *sync.Pool
}

// A step leads to an element, or to a member if the index is -1.
type step struct {
	name  string
	index int
}

func (w *walk) fail(n *node, keyword string) bool {
	if w.quiet == 0 {
		w.node, w.keyword = n, keyword
	}
	return false
}

func (w *walk) missing(n *node, i int) bool {
	if w.quiet == 0 {
		w.name = n.object.members[i].name
	}
	return w.fail(n, "required")
}

func (w *walk) below(s step) bool {
	if w.quiet == 0 {
		w.path = append(w.path, s)
	}
	return false
}

// check recurses as deep as schemas are nested. In the implied elements of a closed array it
// recurses as deep as the value.
func (n *node) check(v crypto.Value, w *walk) bool {
	k := v.Kind()
	if t := n.types & kindTypes[k]; t == 0 || t == TypeInteger && !whole(v.Raw()) {
		return w.fail(n, "type")
	}
	if n.constant != nil && !n.constant.has(v) {
		return w.fail(n, "const")
	}
	if n.enum != nil && !n.enum.has(v) {
		return w.fail(n, "enum")
	}
	switch {
	case k == crypto.String && n.text != nil:
		if keyword := n.text.check(v, w); keyword != "" {
			return w.fail(n, keyword)
		}
	case k == crypto.Number && n.number != nil:
		if keyword := n.number.check(v); keyword != "" {
			return w.fail(n, keyword)
		}
	case k == crypto.Object && n.object != nil && !n.object.check(n, v, w):
		return false
	case k == crypto.Array && n.array != nil && !n.array.check(n, v, w):
		return false
	}
	return !n.composed || n.checkAll(v, w) && (n.anyOf == nil || n.checkAny(v, w)) &&
		(n.oneOf == nil || n.checkOne(v, w))
}

func (n *node) checkAll(v crypto.Value, w *walk) bool {
	for _, s := range n.all {
		if !s.check(v, w) {
			return false
		}
	}
	return true
}

func (n *node) checkAny(v crypto.Value, w *walk) bool {
	w.quiet++
	for _, s := range n.anyOf {
		if s.check(v, w) {
			w.quiet--
			return true
		}
	}
	w.quiet--
	return w.explain(n, "anyOf", n.anyOf, v)
}

func (n *node) checkOne(v crypto.Value, w *walk) bool {
	hits := 0
	w.quiet++
	for i := 0; i < len(n.oneOf) && hits < 2; i++ {
		if n.oneOf[i].check(v, w) {
			hits++
		}
	}
	w.quiet--
	switch hits {
	case 0:
		return w.explain(n, "oneOf", n.oneOf, v)
	case 1:
		return true
	}
	return w.fail(n, "oneOf")
}

// explain records the violation of a value that no branch allows. It checks one branch again, so a
// violation costs at most the check times the nesting.
func (w *walk) explain(n *node, keyword string, branches []*node, v crypto.Value) bool {
	if w.quiet > 0 {
		return false
	}
	var only *node
	for _, s := range branches {
		switch t := s.may & kindTypes[v.Kind()]; {
		case t == 0:
		case only != nil:
			return w.fail(n, keyword)
		default:
			only = s
		}
	}
	if only == nil {
		return w.fail(n, keyword)
	}
	return only.check(v, w)
}

func (w *walk) borrow() *scratch {
	if s, ok := w.pool.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// giveBack keeps the memory, unless a large value made it grow too far to keep.
func (w *walk) giveBack(s *scratch) {
	const large = 64 << 10
	if cap(s.text) <= large && cap(s.parts) <= large/16 {
		s.text, s.parts = s.text[:0], s.parts[:0]
		w.pool.Put(s)
	}
}

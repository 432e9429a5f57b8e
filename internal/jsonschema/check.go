package jsonschema

import (
	"math"
	"sync"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/pattern"
)

// Validate returns the first violation, or nil if v is valid. The order is: type, const, enum,
// bounds and lengths, members in canonical order (a missing one at its place) or elements, what
// members depend on, and then $ref, anyOf and oneOf. If no branch of an anyOf or oneOf holds, but
// only one allows the type of the value, it returns the violation of that branch.
func (s *Schema) Validate(v crypto.Value) *Violation {
	visits := 0
	violation, _ := s.ValidateWithin(v, &visits, math.MaxInt)
	return violation
}

// ValidateWithin is like Validate, but adds to visits what the tests of patterns cost: for each,
// bytes of the string times steps of the pattern over 8,192. Once visits are over most, no pattern
// is tested any more, and it returns nil and false: the value may be valid or not.
func (s *Schema) ValidateWithin(v crypto.Value, visits *int, most int) (*Violation, bool) {
	if s == nil || s.root == nil {
		return &Violation{"", "no schema: nothing is allowed"}, true
	}
	if v.Kind() == crypto.Missing {
		return &Violation{"", "a value"}, true
	}
	w := walk{pool: &s.scratch, named: s.closed, visits: *visits, most: most}
	ok := s.root.check(v, &w)
	*visits = w.visits
	switch {
	case w.visits > most:
		return nil, false
	case ok:
		return nil, true
	}
	return w.violation(), true
}

// walk is the state of one validation. It records a violation only if that will be the result, not
// in a branch that is tried.
type walk struct {
	quiet   int // number of anyOf and oneOf being tried
	node    *node
	keyword string
	name    string // of the missing member, or of the one that is not allowed
	path    []step // from the violation up to the root
	pool    *sync.Pool
	named   bool // names of the value may be shown, if they are plain
	visits  int
	most    int
}

// charge adds the cost of a test to the visits, and reports whether they are not too many.
func (w *walk) charge(steps, bytes int) bool {
	w.visits += pattern.Visits(steps, bytes)
	return w.visits <= w.most
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

// extra fails for a member that is not allowed. It may be misspelt, so it is named if it can be.
func (w *walk) extra(n *node, name []byte) bool {
	if w.quiet == 0 {
		w.name = w.shown(name)
	}
	return w.fail(n, "additionalProperties")
}

// needed fails for a member that another one depends on.
func (w *walk) needed(n *node, name string) bool {
	if w.quiet == 0 {
		w.name = name
	}
	return w.fail(n, "dependentRequired")
}

// within is below for a member that the schema does not name.
func (w *walk) within(name []byte) bool {
	if w.quiet > 0 {
		return false
	}
	s := step{w.shown(name), -1}
	if s.name == "" {
		s.name = "*"
	}
	return w.below(s)
}

// shown returns a name that the value has and the schema has not, or "" if it must not be shown.
func (w *walk) shown(name []byte) string {
	const most = 64
	if !w.named || len(name) > most {
		return ""
	}
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-') {
			return ""
		}
	}
	return string(name)
}

func (w *walk) below(s step) bool {
	if w.quiet == 0 {
		w.path = append(w.path, s)
	}
	return false
}

// check recurses as deep as schemas are nested.
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

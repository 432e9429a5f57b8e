package jsonschema

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/crypto"
)

// Place is what may stand at a pointer.
type Place struct {
	Types    Types // that the value may have, null apart
	Optional bool  // the value may be missing
	Nullable bool  // the value may be null
	Filled   bool  // Optional, but after AppendDefaults it is never missing
}

// Lookup tells what may stand at a JSON Pointer, given as its decoded segments, in values that the schema allows. "*" stands for each
// element of an array, and for each member's value of an object if that is closed. It gives false where no schema declares the member, or
// where nothing can stand. Below anyOf and oneOf one branch that declares it is enough. Elements need not be declared: without items they
// may be anything.
//
// A value may be missing if on the way to it a member is not required, or is in some branches only, if what holds it may be null or of
// another type, and if it is the element at an index. Where a default would fill in all that may be missing, that is said too.
func (s *Schema) Lookup(pointer []string) (Place, bool) { return s.LookupBelow(nil, pointer) }

// LookupBelow is Lookup for the pointer that continues base, given that there is a value at base: it may be missing only if what is below
// base may be. So it tells of the elements that a quantifier goes through.
func (s *Schema) LookupBelow(base, pointer []string) (Place, bool) {
	if s == nil || s.root == nil {
		return Place{}, false
	}
	n, optional, filled := s.root, false, false
	for i, name := range slices.Concat(base, pointer) {
		if i == len(base) {
			optional, filled = false, false
		}
		switch {
		case name == "*":
			optional = optional || n.may&^(TypeArray|TypeObject) != 0
			n = n.each()
		case n.may&TypeArray != 0 && isIndex(name):
			optional = true
			n = either(n.element(), n.member(name))
		default:
			switch {
			case n.may == TypeObject && n.requires(name):
			case n.may == TypeObject && n.fills(name):
				filled = true
			default:
				optional = true
			}
			n = n.member(name)
		}
		if n == nil {
			return Place{}, false
		}
	}
	below := len(pointer) > 0
	return Place{n.may.plain() &^ TypeNull, below && (optional || filled), n.may&TypeNull != 0, below && filled && !optional}, n.may != 0
}

// isIndex tells whether a segment is an array index, RFC 6901 section 4.
func isIndex(s string) bool {
	i, err := strconv.ParseUint(s, 10, 32)
	return err == nil && strconv.FormatUint(i, 10) == s
}

// Below, nodes are made that stand for several schemas at once: all of them, or one of them.
func both(nodes []*node) *node {
	if len(nodes) == 0 {
		return nil
	}
	n := &node{types: anyType, all: nodes}
	n.narrow()
	return n
}

func either(nodes ...*node) *node {
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == nil })
	if len(nodes) == 0 {
		return nil
	}
	n := &node{types: anyType, anyOf: nodes}
	n.narrow()
	return n
}

// member is what holds for the member's value, or nil if it is not declared or cannot be.
func (n *node) member(name string) *node {
	if n.may&TypeObject == 0 {
		return nil
	}
	m, _ := n.gather(TypeObject, func(n *node) (*node, bool) {
		s := n.declares(name)
		return s, s != nil || n.object == nil || !n.object.closed
	})
	return m
}

// element is what holds for the elements.
func (n *node) element() *node {
	if n.may&TypeArray == 0 {
		return nil
	}
	e, possible := n.gather(TypeArray, func(n *node) (*node, bool) {
		if n.array == nil {
			return nil, true
		}
		return n.array.items, true
	})
	if e == nil && possible {
		return &node{types: anyType, may: anyType}
	}
	return e
}

// each is what holds for the elements, or for the values of members.
func (n *node) each() *node {
	some := []*node{n.element()}
	if n.may&TypeObject != 0 {
		if !n.closed() {
			return nil // a member that is not declared may be anything
		}
		for _, name := range n.names(nil) {
			some = append(some, n.member(name))
		}
	}
	return either(some...)
}

// gather collects what schemas in place, for values of type t, say of something below. own gives what a node by itself says, nil if it is
// silent, and whether it can be there at all. A branch that it cannot be in is not the one that holds.
func (n *node) gather(t Types, own func(*node) (*node, bool)) (*node, bool) {
	var said []*node
	s, possible := own(n)
	if s != nil {
		said = append(said, s)
	}
	for _, s := range n.all {
		s, ok := s.gather(t, own)
		possible = possible && ok
		if s != nil {
			said = append(said, s)
		}
	}
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		var some []*node
		silent := 0
		for _, s := range branches {
			if s.may&t == 0 {
				continue
			}
			switch s, ok := s.gather(t, own); {
			case ok && s != nil:
				some = append(some, s)
			case ok:
				silent++
			}
		}
		switch {
		case branches != nil && len(some)+silent == 0:
			possible = false
		case len(some) > 0 && silent > 0:
			some = append(some, &node{types: anyType, may: anyType})
			fallthrough
		case len(some) > 0:
			said = append(said, either(some...))
		}
	}
	if !possible {
		return nil, false
	}
	return both(said), true
}

// requires tells whether every object allowed has the member.
func (n *node) requires(name string) bool {
	if n.object != nil {
		if i, found := n.object.find(0, []byte(name)); found && n.object.members[i].required {
			return true
		}
	}
	return n.inPlace(func(s *node) bool { return s.requires(name) })
}

// fills tells whether every object allowed gets the member from a default. Those below anyOf and oneOf fill nothing.
func (n *node) fills(name string) bool {
	if m := n.declares(name); m != nil && slices.ContainsFunc(withRefs([]*node{m}), func(s *node) bool { return s.value.Kind() != crypto.Missing }) {
		return true
	}
	return slices.ContainsFunc(n.all, func(s *node) bool { return s.fills(name) })
}

// closed tells whether every member an object may have is declared.
func (n *node) closed() bool {
	return n.object != nil && n.object.closed || n.inPlace((*node).closed)
}

// inPlace tells whether something holds for objects by the $ref, or by every branch of anyOf or of oneOf.
func (n *node) inPlace(holds func(*node) bool) bool {
	if slices.ContainsFunc(n.all, holds) {
		return true
	}
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		if branches != nil && !slices.ContainsFunc(branches, func(s *node) bool { return s.may&TypeObject != 0 && !holds(s) }) {
			return true
		}
	}
	return false
}

// names are those declared in place, in canonical order.
func (n *node) names(names []string) []string {
	if n.object != nil {
		for _, m := range n.object.members {
			if m.schema != nil {
				names = append(names, m.name)
			}
		}
	}
	for _, group := range [...][]*node{n.all, n.anyOf, n.oneOf} {
		for _, s := range group {
			names = s.names(names)
		}
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

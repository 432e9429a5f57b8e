package jsonschema

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/crypto"
)

// Place describes the values at a pointer.
type Place struct {
	Types    Types // of the value, except null
	Optional bool  // the value may be missing
	Nullable bool  // the value may be null
	Filled   bool  // Optional, but never missing after AppendDefaults
	Map      bool  // an object there is a map: one whose members a schema in additionalProperties describes
	Open     bool  // of a closed schema: the value may be anything that an open schema allows
}

// Lookup describes the values at a JSON Pointer, given as decoded segments, in values that the
// schema allows. "*" stands for each element of an array, and for the value of each member of a map
// or closed object. It returns false if no schema declares the member, or if no value can be there.
// A schema in additionalProperties declares no member. Below anyOf and oneOf it is enough if one
// branch declares the member. Elements need not be declared: without items they may be anything.
// Below what is Open there is no Place; the result is then false, and says no more than that it is
// Open.
//
// A value is Optional if a member on the way to it is not required, or is in some branches only; if
// a container on the way may be null or of another type; or if it is the element at an index. It is
// Filled if a default fills in everything that may be missing.
func (s *Schema) Lookup(pointer []string) (Place, bool) { return s.LookupBelow(nil, pointer) }

// LookupBelow is like Lookup for the pointer that continues base, but it assumes that there is a
// value at base. So the result is Optional only if something below base may be missing. A
// quantifier uses it for the elements that it visits.
func (s *Schema) LookupBelow(base, pointer []string) (Place, bool) {
	if s == nil || s.root == nil {
		return Place{}, false
	}
	n, optional, filled := s.root, false, false
	for i, name := range slices.Concat(base, pointer) {
		if i == len(base) {
			optional, filled = false, false
		}
		if n.open {
			return Place{Open: true}, false
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
	return Place{
		Types:    n.may.plain() &^ TypeNull,
		Optional: below && (optional || filled),
		Nullable: n.may&TypeNull != 0,
		Filled:   below && filled && !optional,
		Map:      n.may&TypeObject != 0 && n.isMap(),
		Open:     n.open,
	}, n.may != 0
}

// isIndex reports whether a segment is an array index, RFC 6901 section 4.
func isIndex(s string) bool {
	i, err := strconv.ParseUint(s, 10, 32)
	return err == nil && strconv.FormatUint(i, 10) == s
}

func isOpen(n *node) bool { return n.open }

// both and either return nodes that stand for several schemas: all of them, or one of them.
func both(nodes []*node) *node {
	if len(nodes) == 0 {
		return nil
	}
	n := &node{types: anyType, all: nodes, open: slices.ContainsFunc(nodes, isOpen)}
	n.narrow()
	return n
}

func either(nodes ...*node) *node {
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == nil })
	if len(nodes) == 0 {
		return nil
	}
	n := &node{types: anyType, anyOf: nodes, open: slices.ContainsFunc(nodes, isOpen)}
	n.narrow()
	return n
}

// member returns the schema of a member's value, or nil if the member is not declared or cannot
// exist.
func (n *node) member(name string) *node {
	if n.may&TypeObject == 0 || !slices.Contains(n.names(nil), name) {
		return nil
	}
	m, _ := n.gather(TypeObject, func(n *node) (*node, bool) {
		s := n.declares(name)
		if s == nil && n.object != nil {
			s = n.object.rest
		}
		return s, s != nil || n.object == nil || !n.object.closed
	})
	return m
}

// others returns the schema of members that no schema names, or nil if there are none.
func (n *node) others() *node {
	m, _ := n.gather(TypeObject, func(n *node) (*node, bool) {
		if n.object == nil {
			return nil, true
		}
		return n.object.rest, n.object.rest != nil || !n.object.closed
	})
	return m
}

// element returns the schema of elements.
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

// each returns the schema of elements, or of the values of members.
func (n *node) each() *node {
	some := []*node{n.element()}
	if n.may&TypeObject != 0 {
		if !n.closed() {
			return nil // a member that is not declared may be anything
		}
		some = append(some, n.others())
		for _, name := range n.names(nil) {
			some = append(some, n.member(name))
		}
	}
	return either(some...)
}

// gather collects the schemas of a member or of elements from all schemas that apply to a value of
// type t. own returns the schema that a node itself has, or nil, and whether the node allows the
// member or elements at all. A branch that does not allow them cannot be the one that holds.
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

// requires reports whether every allowed object has the member.
func (n *node) requires(name string) bool {
	if n.object != nil {
		if i, found := n.object.find(0, []byte(name)); found && n.object.members[i].required {
			return true
		}
	}
	return n.inPlace(func(s *node) bool { return s.requires(name) })
}

// fills reports whether every allowed object gets the member from a default. Defaults below anyOf
// and oneOf are not filled in.
func (n *node) fills(name string) bool {
	hasDefault := func(s *node) bool { return s.value.Kind() != crypto.Missing }
	if m := n.declares(name); m != nil && slices.ContainsFunc(withRefs([]*node{m}), hasDefault) {
		return true
	}
	return slices.ContainsFunc(n.all, func(s *node) bool { return s.fills(name) })
}

// closed reports whether a schema describes every member that an object may have.
func (n *node) closed() bool {
	return n.object != nil && (n.object.closed || n.object.rest != nil) || n.inPlace((*node).closed)
}

// isMap reports whether every object is one of which a schema in additionalProperties describes
// members.
func (n *node) isMap() bool {
	return n.object != nil && n.object.rest != nil || n.inPlace((*node).isMap)
}

// inPlace reports whether something holds for objects because of the $ref, or because of every
// branch of anyOf or of oneOf.
func (n *node) inPlace(holds func(*node) bool) bool {
	if slices.ContainsFunc(n.all, holds) {
		return true
	}
	fails := func(s *node) bool { return s.may&TypeObject != 0 && !holds(s) }
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		if branches != nil && !slices.ContainsFunc(branches, fails) {
			return true
		}
	}
	return false
}

// names returns the members that are declared, in canonical order.
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

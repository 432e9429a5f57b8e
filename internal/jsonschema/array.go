package jsonschema

import (
	"bytes"
	"math"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

const unlimited = math.MaxUint64

// array is what a schema says of arrays.
type array struct {
	min, max uint64
	unique   bool
	items    *node // nil: elements may be anything
	implied  bool  // no keyword says what the elements are; a closed schema implies it
}

func (n *node) arrays() *array {
	if n.array == nil {
		n.array = &array{max: unlimited}
	}
	return n.array
}

func (c *compiler) readArray(n *node, name string, v crypto.Value, at string) {
	a := n.arrays()
	switch name {
	case "minItems":
		a.min = c.length(v, at)
	case "maxItems":
		a.max = c.length(v, at)
	case "uniqueItems":
		a.unique = c.want(v, crypto.Bool, at) && v.Bool()
	}
	if a.min > a.max {
		c.fail(at, "minItems is more than maxItems", "swap them")
	}
}

// elements compiles items, or what a closed schema without it implies: elements of any type, but no object has a member.
func (c *compiler) elements(n *node, p place, implied bool, depth int) {
	v := p.v.Get("items")
	switch {
	case v.Kind() == crypto.Array:
		c.fail(join(p.at, "items"), "items is one schema for all elements", "use an object with named members")
	case v.Kind() != crypto.Missing:
		n.arrays().items = c.schema(place{v, join(p.at, "items")}, inside{!c.closed, !c.closed}, depth+1)
	case implied && n.types&TypeArray != 0:
		n.arrays().items, n.array.implied = c.anything, true
	}
}

// newAnything is the schema of such elements.
func newAnything() *node {
	n := &node{types: anyType, may: anyType, object: newObject(nil, true)}
	n.array = &array{max: unlimited, items: n, implied: true}
	return n
}

func (n *node) checkArray(v crypto.Value, w *walk) bool {
	a := n.array
	switch count := uint64(v.Len()); {
	case count < a.min:
		return w.fail(n, "minItems")
	case count > a.max:
		return w.fail(n, "maxItems")
	case a.unique && count > 1 && !w.unique(v):
		return w.fail(n, "uniqueItems")
	}
	if a.items == nil {
		return true
	}
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		if !a.items.check(it.Value(), w) {
			return w.element(i)
		}
	}
	return true
}

// scratch is memory that validation borrows, where it needs any.
type scratch struct {
	text  []byte
	parts []span
}

// A span is the canonical form of one element in scratch.text.
type span struct{ from, to int }

// few elements are compared each with each.
const few = 8

// unique tells whether no two elements are equal. It sorts the canonical forms, so no choice of elements makes it slow, and memory is that
// of the text and 16 bytes an element.
func (w *walk) unique(v crypto.Value) bool {
	if v.Len() <= few {
		return uniqueFew(v)
	}
	s := w.borrow()
	defer w.giveBack(s)
	for it := v.Iter(); it.Next(); {
		from := len(s.text)
		s.text = it.Value().Append(s.text)
		s.parts = append(s.parts, span{from, len(s.text)})
	}
	text := s.text
	slices.SortFunc(s.parts, func(a, b span) int { return bytes.Compare(text[a.from:a.to], text[b.from:b.to]) })
	for i := 1; i < len(s.parts); i++ {
		a, b := s.parts[i-1], s.parts[i]
		if bytes.Equal(text[a.from:a.to], text[b.from:b.to]) {
			return false
		}
	}
	return true
}

func uniqueFew(v crypto.Value) bool {
	for a := v.Iter(); a.Next(); {
		for b := a; b.Next(); {
			if a.Value().Equal(b.Value()) {
				return false
			}
		}
	}
	return true
}

package jsonschema

import (
	"bytes"
	"math"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

const unlimited = math.MaxUint64

// array holds the keywords for arrays.
type array struct {
	min, max uint64
	unique   bool
	items    *node // nil if elements may be anything
}

func (a *array) read(c *compiler, name string, v crypto.Value, at string) {
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

func (a *array) check(n *node, v crypto.Value, w *walk) bool {
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
			return w.below(step{"", i})
		}
	}
	return true
}

// scratch is memory that validation borrows if it needs any.
type scratch struct {
	text  []byte
	parts []span
}

// A span is the canonical form of one element in scratch.text.
type span struct{ from, to int }

// Up to few elements are compared with each other one by one.
const few = 8

// unique reports whether no two elements are equal. It sorts the canonical forms, so no choice of
// elements makes it slow. It uses the memory of the text and 16 bytes an element.
func (w *walk) unique(v crypto.Value) bool {
	if v.Len() <= few {
		for a := v.Iter(); a.Next(); {
			for b := a; b.Next(); {
				if a.Value().Equal(b.Value()) {
					return false
				}
			}
		}
		return true
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

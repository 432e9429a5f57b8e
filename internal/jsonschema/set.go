package jsonschema

import (
	"fmt"

	"github.com/helmkernel/helm/crypto"
)

// set is the values of an enum, or that of const.
type set struct {
	texts      []string        // canonical text of the scalars, if they are few
	index      map[string]bool // … or many
	containers []crypto.Value  // arrays and objects
	values     []crypto.Value
	types      Types
}

func newSet(values []crypto.Value) *set {
	s := &set{values: values}
	for _, v := range values {
		s.types |= typeOf(v)
		if v.Kind() >= crypto.Array {
			s.containers = append(s.containers, v)
		} else {
			s.texts = append(s.texts, string(v.Raw()))
		}
	}
	if len(s.texts) > few {
		s.index = make(map[string]bool, len(s.texts))
		for _, text := range s.texts {
			s.index[text] = true
		}
		s.texts = nil
	}
	return s
}

// has tells whether v is one of the values. Canonical text is unique, so scalars are compared as text: 1.0 was read as 1.
func (s *set) has(v crypto.Value) bool {
	if v.Kind() >= crypto.Array {
		for _, c := range s.containers {
			if c.Equal(v) {
				return true
			}
		}
		return false
	}
	raw := v.Raw()
	for _, text := range s.texts {
		if text == string(raw) {
			return true
		}
	}
	return s.index[string(raw)]
}

// readConst reads the keyword const. A set is made once for a place, however often a $ref leads there.
func (c *compiler) readConst(v crypto.Value, at string) *set {
	if c.sets[at] == nil {
		c.sets[at] = newSet([]crypto.Value{v})
	}
	return c.sets[at]
}

// readEnum reads the keyword enum.
func (c *compiler) readEnum(v crypto.Value, at string) *set {
	if c.sets[at] != nil || !c.want(v, crypto.Array, at) {
		return c.sets[at]
	}
	switch n := v.Len(); {
	case n == 0:
		c.fail(at, "an empty enum allows nothing", "list the values")
		return nil
	case n > maxEnum:
		c.fail(at, fmt.Sprintf("more than %d values", maxEnum), "use pattern, or a list in the policy")
		return nil
	}
	values := make([]crypto.Value, 0, v.Len())
	seen := make(map[string]bool, v.Len())
	var text []byte
	for e := range v.Elements() {
		text = e.Append(text[:0])
		if seen[string(text)] {
			c.fail(at, "a value stands twice", "remove one")
			return nil
		}
		seen[string(text)] = true
		values = append(values, e)
	}
	c.sets[at] = newSet(values)
	return c.sets[at]
}

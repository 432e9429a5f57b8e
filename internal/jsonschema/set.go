package jsonschema

import "github.com/helmkernel/helm/crypto"

// set holds the values of an enum, or the one of a const.
type set struct {
	texts      []string        // canonical text of the scalars, if they are few
	index      map[string]bool // the same, if they are many
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

// has reports whether v is one of the values. Scalars are compared by canonical text, which is
// unique: 1.0 was read as 1.
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

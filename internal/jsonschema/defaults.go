package jsonschema

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// filler holds the defaults that may be missing from a value, of all schemas that hold for it
// together. It is nil if there are none.
type filler struct {
	fills []fill // in canonical order of names
	next  []int  // next[i] is the first one with a default at or after i, or len(fills)
	items *filler
	rest  *filler // of members that are not among the fills
}

type fill struct {
	name  string
	key   []byte // canonical text and the colon
	value []byte // the default, with its own defaults filled in; nil if only below has any
	below *filler
}

// AppendDefaults appends the canonical form of v with defaults filled in. If none is missing it
// returns dst and false. Defaults in elements could make a text many times longer than v, so
// filling stops after 1 MiB. The text is then longer than arguments may be and, unless it is
// complete, not JSON.
func (s *Schema) AppendDefaults(dst []byte, v crypto.Value) ([]byte, bool) {
	if s == nil || !s.filler.missing(v) {
		return dst, false
	}
	return s.filler.append(dst, v, len(dst)+maxFilled), true
}

// find returns the position of the name among the fills from n on, or the one to insert it at. It
// is fast if that is n, the most common case.
func (f *filler) find(n int, name []byte) (int, bool) {
	switch {
	case n == len(f.fills):
		return n, false
	case f.fills[n].name == string(name):
		return n, true
	case compareNames(f.fills[n].name, name) > 0:
		return n, false
	}
	byName := func(x fill, name []byte) int { return compareNames(x.name, name) }
	i, found := slices.BinarySearchFunc(f.fills[n+1:], name, byName)
	return n + 1 + i, found
}

// missing reports whether append would add anything.
func (f *filler) missing(v crypto.Value) bool {
	if f == nil {
		return false
	}
	switch v.Kind() {
	case crypto.Array:
		for it := v.Iter(); f.items != nil && it.Next(); {
			if f.items.missing(it.Value()) {
				return true
			}
		}
	case crypto.Object:
		at := 0
		for it := v.Iter(); (at < len(f.fills) || f.rest != nil) && it.Next(); {
			i, found := f.find(at, it.Key())
			if f.next[at] < i || found && f.fills[i].below.missing(it.Value()) || !found && f.rest.missing(it.Value()) {
				return true
			}
			at = i
			if found {
				at++
			}
		}
		return f.next[at] < len(f.fills)
	}
	return false
}

// append merges the members of v with those that it lacks. Both are in canonical order. It stops
// when dst is longer than limit.
func (f *filler) append(dst []byte, v crypto.Value, limit int) []byte {
	switch k := v.Kind(); {
	case f == nil || k < crypto.Array || k == crypto.Array && f.items == nil:
		return v.Append(dst)
	case k == crypto.Array:
		dst = append(dst, '[')
		from := len(dst)
		for it := v.Iter(); it.Next(); {
			if len(dst) > limit {
				return dst
			}
			dst = f.items.append(comma(dst, from), it.Value(), limit)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	from, at := len(dst), 0
	for it := v.Iter(); it.Next(); {
		if len(dst) > limit {
			return dst
		}
		key := it.Key()
		i, found := f.find(at, key)
		dst = f.add(dst, from, at, i)
		dst = append(crypto.AppendString(comma(dst, from), string(key)), ':')
		at = i
		if found {
			dst = f.fills[i].below.append(dst, it.Value(), limit)
			at++
		} else {
			dst = f.rest.append(dst, it.Value(), limit)
		}
	}
	return append(f.add(dst, from, at, len(f.fills)), '}')
}

// add appends the defaults of a range of fills.
func (f *filler) add(dst []byte, from, i, end int) []byte {
	for i = f.next[i]; i < end; i = f.next[i+1] {
		dst = append(append(comma(dst, from), f.fills[i].key...), f.fills[i].value...)
	}
	return dst
}

// comma appends a comma if anything was appended since from.
func comma(dst []byte, from int) []byte {
	if len(dst) > from {
		return append(dst, ',')
	}
	return dst
}

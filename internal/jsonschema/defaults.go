package jsonschema

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// filler says which defaults are missing from a value, all schemas that hold for it together. It is nil where none can be.
type filler struct {
	fills []fill // in canonical order of names
	next  []int  // next[i] is the first one from i on that has a default, or len(fills)
	items *filler
}

type fill struct {
	name  string
	key   []byte // canonical text, with the colon
	value []byte // the default, itself filled in; nil if there is none, but there may be below
	below *filler
}

// AppendDefaults appends the canonical form of v with defaults filled in. Where none is missing it gives false, and dst as it was.
// Defaults in elements could make a text many times longer than v, so filling stops beyond 1 MiB: what is appended then is longer than
// arguments may be and, unless it is whole, not JSON.
func (s *Schema) AppendDefaults(dst []byte, v crypto.Value) ([]byte, bool) {
	if s == nil || !s.filler.missing(v) {
		return dst, false
	}
	return s.filler.append(dst, v, len(dst)+maxFilled), true
}

// find is where in the fills from the nth on the name is, or would be. Most often that is the nth.
func (f *filler) find(n int, name []byte) (int, bool) {
	switch {
	case n == len(f.fills):
		return n, false
	case f.fills[n].name == string(name):
		return n, true
	case compareNames(f.fills[n].name, name) > 0:
		return n, false
	}
	i, found := slices.BinarySearchFunc(f.fills[n+1:], name, func(x fill, name []byte) int { return compareNames(x.name, name) })
	return n + 1 + i, found
}

// missing tells whether append would add anything.
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
		for it := v.Iter(); at < len(f.fills) && it.Next(); {
			i, found := f.find(at, it.Key())
			if f.next[at] < i || found && f.fills[i].below.missing(it.Value()) {
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

// append merges the members of v and those it lacks, both of which are in canonical order. Beyond the limit it ends where it is.
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
			dst = it.Value().Append(dst)
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

// comma separates what comes from what is there since from.
func comma(dst []byte, from int) []byte {
	if len(dst) > from {
		return append(dst, ',')
	}
	return dst
}

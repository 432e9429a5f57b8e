package roundtrip

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// Encodes reports whether the canonical JSON of v is that.
func Encodes(v any, canonical []byte) bool {
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	var tree crypto.Tree
	if err := tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}); err != nil {
		return false
	}
	return bytes.Equal(tree.Root().Append(nil), canonical)
}

// Misfit returns the JSON Pointer of the innermost field of a type that does not hold its part of
// canonical JSON as it is. It returns "" if that is all of it, or is not known.
func Misfit(canonical []byte, t reflect.Type) string {
	var tree crypto.Tree
	if tree.Parse(canonical, crypto.Limits{Bytes: len(canonical), Depth: crypto.MaxDepth}) != nil {
		return ""
	}
	return misfit(tree.Root(), t, "")
}

// misfit returns the place of that field of a value, at if there is none. Members of a map are
// data, which no place names.
func misfit(v crypto.Value, t reflect.Type, at string) string {
	for t.Kind() == reflect.Pointer && !hasMarshal(t) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || v.Kind() != crypto.Object || (typePlace{t, true}).marshals() {
		return at
	}
	fields, _, _ := fieldsOf(t)
	for it := v.Iter(); it.Next(); {
		key := string(it.Key())
		if keeps(t, key, it.Value()) {
			continue
		}
		place := at + "/" + shown(key)
		i := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == key })
		if i < 0 {
			return place
		}
		return misfit(it.Value(), fields[i].typ, place)
	}
	return at
}

// keeps reports whether a struct type, decoded from an object of one member, encodes to that member
// again: it has the field, which holds the value and does not leave it out.
func keeps(t reflect.Type, key string, v crypto.Value) (ok bool) {
	defer contain.Value(&ok, false)
	b := append(crypto.AppendString([]byte{'{'}, key), ':')
	p := reflect.New(t)
	if json.Unmarshal(append(v.Append(b), '}'), p.Interface()) != nil {
		return false
	}
	text, err := json.Marshal(p.Interface())
	var tree crypto.Tree
	if err != nil || tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}) != nil {
		return false
	}
	again := tree.Root().Get(key)
	return again.Kind() != crypto.Missing && bytes.Equal(again.Append(nil), v.Append(nil))
}

// shown returns a name as it may stand in a message: as it is if it looks like one, else "*".
func shown(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r)
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return "*"
	}
	return name
}

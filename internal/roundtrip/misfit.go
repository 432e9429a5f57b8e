package roundtrip

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
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

// Misfit returns the JSON Pointer of the innermost part of canonical JSON that a type does not hold
// as it is. It returns "" if that is all of it, or is not known.
func Misfit(canonical []byte, t reflect.Type) string {
	var tree crypto.Tree
	if tree.Parse(canonical, crypto.Limits{Bytes: len(canonical), Depth: crypto.MaxDepth}) != nil {
		return ""
	}
	return misfit(tree.Root(), t, "")
}

// misfit returns the place of the innermost value that a type does not hold as it is, "" if that is
// all of it.
func misfit(v crypto.Value, t reflect.Type, at string) string {
	for t.Kind() == reflect.Pointer && !hasMarshal(t) {
		t = t.Elem()
	}
	if (typePlace{t, true}).marshals() {
		return at
	}
	switch {
	case t.Kind() == reflect.Struct && v.Kind() == crypto.Object:
		fields, _, _ := fieldsOf(t)
		for it := v.Iter(); it.Next(); {
			place := at + "/" + shown(string(it.Key()))
			i := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == string(it.Key()) })
			if i < 0 {
				return place
			}
			if !held(it.Value(), fields[i].typ) {
				return misfit(it.Value(), fields[i].typ, place)
			}
		}
		return at + dropped(v, t)
	case t.Kind() == reflect.Map && v.Kind() == crypto.Object:
		for it := v.Iter(); it.Next(); {
			if !held(it.Value(), t.Elem()) {
				return misfit(it.Value(), t.Elem(), at+"/*")
			}
		}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && v.Kind() == crypto.Array:
		for i := range v.Len() {
			if e := v.At(i); !held(e, t.Elem()) {
				return misfit(e, t.Elem(), at+"/"+strconv.Itoa(i))
			}
		}
	}
	return at
}

// dropped returns the place of a member that a struct type holds and, as it is zero, leaves out
// again.
func dropped(v crypto.Value, t reflect.Type) (place string) {
	p := reflect.New(t)
	if json.Unmarshal(v.Append(nil), p.Interface()) != nil {
		return ""
	}
	text, err := json.Marshal(p.Interface())
	var tree crypto.Tree
	if err != nil || tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}) != nil {
		return ""
	}
	for it := v.Iter(); it.Next(); {
		if again := tree.Root().Get(string(it.Key())); again.Kind() == crypto.Missing {
			return "/" + shown(string(it.Key()))
		}
	}
	return ""
}

// held reports whether a value of the type, decoded from JSON, encodes to the same.
func held(v crypto.Value, t reflect.Type) (ok bool) {
	defer contain.Value(&ok, false)
	canonical, p := v.Append(nil), reflect.New(t)
	return json.Unmarshal(canonical, p.Interface()) == nil && Encodes(p.Elem().Interface(), canonical)
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

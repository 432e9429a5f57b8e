// Package roundtrip reports whether a Go value survives the way to JSON and back.
//
// Bytes that agree do not show it: what encoding/json leaves out without a word is lost on the way
// there and back. A [Type] is looked at once, for the parts that no JSON carries; a value
// before it is used, by [Type.Lost] and [Changed].
package roundtrip

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// A Type is a Go type, with what is known of all its values.
type Type struct {
	lost string // a part that no JSON carries; "": there is none
	open bool   // it has interfaces, so what they hold is known with each value only
}

// Of looks at a type.
func Of(t reflect.Type) Type {
	w := typeWalk{seen: map[typePlace]bool{}}
	path, why := w.uncarried(t, false)
	switch {
	case why == "":
		return Type{open: w.open}
	case len(path) == 0:
		return Type{lost: "the argument: " + why}
	}
	return Type{lost: "the field " + strings.Join(path, ".") + ": " + why}
}

// A typeWalk looks for a part of a type that no JSON carries.
type typeWalk struct {
	seen map[typePlace]bool
	open bool // an interface was found
}

// A typePlace is a type, and whether its values can be addressed there: encoding/json calls methods
// with pointer receivers of those only.
type typePlace struct {
	t           reflect.Type
	addressable bool
}

// uncarried returns the Go names of the fields that lead to the part, and why no JSON carries it.
func (w *typeWalk) uncarried(t reflect.Type, addressable bool) (path []string, why string) {
	p := typePlace{t, addressable}
	if w.seen[p] {
		return nil, ""
	}
	w.seen[p] = true
	if p.marshals() {
		return nil, ""
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return nil, "a " + t.Kind().String() + " has no JSON form"
	case reflect.Interface:
		w.open = true
	case reflect.Pointer, reflect.Slice:
		return w.uncarried(t.Elem(), true)
	case reflect.Array:
		return w.uncarried(t.Elem(), addressable)
	case reflect.Map:
		return w.uncarried(t.Elem(), false)
	case reflect.Struct:
		fields, lost, why := fieldsOf(t)
		if why != "" {
			return []string{lost}, why
		}
		for _, f := range fields {
			if path, why := w.uncarried(f.typ, addressable || f.behindPointer); why != "" {
				return append([]string{f.goName}, path...), why
			}
		}
	}
	return nil, ""
}

// marshals reports whether encoding/json calls a method of the type to encode a value there.
func (p typePlace) marshals() bool {
	return hasMarshal(p.t) || p.addressable && hasMarshal(reflect.PointerTo(p.t))
}

func hasMarshal(t reflect.Type) bool {
	return t.Kind() != reflect.Interface &&
		(t.Implements(jsonMarshaler) || t.Implements(textMarshaler))
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
)

// holdsNothing reports whether all values of a field are the same to its users.
func holdsNothing(f reflect.StructField) bool { return f.Name == "_" || f.Type.Size() == 0 }

// A jsonField is a field of a struct that encoding/json carries, perhaps one of an embedded struct.
type jsonField struct {
	name, goName  string
	index         []int
	typ           reflect.Type
	behindPointer bool // of an embedded pointer
	omits         bool // if it is empty, or zero
}

// fieldsOf returns the fields of a struct type that encoding/json carries, and one that it leaves
// out without a word, with the reason.
func fieldsOf(t reflect.Type) (fields []jsonField, lost, why string) {
	within := []reflect.Type{}
	var add func(t reflect.Type, index []int, path string, behind bool)
	add = func(t reflect.Type, index []int, path string, behind bool) {
		within = append(within, t)
		defer func() { within = within[:len(within)-1] }()
		for i := range t.NumField() {
			f := t.Field(i)
			lose := func(what string) {
				if why == "" && !holdsNothing(f) {
					lost, why = path+f.Name, what
				}
			}
			inner, pointer := f.Type, false
			if f.Anonymous && inner.Kind() == reflect.Pointer {
				inner, pointer = inner.Elem(), true
			}
			embedded := f.Anonymous && inner.Kind() == reflect.Struct
			tag := f.Tag.Get("json")
			name, options, _ := strings.Cut(tag, ",")
			at := append(slices.Clone(index), i)
			switch {
			case tag == "-":
				lose(`no JSON carries it: its tag is "-"`)
			case !f.IsExported() && !embedded:
				lose("no JSON carries it: it is not exported")
			case embedded && name == "" && slices.Contains(within, inner):
				lose("no JSON carries it: it is embedded in itself")
			case embedded && name == "":
				add(inner, at, path+f.Name+".", behind || pointer)
			default:
				if name == "" {
					name = f.Name
				}
				if slices.ContainsFunc(fields, func(other jsonField) bool { return other.name == name }) {
					lose("no JSON carries it: another field has its JSON name")
				}
				omits := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
				fields = append(fields, jsonField{name, path + f.Name, at, f.Type, behind, omits})
			}
		}
	}
	add(t, nil, "", false)
	return fields, lost, why
}

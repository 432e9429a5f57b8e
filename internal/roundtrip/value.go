package roundtrip

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/helmkernel/helm/crypto"
)

// Lost names a part of a value of the type that no JSON carries, and says why. It returns "" if
// there is none. encoding/json has encoded the value, so it does not refer to itself.
func (t Type) Lost(v reflect.Value) string {
	if t.lost != "" || !t.open || !v.IsValid() {
		return t.lost
	}
	return lostIn(v)
}

// lostIn returns the text about a part of a value, in one of its interfaces, that no JSON carries.
// encoding/json has encoded the value, so it does not refer to itself.
func lostIn(v reflect.Value) string {
	if v.Kind() != reflect.Interface && (typePlace{v.Type(), v.CanAddr()}).marshals() {
		return ""
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() || plain(v.Elem().Type()) {
			return ""
		}
		if known := Of(v.Elem().Type()); known.lost != "" || !known.open {
			return known.lost
		}
		return lostIn(v.Elem())
	case reflect.Pointer:
		if !v.IsNil() {
			return lostIn(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if plain(v.Type().Elem()) {
			return ""
		}
		for i := range v.Len() {
			if lost := lostIn(v.Index(i)); lost != "" {
				return lost
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if lost := lostIn(it.Value()); lost != "" {
				return lost
			}
		}
	case reflect.Struct:
		fields, _, _ := fieldsOf(v.Type())
		for _, f := range fields {
			if inner, err := v.FieldByIndexErr(f.index); err == nil {
				if lost := lostIn(inner); lost != "" {
					return lost
				}
			}
		}
	}
	return ""
}

// plain reports whether a type is a boolean, a number or a string, which have no parts.
func plain(t reflect.Type) bool { return t.Kind() < reflect.Array || t.Kind() == reflect.String }

// Changed names a part of an argument that is not what was passed, and says why. It returns "" if
// there is none. What a type with JSON methods of its own keeps to itself is the type's own affair.
// Where nil was passed, a default of the schema may stand.
func Changed(passed, arrives reflect.Value) string {
	var c comparison
	if c.same(passed, arrives, "", 0) {
		return ""
	}
	return c.what
}

// A comparison holds the argument that was passed to the one that the function would get.
type comparison struct {
	what string // of the first difference
}

// maxValues bounds how deep a value is compared. One that encoding/json encodes is no deeper,
// unless methods of its own hide how deep it is.
const maxValues = 2 * crypto.MaxDepth

// same compares two values of one type.
func (c *comparison) same(passed, arrives reflect.Value, at string, depth int) bool {
	if depth++; depth > maxValues {
		return c.differs(passed, at)
	}
	if passed.Kind() == reflect.Interface {
		// A map stands for a struct that was in it, and encodes to the same: lostIn has looked at
		// it.
		return passed.IsNil() || arrives.IsNil() || passed.Elem().Type() != arrives.Elem().Type() ||
			c.same(passed.Elem(), arrives.Elem(), at, depth)
	}
	if (typePlace{passed.Type(), passed.CanAddr()}).marshals() {
		return c.sameOthers(passed, arrives, at, depth)
	}
	switch passed.Kind() {
	case reflect.Pointer:
		switch {
		case passed.IsNil():
			return true
		case arrives.IsNil(): // it points to nothing that has another form than null
			return c.same(passed.Elem(), reflect.Zero(passed.Type().Elem()), at, depth)
		}
		return c.same(passed.Elem(), arrives.Elem(), at, depth)
	case reflect.Slice, reflect.Array:
		return c.sameElements(passed, arrives, at, depth)
	case reflect.Map:
		return c.sameMembers(passed, arrives, at, depth)
	case reflect.Struct:
		fields, _, _ := fieldsOf(passed.Type())
		for _, f := range fields {
			x, err := passed.FieldByIndexErr(f.index)
			if err != nil {
				continue // of an embedded pointer that is nil
			}
			y, err := arrives.FieldByIndexErr(f.index)
			if err != nil {
				y = reflect.Zero(f.typ)
			}
			place := at + "/" + shown(f.name)
			if f.omits && x.Kind() == reflect.Map && !x.IsNil() && x.Len() == 0 && y.Len() > 0 {
				return c.differs(x, place)
			}
			if !c.same(x, y, place, depth) {
				return false
			}
		}
		return true
	}
	if passed.Type() == reflect.TypeFor[json.Number]() && Encodes(passed.Interface(), []byte(arrives.String())) {
		return true // one number has many texts
	}
	return passed.Equal(arrives) || c.differs(passed, at)
}

// sameElements compares arrays and slices. A nil slice may be a default, and an empty one may be
// nil.
func (c *comparison) sameElements(passed, arrives reflect.Value, at string, depth int) bool {
	if passed.Kind() == reflect.Slice && passed.IsNil() {
		return true
	}
	if passed.Len() != arrives.Len() {
		return c.differs(passed, at)
	}
	if passed.Kind() == reflect.Slice && passed.Type().Elem().Kind() == reflect.Uint8 {
		return bytes.Equal(passed.Bytes(), arrives.Bytes()) || c.differs(passed, at)
	}
	for i := range passed.Len() {
		if !c.same(passed.Index(i), arrives.Index(i), at+"/"+strconv.Itoa(i), depth) {
			return false
		}
	}
	return true
}

// sameMembers compares maps. A nil one may be a default, and an empty one may be nil. A schema may
// fill a member in that was not passed.
func (c *comparison) sameMembers(passed, arrives reflect.Value, at string, depth int) bool {
	for it := passed.MapRange(); it.Next(); {
		y := arrives.MapIndex(it.Key())
		if !y.IsValid() {
			return c.differs(passed, at+"/*")
		}
		if !c.same(it.Value(), y, at+"/*", depth) {
			return false
		}
	}
	return true
}

// sameOthers compares the fields of a struct with methods, except an embedded one that has them
// too: they may be that field's, which knows nothing of the others.
func (c *comparison) sameOthers(passed, arrives reflect.Value, at string, depth int) bool {
	if passed.Kind() == reflect.Pointer {
		if passed.IsNil() || arrives.IsNil() {
			return true
		}
		return c.sameOthers(passed.Elem(), arrives.Elem(), at, depth)
	}
	if passed.Kind() != reflect.Struct {
		return true
	}
	t := passed.Type()
	embeds := false
	for i := range t.NumField() {
		embeds = embeds || speaks(t.Field(i))
	}
	for i := range t.NumField() {
		if f := t.Field(i); embeds && !speaks(f) && !holdsNothing(f) &&
			!c.same(passed.Field(i), arrives.Field(i), at+"/"+shown(f.Name), depth) {
			return false
		}
	}
	return true
}

// speaks reports whether a field lends its JSON methods to the struct that embeds it.
func speaks(f reflect.StructField) bool {
	t := f.Type
	return f.Anonymous && (t.Implements(jsonMarshaler) || t.Implements(textMarshaler) ||
		hasMarshal(reflect.PointerTo(t)))
}

func (c *comparison) differs(passed reflect.Value, at string) bool {
	c.what = "would not arrive as it was passed"
	if passed.IsZero() || (passed.Kind() == reflect.Slice || passed.Kind() == reflect.Map) && passed.Len() == 0 {
		c.what = "is left out by omitempty or omitzero, and the schema has a default: pass a pointer, or always send it"
	}
	if at != "" {
		c.what = at + ": " + c.what
	} else {
		c.what = "the argument " + c.what
	}
	return false
}

package jsonschema

import (
	"bytes"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Types is a set of the types of JSON Schema.
type Types uint8

const (
	TypeString  Types = 1 << iota
	TypeNumber        // any number, whole or not
	TypeInteger       // whole numbers only; not beside TypeNumber in a Place
	TypeBoolean
	TypeArray
	TypeObject
	TypeNull

	anyType Types = 1<<iota - 1
)

var typeNames = [...]string{"string", "number", "integer", "boolean", "array", "object", "null"}

// String lists the types, as in "string or null".
func (t Types) String() string {
	var names []string
	for i, name := range typeNames {
		if t.plain()&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// plain drops the bit of integer where that of number says it too.
func (t Types) plain() Types {
	if t&TypeNumber != 0 {
		return t &^ TypeInteger
	}
	return t
}

// typeNamed is 0 for what is not the name of a type.
func typeNamed(name []byte) Types {
	for i, s := range typeNames {
		if s == string(name) {
			if t := Types(1 << i); t != TypeNumber {
				return t
			}
			return TypeNumber | TypeInteger
		}
	}
	return 0
}

// kindTypes has the types that values of a crypto.Kind may be of.
var kindTypes = [...]Types{
	crypto.Null: TypeNull, crypto.Bool: TypeBoolean, crypto.Number: TypeNumber | TypeInteger,
	crypto.String: TypeString, crypto.Array: TypeArray, crypto.Object: TypeObject,
}

// typeOf is the one type of v; of a number that is not whole, TypeNumber.
func typeOf(v crypto.Value) Types {
	t := kindTypes[v.Kind()]
	if t&TypeNumber != 0 {
		if whole(v.Raw()) {
			return TypeInteger
		}
		return TypeNumber
	}
	return t
}

// whole tells whether the canonical text of a number is that of an integer. RFC 8785 writes exponents from 1e+21, where every double is
// whole, and below 1e-6.
func whole(raw []byte) bool {
	if e := bytes.IndexByte(raw, 'e'); e >= 0 {
		return raw[e+1] == '+'
	}
	return bytes.IndexByte(raw, '.') < 0
}

// readType reads the keyword type.
func (c *compiler) readType(n *node, v crypto.Value, at string) {
	const remedy = `write one of string, number, integer, boolean, array, object, null, or [one of them, "null"]`
	if v.Kind() == crypto.String {
		n.types = typeNamed(v.Bytes())
		if n.types == 0 {
			c.fail(at, "unknown type", remedy)
		}
		return
	}
	if v.Kind() != crypto.Array || v.Len() != 2 {
		c.fail(at, "type is one type, or one with null", remedy)
		return
	}
	n.types = 0
	for e := range v.Elements() {
		t := typeNamed(e.Bytes())
		if t == 0 || t&n.types != 0 {
			c.fail(at, "unknown type, or the same twice", remedy)
			return
		}
		n.types |= t
	}
	if n.types&TypeNull == 0 {
		c.fail(at, "type is one type, or one with null", `write one type here, or an anyOf with a schema for each`)
	}
}

// narrow works out which types are left to n by all that stands beside type.
func (n *node) narrow() {
	n.may = n.types
	if n.constant != nil {
		n.may &= n.constant.types
	}
	if n.enum != nil {
		n.may &= n.enum.types
	}
	for _, s := range n.all {
		n.may &= s.may
	}
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		var some Types
		for _, s := range branches {
			some |= s.may
		}
		if branches != nil {
			n.may &= some
		}
	}
}

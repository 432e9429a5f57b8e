package jsonschema

import (
	"bytes"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Types is a set of the types of JSON Schema.
type Types uint8

// The types.
const (
	TypeString  Types = 1 << iota
	TypeNumber        // any number, whole or not
	TypeInteger       // whole numbers only; in a Place never together with TypeNumber
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

// plain removes the bit of integer if the bit of number is set, which includes it.
func (t Types) plain() Types {
	if t&TypeNumber != 0 {
		return t &^ TypeInteger
	}
	return t
}

// typeNamed returns the type of that name, or 0.
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

// kindTypes holds the types that values of a crypto.Kind may have.
var kindTypes = [...]Types{
	crypto.Null: TypeNull, crypto.Bool: TypeBoolean, crypto.Number: TypeNumber | TypeInteger,
	crypto.String: TypeString, crypto.Array: TypeArray, crypto.Object: TypeObject,
}

// typeOf returns the type of v; TypeNumber only for a number that is not whole.
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

// whole reports whether the canonical text of a number is an integer. RFC 8785 uses exponents from
// 1e+21 up, where every double is whole, and below 1e-6.
func whole(raw []byte) bool {
	if e := bytes.IndexByte(raw, 'e'); e >= 0 {
		return raw[e+1] == '+'
	}
	return bytes.IndexByte(raw, '.') < 0
}

// narrow computes the types that the other keywords leave of n.types.
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

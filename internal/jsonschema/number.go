package jsonschema

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// number holds the keywords for numbers. Bounds are doubles, as is every number that the reader
// accepts.
type number struct {
	min, max     float64
	above, below float64 // exclusive
	multiple     decimal // zero if there is no multipleOf
}

func (r *number) read(c *compiler, schema crypto.Value, name string, v crypto.Value, at string) {
	if v.Kind() == crypto.Bool && strings.HasPrefix(name, "exclusive") {
		c.fail(at, "expected number, not boolean", draft4(schema, name, v))
	}
	if !c.want(v, crypto.Number, at) {
		return
	}
	f := v.Float()
	switch name {
	case "minimum":
		r.min = f
	case "maximum":
		r.max = f
	case "exclusiveMinimum":
		r.above = f
	case "exclusiveMaximum":
		r.below = f
	case "multipleOf":
		r.multiple = decimalOf(v.Raw())
		if f <= 0 {
			c.fail(at, "multipleOf is not above 0", "correct it")
		}
	}
	if r.min > r.max || r.min >= r.below || r.above >= r.max || r.above >= r.below {
		c.fail(at, "no number is within the bounds", "correct them")
	}
}

// draft4 returns what to write in place of exclusiveMinimum: true, which made the minimum next to
// it exclusive.
func draft4(schema crypto.Value, exclusive string, v crypto.Value) string {
	bound := strings.ToLower(strings.TrimPrefix(exclusive, "exclusive"))
	switch limit := schema.Get(bound); {
	case !v.Bool():
		return "draft 4: remove it"
	case limit.Kind() == crypto.Number:
		return "draft 4: write " + exclusive + ": " + string(limit.Raw()) + ", and remove " + bound
	}
	return "draft 4: write the bound here"
}

// check returns the keyword that a number violates, or "".
func (r *number) check(v crypto.Value) string {
	switch f := v.Float(); {
	case !(f >= r.min):
		return "minimum"
	case !(f > r.above):
		return "exclusiveMinimum"
	case !(f <= r.max):
		return "maximum"
	case !(f < r.below):
		return "exclusiveMaximum"
	case r.multiple.digits != 0 && !decimalOf(v.Raw()).multipleOf(r.multiple):
		return "multipleOf"
	}
	return ""
}

// decimal is the absolute value of a number, digits × 10^exp. It is exact, unlike the nearest
// double.
type decimal struct {
	digits uint64 // at most 17 digits and four zeros, so below 2^64; does not end in zero
	exp    int
}

// decimalOf reads canonical text. It has at most 17 significant digits, and 21 digits in all.
func decimalOf(raw []byte) (d decimal) {
	point, zeros := false, 0 // zeros counts those since the last other digit
digits:
	for i, c := range raw {
		switch {
		case c == '-':
			continue
		case c == '.':
			point = true
			continue
		case c == 'e':
			n, _ := strconv.Atoi(string(raw[i+1:])) // canonical text always has a sign here
			d.exp += n
			break digits
		case c == '0':
			zeros++
		default:
			for ; zeros > 0; zeros-- {
				d.digits *= 10
			}
			d.digits = d.digits*10 + uint64(c-'0')
		}
		if point {
			d.exp--
		}
	}
	d.exp += zeros
	if d.digits == 0 {
		d.exp = 0
	}
	return d
}

// multipleOf reports whether d is a multiple of by, which is not zero.
func (d decimal) multipleOf(by decimal) bool {
	if d.digits == 0 {
		return true
	}
	if d.exp < by.exp {
		return false // otherwise ten would divide d.digits
	}
	// Compute d.digits × 10^(d.exp - by.exp) modulo by.digits, the power by squaring.
	m := by.digits
	rest, power := d.digits%m, 10%m
	for k := uint(d.exp - by.exp); k > 0; k >>= 1 {
		if k&1 != 0 {
			rest = mulmod(rest, power, m)
		}
		power = mulmod(power, power, m)
	}
	return rest == 0
}

// mulmod returns a × b modulo m, for a and b below m.
func mulmod(a, b, m uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return bits.Rem64(hi, lo, m)
}

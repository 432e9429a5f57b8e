package crypto

import (
	"bytes"
	"strconv"
)

// number reads a number and accepts it iff canonicalising does not change its value: the token's decimal value must equal that of the
// ECMAScript form of its nearest double.
func (p *parser) number() string {
	s, from := p.s, p.i
	i := from
	negative := s[i] == '-'
	if negative {
		i++
	}
	whole := i
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	digits := i - whole
	if digits == 0 || digits > 1 && s[whole] == '0' {
		p.i = i
		return "bad number"
	}
	end, zeros := i, 0 // end is where the canonical text ends, if nothing but zeros is to be cut
	if i < len(s) && s[i] == '.' {
		i++
		point := i
		for i < len(s) && s[i]-'0' <= 9 {
			if s[i] != '0' {
				end = i + 1
			}
			i++
		}
		if i == point {
			p.i = i
			return "bad number"
		}
		if s[whole] == '0' {
			for zeros < i-point && s[point+zeros] == '0' {
				zeros++
			}
			digits--
		}
		digits += i - point - zeros
	}
	exponent := i < len(s) && s[i]|0x20 == 'e'
	if exponent {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		power := i
		for i < len(s) && s[i]-'0' <= 9 {
			i++
		}
		if i == power {
			p.i = i
			return "bad number"
		}
	}
	// Fifteen digits are told apart by doubles, and ECMAScript writes them without exponent down to 0.000001.
	if exponent || digits > 15 || zeros > 5 {
		return p.slowNumber(from, i)
	}
	if end == whole+1 && s[whole] == '0' { // minus zero is zero
		from = whole
	}
	if from != p.i || end != i {
		p.dirty()
	}
	p.i = i
	p.add(node{kind: Number, off: uint32(from), end: uint32(end)})
	return ""
}

func (p *parser) slowNumber(from, end int) string {
	token := p.s[from:end]
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return "number out of range"
	}
	side := p.t.side
	off := len(side)
	side = AppendFloat(side, f)
	if !sameDecimal(token, side[off:]) {
		return "number that a double cannot hold"
	}
	if bytes.Equal(token, side[off:]) {
		p.add(node{kind: Number, off: uint32(from), end: uint32(end)})
	} else {
		p.t.side = side
		p.dirty()
		p.add(node{kind: Number, flags: inSide, off: uint32(off), end: uint32(len(side))})
	}
	p.i = end
	return ""
}

func sameDecimal(a, b []byte) bool {
	x, ok := decimalOf(a)
	y, same := decimalOf(b)
	return ok && same && x == y
}

// decimal is the absolute value of a number token: digits without zeros at either end, times ten to the power exp.
// The sign of the token and of its nearest double never differ, but for that of zero, which is dropped.
type decimal struct {
	digits [20]byte // no double needs more than 17
	n      int
	exp    int64
}

// decimalOf is not ok where a token has more digits than any double's shortest form.
func decimalOf(token []byte) (d decimal, ok bool) {
	mantissa, power := token, int64(0)
	if i := bytes.IndexAny(token, "eE"); i >= 0 {
		mantissa = token[:i]
		power = exponentOf(token[i+1:])
	}
	zeros, fraction, point := 0, int64(0), false // zeros since the last other digit
	for _, c := range mantissa {
		switch {
		case c == '-':
			continue
		case c == '.':
			point = true
			continue
		case c == '0':
			if d.n > 0 {
				zeros++
			}
		default:
			if d.n+zeros >= len(d.digits) {
				return d, false
			}
			for ; zeros > 0; zeros-- {
				d.digits[d.n] = '0'
				d.n++
			}
			d.digits[d.n] = c
			d.n++
		}
		if point {
			fraction++
		}
	}
	if d.n > 0 {
		d.exp = power - fraction + int64(zeros)
	}
	return d, true
}

// exponentOf saturates far beyond what any text in memory could bring back into range.
func exponentOf(b []byte) (n int64) {
	negative := b[0] == '-'
	if b[0] == '-' || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		if n < 1<<50 {
			n = n*10 + int64(c-'0')
		}
	}
	if negative {
		return -n
	}
	return n
}

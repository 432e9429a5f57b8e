package crypto

import (
	"bytes"
	"strconv"
)

// number reads a number. It accepts a number whose value is the same after canonicalising: the
// decimal value of the token must equal the decimal value of the ECMAScript form of its nearest
// double.
func (p *parser) number(from int) int {
	s, whole := p.s, from
	if s[whole] == '-' {
		whole++
	}
	i := digits(s, whole)
	if i == whole || i-whole > 1 && s[whole] == '0' {
		return p.fail(i, "bad number")
	}
	significant := i - whole
	end, zeros := i, 0 // end is the end of the canonical text, if only zeros are cut
	if i < len(s) && s[i] == '.' {
		point := i + 1
		i = digits(s, point)
		if i == point {
			return p.fail(i, "bad number")
		}
		fraction := bytes.TrimRight(s[point:i], "0")
		end = point + len(fraction)
		if len(fraction) == 0 {
			end-- // the point is cut too
		}
		if s[whole] == '0' {
			zeros = len(fraction) - len(bytes.TrimLeft(fraction, "0"))
			significant = 0
		}
		significant += len(fraction) - zeros
	}
	// Doubles hold all numbers of fifteen digits, and ECMAScript writes them without exponent down
	// to 0.000001.
	if significant > 15 || zeros > 5 || i < len(s) && s[i]|0x20 == 'e' {
		return p.slowNumber(from, i)
	}
	start := from
	if end == whole+1 && s[whole] == '0' { // minus zero is zero
		start = whole
	}
	if start != from || end != i {
		p.top().clean = false
	}
	p.add(Number, 0, start, end)
	return i
}

func digits(s []byte, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// slowNumber reads the exponent, if there is one, and compares the token with the canonical text of
// its nearest double.
func (p *parser) slowNumber(from, end int) int {
	if end < len(p.s) && p.s[end]|0x20 == 'e' {
		power := end + 1
		if power < len(p.s) && (p.s[power] == '+' || p.s[power] == '-') {
			power++
		}
		end = digits(p.s, power)
		if end == power {
			return p.fail(end, "bad number")
		}
	}
	token := p.s[from:end]
	d, ok := decimalOf(token)
	if !ok {
		return p.fail(from, "number that a double cannot hold")
	}
	f, ok := d.float()
	if !ok {
		return p.fail(from, "number out of range")
	}
	if token[0] == '-' {
		f = -f
	}
	off := len(p.t.side)
	side := AppendFloat(p.t.side, f)
	p.t.side = side[:off]
	if bytes.Equal(token, side[off:]) {
		p.add(Number, 0, from, end)
		return end
	}
	if e, _ := decimalOf(side[off:]); e != d {
		return p.fail(from, "number that a double cannot hold")
	}
	p.t.side = side
	p.top().clean = false
	p.add(Number, inSide, off, len(side))
	return end
}

// decimal is the absolute value of a number token: an integer that does not end in zero, times ten
// to the power exp.
type decimal struct {
	digits uint64
	exp    int64
}

// decimalOf reports false if the token has more than 17 digits, the most that the shortest form of
// a double has. It accepts tokens of any length, unlike strconv.ParseFloat, which fails if many
// zeros balance a large exponent.
func decimalOf(token []byte) (d decimal, ok bool) {
	n, zeros, fraction, point := 0, 0, int64(0), false // n counts the digits of d, zeros those since the last one
	for i, c := range token {
		if c|0x20 == 'e' {
			d.exp = exponentOf(token[i+1:])
			break
		}
		switch c {
		case '-':
			continue
		case '.':
			point = true
			continue
		case '0':
			if n > 0 {
				zeros++
			}
		default:
			n += zeros + 1
			if n > 17 {
				return decimal{}, false
			}
			for ; zeros > 0; zeros-- {
				d.digits *= 10
			}
			d.digits = d.digits*10 + uint64(c-'0')
		}
		if point {
			fraction++
		}
	}
	if d.digits == 0 {
		return decimal{}, true
	}
	d.exp += int64(zeros) - fraction
	return d, true
}

// exponentOf saturates far beyond any exponent that zeros in memory could balance.
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

// float returns the nearest double, and false if that is not finite.
func (d decimal) float() (float64, bool) {
	var buf [40]byte
	text := strconv.AppendUint(buf[:0], d.digits, 10)
	text = strconv.AppendInt(append(text, 'e'), d.exp, 10)
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}

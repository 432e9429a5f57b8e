package crypto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Constants for eight bytes at once, in a word whose lowest byte comes first in the text.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special sets the high bit of bytes that end a run of plain ASCII in a string: quotes,
// backslashes, control characters, and bytes from 0x80. A byte from which 1 or 0x20 is subtracted
// borrows from the next byte only if it is smaller, and then its own bit is set. So the lowest bit
// set is always right; those above it may be wrong.
func special(w uint64) uint64 {
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (quote - ones) | (slash - ones) | (w - ones*0x20)) & highs
}

// plain skips bytes that canonical text has unchanged, except the last few bytes of s.
func plain(s []byte, i int) int {
	for len(s)-i >= 8 {
		if m := special(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	return i
}

// str reads a string. Its text remains in src unless it contains an escape that is not canonical.
func (p *parser) str(from int) int {
	s, flags := p.s, uint8(0)
	for i := plain(s, from+1); i < len(s); {
		switch c := s[i]; {
		case c == '"':
			p.add(String, flags, from, i+1)
			return i + 1
		case c == '\\':
			n := canonicalEscape(s[i:])
			if n == 0 {
				return p.rewrite(from)
			}
			flags |= escaped
			i += n
		case c < 0x20:
			return p.fail(i, "control character in a string")
		case c < utf8.RuneSelf:
			i++
			continue // one of the last few bytes
		default:
			n := multibyte(s[i:])
			if n == 0 {
				return p.fail(i, "invalid UTF-8")
			}
			flags |= wide
			i += n
		}
		i = plain(s, i)
	}
	return p.fail(len(s), "string without end")
}

// multibyte returns the length of the character from U+0080 up at the start of b, or 0 if b is not
// UTF-8.
func multibyte(b []byte) int {
	if _, n := utf8.DecodeRune(b); n > 1 {
		return n
	}
	return 0
}

// canonicalEscape returns the length of the escape at the start of b, or 0 if RFC 8785 writes it
// differently.
func canonicalEscape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 || b[2] != '0' || b[3] != '0' || b[4] != '0' && b[4] != '1' || unhex(b[5]) < 0 ||
			b[5] >= 'A' && b[5] <= 'F' {
			return 0
		}
		switch c := unhex(b[4])<<4 | unhex(b[5]); c {
		case '\b', '\t', '\n', '\f', '\r':
			return 0
		}
		return 6
	}
	return 0
}

// rewrite reads a string and writes its canonical text to the side buffer. So a string is scanned
// at most twice.
func (p *parser) rewrite(from int) int {
	s, side := p.s, append(p.t.side, '"')
	start, flags := len(p.t.side), uint8(inSide)
	i, run := from+1, from+1 // bytes from run on are copied in one piece
	for {
		if i < len(s) && s[i] != '\\' {
			i = plain(s, i)
		}
		if i >= len(s) {
			return p.fail(len(s), "string without end")
		}
		switch c := s[i]; {
		case c == '"':
			p.t.side = append(append(side, s[run:i]...), '"')
			p.add(String, flags, start, len(p.t.side)).order = uint32(from)
			p.top().clean = false
			return i + 1
		case c == '\\':
			if i+1 == len(s) {
				return p.fail(len(s), "string without end")
			}
			r, n, what := unescapeOne(s[i:])
			if what != "" {
				return p.fail(i, what)
			}
			if run < i {
				side = append(side, s[run:i]...)
			}
			switch {
			case r < 0x20 || r == '"' || r == '\\':
				flags |= escaped
				side = appendEscape(side, byte(r))
			case r < utf8.RuneSelf:
				side = append(side, byte(r))
			default:
				flags |= wide
				side = utf8.AppendRune(side, r)
			}
			i += n
			run = i
		case c < 0x20:
			return p.fail(i, "control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			n := multibyte(s[i:])
			if n == 0 {
				return p.fail(i, "invalid UTF-8")
			}
			flags |= wide
			i += n
		}
	}
}

// unescapeOne reads the escape at the start of b, or the two that make a surrogate pair. There must
// be a byte after the backslash.
func unescapeOne(b []byte) (r rune, n int, what string) {
	if b[1] != 'u' {
		r = simpleEscape(b[1])
		if r < 0 {
			return 0, 0, "bad escape"
		}
		return r, 2, ""
	}
	r = hex4(b[2:])
	if r < 0 {
		return 0, 0, "bad escape"
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, ""
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return 0, 0, "lone surrogate"
	}
	r = utf16.DecodeRune(r, hex4(b[8:]))
	if r == utf8.RuneError { // no pair stands for it
		return 0, 0, "lone surrogate"
	}
	return r, 12, ""
}

func simpleEscape(c byte) rune {
	switch c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return -1
}

// hex4 returns the value of four hex digits, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	w, x, y, z := hexValue[b[0]], hexValue[b[1]], hexValue[b[2]], hexValue[b[3]]
	if w&x&y&z&isHex == 0 {
		return -1
	}
	return rune(w&15)<<12 | rune(x&15)<<8 | rune(y&15)<<4 | rune(z&15)
}

func unhex(c byte) rune {
	if v := hexValue[c]; v != 0 {
		return rune(v & 15)
	}
	return -1
}

// hexValue holds the values of hex digits, with the bit isHex set. It is a table because branches
// on the digits of an escape cannot be predicted.
var hexValue = [256]byte{
	'0': isHex, '1': isHex | 1, '2': isHex | 2, '3': isHex | 3, '4': isHex | 4,
	'5': isHex | 5, '6': isHex | 6, '7': isHex | 7, '8': isHex | 8, '9': isHex | 9,
	'a': isHex | 10, 'b': isHex | 11, 'c': isHex | 12, 'd': isHex | 13, 'e': isHex | 14, 'f': isHex | 15,
	'A': isHex | 10, 'B': isHex | 11, 'C': isHex | 12, 'D': isHex | 13, 'E': isHex | 14, 'F': isHex | 15,
}

const isHex = 0x10

// unescape decodes canonical text, so every escape in it is well formed.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		r, n := decode(b[i:])
		out = utf8.AppendRune(out, r)
		b = b[i+n:]
	}
}

// decode reads one character of canonical text without quotes.
func decode(b []byte) (r rune, n int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	if b[1] == 'u' {
		return hex4(b[2:]), 6
	}
	return simpleEscape(b[1]), 2
}

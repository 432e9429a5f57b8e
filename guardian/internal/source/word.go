package source

import (
	"slices"
	"unicode/utf8"
)

// apart are the code points from U+0080 on that are no word characters: signs, and scripts that put
// no blank between words. A value in these is found wherever it stands. The table is part of the
// rules, and does not follow Unicode.
var apart = [...]struct{ first, last rune }{
	{0x80, 0xbf}, {0xd7, 0xd7}, {0xf7, 0xf7}, {0xe00, 0xeff}, {0x1000, 0x109f}, {0x1780, 0x17ff},
	{0x2000, 0x200a}, {0x2010, 0x2029}, {0x202f, 0x205f}, {0x20a0, 0x20cf}, {0x2190, 0x2bff},
	{0x2e00, 0x9fff}, {0xa960, 0xa97f}, {0xac00, 0xd7ff}, {0xf900, 0xfaff}, {0xfe10, 0xfe1f},
	{0xfe30, 0xfe6f}, {0xff01, 0xff0f}, {0xff1a, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xffef},
	{0x1f000, 0x1faff}, {0x20000, 0x3ffff},
}

// isWord reports whether a code point is a word character.
func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	_, signs := slices.BinarySearchFunc(apart[:], c, func(a struct{ first, last rune }, c rune) int {
		switch {
		case a.last < c:
			return -1
		case a.first > c:
			return 1
		}
		return 0
	})
	return !signs
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

// joins reports whether a code point joins a value with what is beyond it, if the value has that
// byte at its edge.
func joins(c, beyond rune, edge byte) bool {
	switch c {
	case '.', '@', '-', '_', '+', '/', '\\', '#', '&', '%', '~', '?':
		return isWord(beyond)
	case ',':
		return isDigit(rune(edge)) && isDigit(beyond)
	}
	return false
}

// end stands between texts, and is in none: no UTF-8 contains the byte.
const end = 0xff

// freeBefore reports whether a value that begins with that byte may begin after s.
func freeBefore(s []byte, edge byte) bool {
	c, n := last(s)
	if n == 0 {
		return true
	}
	beyond, _ := last(s[:len(s)-n])
	return !isWord(c) && !joins(c, beyond, edge)
}

// freeAfter reports whether a value that ends with that byte may end before s.
func freeAfter(s []byte, edge byte) bool {
	c, n := first(s)
	if n == 0 {
		return true
	}
	beyond, _ := first(s[n:])
	if c == ':' || c == '=' {
		return !isWord(beyond)
	}
	return !isWord(c) && !joins(c, beyond, edge)
}

// first returns the first code point of s and its length, or 0 and 0 if a text ends there.
func first(s []byte) (rune, int) {
	if len(s) == 0 || s[0] == end {
		return 0, 0
	}
	return utf8.DecodeRune(s)
}

// last returns the last code point of s and its length, or 0 and 0 if a text begins after s.
func last(s []byte) (rune, int) {
	if len(s) == 0 || s[len(s)-1] == end {
		return 0, 0
	}
	return utf8.DecodeLastRune(s)
}

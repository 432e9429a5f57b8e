package source

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// maxText is the length of the longest value that is looked for in texts, in bytes.
const maxText = 256

// floor is how many code points a value must have to be looked for. One less will do if one of them
// is an ASCII letter, or beyond ASCII.
const floor = 4

// Texts holds texts, in which values are looked for.
type Texts struct {
	joined []byte // the texts, with an end after each
	length int    // of all texts
}

// add adds a text, which must be UTF-8.
func (t *Texts) add(text []byte) {
	t.length += len(text)
	if len(text) >= floor-1 { // a shorter one contains no value
		t.joined = append(append(t.joined, text...), end)
	}
}

// Bytes returns the length of the texts.
func (t *Texts) Bytes() int { return t.length }

// Size returns about how many bytes of memory the texts take.
func (t *Texts) Size() int { return cap(t.joined) }

// Has reports whether one of the texts contains the value. Of a string the content is looked for,
// of a number its canonical text; no other value is found. It must have at most 256 bytes of UTF-8,
// and at least four code points, or three if one of them is an ASCII letter or from U+0080 on.
//
// It must occur byte for byte somewhere with both sides free. A side is free if the text ends
// there, or if the next code point is no word character and does not join the value with the one
// beyond it.
func (t *Texts) Has(v crypto.Value) bool {
	var buf [maxText]byte
	value := textOf(v, &buf)
	return long(value) && t.contains(value)
}

// textOf returns the text of a value, or nil if it has none that is looked for. buf holds a text
// that has escapes in canonical form.
func textOf(v crypto.Value, buf *[maxText]byte) []byte {
	text := v.Raw()
	switch v.Kind() {
	case crypto.Number:
		return text
	case crypto.String:
		text = text[1 : len(text)-1]
	default:
		return nil
	}
	if bytes.IndexByte(text, '\\') >= 0 {
		return unescape(buf, text)
	}
	if len(text) > maxText {
		return nil
	}
	return text
}

// unescape returns the content of a canonical string in buf, or nil if it is too long.
func unescape(buf *[maxText]byte, text []byte) []byte {
	n := 0
	for i := 0; i < len(text); i++ {
		if n == len(buf) {
			return nil
		}
		c := text[i]
		if c == '\\' {
			i++
			switch c = text[i]; c {
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'u': // the canonical form escapes control characters in no other way
				x, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 8)
				c = byte(x)
				i += 4
			}
		}
		buf[n] = c
		n++
	}
	return buf[:n]
}

// long reports whether a value is not too short to be looked for.
func long(value []byte) bool {
	if len(value) > (floor-1)*utf8.UTFMax {
		return true
	}
	n, lax := 0, false
	for rest := value; len(rest) > 0; n++ {
		c, size := utf8.DecodeRune(rest)
		lax = lax || c >= utf8.RuneSelf || 'a' <= c|0x20 && c|0x20 <= 'z'
		rest = rest[size:]
	}
	return n >= floor || lax && n == floor-1
}

// contains reports whether one of the texts has the value with both sides free.
func (t *Texts) contains(value []byte) bool {
	for from, misses := 0, 0; ; misses++ {
		if misses > 64+from/64 {
			return t.containsOften(value, from)
		}
		i := bytes.Index(t.joined[from:], value)
		if i < 0 {
			return false
		}
		if t.free(from+i, len(value)) {
			return true
		}
		from += i + 1
	}
}

// free reports whether both sides of what stands at an index are free.
func (t *Texts) free(at, length int) bool {
	return freeBefore(t.joined[:at], t.joined[at]) && freeAfter(t.joined[at+length:], t.joined[at+length-1])
}

// containsOften does the work of contains from an index on. It takes time in proportion to the text
// even if the value occurs at every place of it, where each Index would begin with work of its own.
// This is the algorithm of Knuth, Morris and Pratt.
func (t *Texts) containsOften(value []byte, from int) bool {
	var border [maxText]uint8 // of each prefix: the longest shorter one that it ends with
	for i, k := 1, 0; i < len(value); i++ {
		for k > 0 && value[i] != value[k] {
			k = int(border[k-1])
		}
		if value[i] == value[k] {
			k++
		}
		border[i] = uint8(k)
	}
	k := 0
	for i := from; i < len(t.joined); i++ {
		for k > 0 && t.joined[i] != value[k] {
			k = int(border[k-1])
		}
		if t.joined[i] == value[k] {
			k++
		}
		if k < len(value) {
			continue
		}
		if t.free(i+1-k, k) {
			return true
		}
		k = int(border[k-1])
	}
	return false
}

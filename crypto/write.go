package crypto

import (
	"strconv"
	"unicode/utf8"
)

// Append appends the canonical form of v, RFC 8785. It appends nothing for a Missing value.
func (v Value) Append(dst []byte) []byte {
	if v.t == nil {
		return dst
	}
	return v.t.append(dst, v.n)
}

// append recurses as deep as the text is nested, which the parser bounds.
func (t *Tree) append(dst []byte, i uint32) []byte {
	n := &t.nodes[i]
	switch {
	case n.kind < Array:
		return append(dst, t.text(n)...)
	case n.flags&clean != 0:
		return append(dst, t.src[n.off:n.end]...)
	case n.kind == Array:
		dst = append(dst, '[')
		for at := i + 1; at < n.next; at = t.nodes[at].next {
			dst = append(t.append(dst, at), ',')
		}
		return closing(dst, ']')
	}
	dst = append(dst, '{')
	if n.flags&permuted != 0 {
		for _, at := range t.order[n.order : n.order+n.count] {
			dst = t.appendMember(dst, at)
		}
	} else {
		for at := i + 1; at < n.next; at = t.nodes[at+1].next {
			dst = t.appendMember(dst, at)
		}
	}
	return closing(dst, '}')
}

func (t *Tree) appendMember(dst []byte, key uint32) []byte {
	k, v := &t.nodes[key], &t.nodes[key+1]
	dst = append(append(dst, t.text(k)...), ':')
	if v.kind < Array {
		dst = append(dst, t.text(v)...)
	} else {
		dst = t.append(dst, key+1)
	}
	return append(dst, ',')
}

// closing replaces the last comma of a container by its end, or appends the end if the container is
// empty.
func closing(dst []byte, with byte) []byte {
	if dst[len(dst)-1] == ',' {
		dst[len(dst)-1] = with
		return dst
	}
	return append(dst, with)
}

// AppendString appends s as canonical JSON, RFC 8785 section 3.2.2.2. It replaces bytes that are
// not valid UTF-8 by U+FFFD, so the result is always JSON.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if isPlain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		dst = appendEscape(append(dst, s[from:i]...), c)
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// isPlain holds for the bytes that stand for themselves in canonical text.
var isPlain = func() (table [256]bool) {
	for c := range utf8.RuneSelf {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

const hexDigits = "0123456789abcdef"

// appendEscape appends the canonical escape of a quote, a backslash or a control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendFloat appends a finite number like Number::toString of ECMA-262, RFC 8785 section 3.2.2.3.
// It appends other numbers as NaN or Inf, which no JSON reader accepts.
func AppendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if f < 0 {
		dst, f = append(dst, '-'), -f
	}
	if f >= 1e-6 && f < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') { // Go writes e-07 for e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

package jsonschema

import (
	"bytes"
	"regexp"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// text holds the keywords for strings.
type text struct {
	min, max uint64 // in code points
	pattern  *expression
}

// An expression is a pattern. If it is simple enough it is also compiled to tables of bytes, which
// are several times faster.
type expression struct {
	re    *regexp.Regexp
	runs  []run // nil if it is not simple enough
	steps int
}

func (t *text) read(c *compiler, name string, v crypto.Value, at string) {
	switch name {
	case "minLength":
		t.min = c.length(v, at)
	case "maxLength":
		t.max = c.length(v, at)
	case "pattern":
		t.pattern = c.pattern(v, at)
	}
	if t.min > t.max {
		c.fail(at, "minLength is more than maxLength", "swap them")
	}
}

// match reports whether a string matches, given its canonical text without quotes.
func (p *expression) match(raw []byte, w *walk) bool {
	if bytes.IndexByte(raw, '\\') >= 0 {
		s := w.borrow()
		defer w.giveBack(s)
		s.text = appendContent(s.text, raw)
		raw = s.text
	}
	return p.matches(raw, w)
}

// matches reports whether a string matches. It charges for the test, and does not test what would
// cost too much.
func (p *expression) matches(content []byte, w *walk) bool {
	switch {
	case !w.charge(p.steps, len(content)):
		return false
	case p.runs != nil:
		return matchRuns(p.runs, content)
	}
	return p.re.Match(content)
}

// content returns the keyword that a string violates, or "". The string is not in canonical text.
func (t *text) content(s []byte, w *walk) string {
	switch count := uint64(utf8.RuneCount(s)); {
	case count < t.min:
		return "minLength"
	case count > t.max:
		return "maxLength"
	case t.pattern != nil && !t.pattern.matches(s, w):
		return "pattern"
	}
	return ""
}

// check returns the keyword that a string violates, or "".
func (t *text) check(v crypto.Value, w *walk) string {
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	// A code point takes 1 to 6 bytes of canonical text, so most lengths need no counting.
	if size := uint64(len(raw)); size > t.max || size < 6*t.min {
		switch count := codePoints(raw); {
		case count < t.min:
			return "minLength"
		case count > t.max:
			return "maxLength"
		}
	}
	if t.pattern != nil && !t.pattern.match(raw, w) {
		return "pattern"
	}
	return ""
}

// codePoints counts the code points of a string, given its canonical text without quotes.
func codePoints(raw []byte) uint64 {
	n := utf8.RuneCount(raw)
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return uint64(n)
		}
		long := escapeLength(raw[i:])
		n -= long - 1
		raw = raw[i+long:]
	}
}

// escapeLength returns the length of the escape at the start of canonical text: \u00XX, or a
// backslash and a character.
func escapeLength(raw []byte) int {
	if raw[1] == 'u' {
		return 6
	}
	return 2
}

// appendContent decodes canonical text, in which \u00XX is a control character.
func appendContent(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		c := raw[1]
		switch c {
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
		case 'u':
			c = raw[5] - '0'
			if c > 9 {
				c = raw[5] - 'a' + 10
			}
			c |= (raw[4] - '0') << 4
		}
		dst = append(dst, c)
		raw = raw[escapeLength(raw):]
	}
}

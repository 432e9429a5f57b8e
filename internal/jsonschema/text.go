package jsonschema

import (
	"bytes"
	"regexp"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// text is what a schema says of strings.
type text struct {
	min, max uint64 // code points
	pattern  *pattern
}

// pattern is a regular expression, and where it is simple enough the same as tables of bytes, which are several times faster.
type pattern struct {
	re   *regexp.Regexp
	runs []run // nil if it is not
}

func (c *compiler) readText(n *node, name string, v crypto.Value, at string) {
	if n.text == nil {
		n.text = &text{max: unlimited}
	}
	switch name {
	case "minLength":
		n.text.min = c.length(v, at)
	case "maxLength":
		n.text.max = c.length(v, at)
	case "pattern":
		n.text.pattern = c.readPattern(v, at)
	}
	if n.text.min > n.text.max {
		c.fail(at, "minLength is more than maxLength", "swap them")
	}
}

// readPattern compiles a regular expression once, however often it stands in the schema.
func (c *compiler) readPattern(v crypto.Value, at string) *pattern {
	if !c.want(v, crypto.String, at) {
		return nil
	}
	s := v.Text()
	if c.patterns[s] != nil {
		return c.patterns[s]
	}
	if len(s) > maxPattern {
		c.fail(at, "the pattern is longer than 1 KiB", "shorten it")
		return nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		c.fail(at, "the pattern is not RE2: "+err.Error(), "correct it; RE2 has no lookaround and no back-references")
		return nil
	}
	c.patterns[s] = &pattern{re, runsOf(s)}
	return c.patterns[s]
}

func (p *pattern) match(b []byte) bool {
	if p.runs != nil {
		return matchRuns(p.runs, b)
	}
	return p.re.Match(b)
}

func (n *node) checkText(v crypto.Value, w *walk) bool {
	t, raw := n.text, v.Raw()
	raw = raw[1 : len(raw)-1]
	// A code point takes 1 to 6 bytes of canonical text, so most lengths need no counting.
	if size := uint64(len(raw)); size > t.max || size < 6*t.min {
		switch count := codePoints(raw); {
		case count < t.min:
			return w.fail(n, "minLength")
		case count > t.max:
			return w.fail(n, "maxLength")
		}
	}
	if t.pattern == nil {
		return true
	}
	matches := false
	if bytes.IndexByte(raw, '\\') < 0 {
		matches = t.pattern.match(raw)
	} else {
		s := w.borrow()
		s.text = appendContent(s.text, raw)
		matches = t.pattern.match(s.text)
		w.giveBack(s)
	}
	return matches || w.fail(n, "pattern")
}

// codePoints counts those of a string by its canonical text without quotes.
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

// escapeLength is that of the escape canonical text starts with: \u00XX, or a backslash and a character.
func escapeLength(raw []byte) int {
	if raw[1] == 'u' {
		return 6
	}
	return 2
}

// appendContent decodes canonical text, where \u00XX stands for a control character.
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

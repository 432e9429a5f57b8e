package policy

import (
	"bytes"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

func refuse(pos contracts.Pos, what, remedy string) *guardian.LoadError {
	return &guardian.LoadError{Pos: pos, What: what, Remedy: remedy}
}

// checkEncoding refuses a text that is not UTF-8, before a reader guesses at another encoding.
func checkEncoding(b []byte) *guardian.LoadError {
	if bytes.HasPrefix(b, []byte("\uFEFF")) {
		return refuse(contracts.Pos{Line: 1, Column: 1}, "byte order mark", "save the file as UTF-8 without one")
	}
	c := start(b)
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			return refuse(c.advance(len(b)-len(rest)), "invalid UTF-8", "save the file as UTF-8")
		}
		rest = rest[n:]
	}
	return nil
}

// checkYAML refuses characters that YAML does not have, and those that end a line in YAML 1.1 but
// not in 1.2: a string that holds one reads differently in the two.
func checkYAML(b []byte) *guardian.LoadError {
	c := start(b)
	for i, r := range string(b) {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= ' ' && r < 0x7F, r > 0x9F && r != 0x2028 && r != 0x2029 &&
			r != 0xFEFF && r != 0xFFFE && r != 0xFFFF:
			continue
		}
		return refuse(c.advance(i),
			"a character that YAML has not, or that some of its versions read as the end of a line",
			"take it out, or write it as an escape in double quotes")
	}
	return nil
}

// A cursor goes forward through a text and knows the line and column.
type cursor struct {
	b   []byte
	at  int
	pos contracts.Pos
}

func start(b []byte) cursor { return cursor{b: b, pos: contracts.Pos{Line: 1, Column: 1}} }

// tabAt goes to a place, and reports whether there is a tab.
func (c *cursor) tabAt(pos contracts.Pos) bool {
	for c.at < len(c.b) && (c.pos.Line < pos.Line || c.pos.Line == pos.Line && c.pos.Column < pos.Column) {
		c.advance(c.at + 1)
	}
	return c.at < len(c.b) && c.pos == pos && c.b[c.at] == '\t'
}

// advance goes to the byte at an offset not before the present one, and returns its place.
func (c *cursor) advance(to int) contracts.Pos {
	for ; c.at < to && c.at < len(c.b); c.at++ {
		switch b := c.b[c.at]; {
		case b == '\r' && c.at+1 < len(c.b) && c.b[c.at+1] == '\n':
			// the line ends at the LF
		case b == '\n', b == '\r':
			c.pos = contracts.Pos{Line: c.pos.Line + 1, Column: 1}
		case utf8.RuneStart(b):
			c.pos.Column++
		}
	}
	return c.pos
}

package crypto

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse reads one strict JSON text, FORMATS section 1: UTF-8 without BOM, one value, no duplicate keys, no lone surrogates, numbers that
// canonicalising does not change. On error the Tree is empty; the error is a *[SyntaxError]. Time is linear in the text but for the
// sorting of keys, memory at most 12 times the text.
func (t *Tree) Parse(src []byte, l Limits) error {
	t.src, t.side, t.nodes, t.order = src, t.side[:0], t.nodes[:0], t.order[:0]
	p := parser{t: t, s: src, limits: l}
	if what := p.parse(); what != "" {
		t.src, t.nodes = nil, t.nodes[:0]
		return &SyntaxError{p.i, what}
	}
	return nil
}

// maxArgs is the size of arguments, as received and in canonical form.
const maxArgs = 1 << 20

// ParseArgs reads the arguments of a tool call: an object of at most 1 MiB, as received and in canonical form, nested 64 deep, in which
// no two keys differ only by letter case. It appends the canonical form to dst.
func (t *Tree) ParseArgs(dst, src []byte) ([]byte, error) {
	if err := t.Parse(src, Limits{Bytes: maxArgs, Depth: 64, Object: true, Fold: true}); err != nil {
		return dst, err
	}
	from := len(dst)
	dst = t.Root().Append(dst)
	if len(dst)-from > maxArgs {
		t.src, t.nodes = nil, t.nodes[:0]
		return dst[:from], &SyntaxError{maxArgs, "the canonical form is longer than 1 MiB"}
	}
	return dst, nil
}

type parser struct {
	t      *Tree
	s      []byte
	i      int
	limits Limits
	depth  int
	stack  [MaxDepth]frame
}

// A frame is an object or array that is not closed yet.
type frame struct {
	node   uint32
	last   uint32 // the key before; 0 is none
	object bool
	sorted bool // keys came in canonical order
	lower  bool // no key has a letter that folds
	clean  bool // the text so far is canonical
}

// parse is a loop, not a recursion: no text can exhaust the goroutine's stack. It gives what is wrong at p.i, or "".
func (p *parser) parse() string {
	if len(p.s) > p.limits.Bytes || uint64(len(p.s)) > math.MaxUint32 {
		p.i = min(p.limits.Bytes, len(p.s))
		return "longer than its limit"
	}
	p.space()
	if p.limits.Object && p.peek() != '{' {
		return "not an object"
	}
	for {
		// A value starts here.
		switch c := p.peek(); {
		case c == '{', c == '[':
			if what := p.open(c); what != "" {
				return what
			}
			p.space()
			if p.peek() == c+2 { // } follows { by two in ASCII, and ] follows [
				break
			}
			if c == '{' {
				if what := p.key(); what != "" {
					return what
				}
			}
			continue
		case c == '"':
			if what := p.str(); what != "" {
				return what
			}
		default:
			if what := p.scalar(c); what != "" {
				return what
			}
		}
		// A value ended here.
		for {
			p.space()
			if p.depth == 0 {
				if p.i != len(p.s) {
					return "more than one value"
				}
				return ""
			}
			f := &p.stack[p.depth-1]
			c := p.peek()
			if c == ',' && p.t.nodes[f.node].count > 0 {
				p.i++
				p.space()
				if f.object {
					if what := p.key(); what != "" {
						return what
					}
				} else {
					p.t.nodes[f.node].count++
				}
				break
			}
			if f.object && c != '}' || !f.object && c != ']' {
				if f.object {
					return "expected ',' or '}'"
				}
				return "expected ',' or ']'"
			}
			p.i++
			if what := p.close(f); what != "" {
				return what
			}
		}
	}
}

func (p *parser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

// space skips white space, which no canonical text has.
func (p *parser) space() {
	if p.i < len(p.s) && p.s[p.i] > ' ' {
		return
	}
	from := p.i
	for p.i < len(p.s) && (p.s[p.i] == ' ' || p.s[p.i] == '\t' || p.s[p.i] == '\n' || p.s[p.i] == '\r') {
		p.i++
	}
	if p.i > from {
		p.dirty()
	}
}

func (p *parser) dirty() {
	if p.depth > 0 {
		p.stack[p.depth-1].clean = false
	}
}

func (p *parser) open(c byte) string {
	if p.depth >= p.limits.Depth || p.depth >= MaxDepth {
		return "nested too deep"
	}
	kind := Object
	if c == '[' {
		kind = Array
	}
	p.stack[p.depth] = frame{node: uint32(len(p.t.nodes)), object: c == '{', sorted: true, lower: true, clean: true}
	p.depth++
	p.t.nodes = append(p.t.nodes, node{kind: kind, off: uint32(p.i)})
	p.i++
	p.space()
	if c == '[' && p.peek() != ']' {
		p.t.nodes[len(p.t.nodes)-1].count = 1
	}
	return ""
}

func (p *parser) close(f *frame) string {
	t := p.t
	n := &t.nodes[f.node]
	n.end, n.next = uint32(p.i), uint32(len(t.nodes))
	if f.object && !(f.sorted && (f.lower || !p.limits.Fold)) {
		if what := p.arrange(f, n); what != "" {
			return what
		}
	}
	p.depth--
	if f.clean && f.sorted {
		n.flags |= clean
	} else {
		p.dirty()
	}
	return ""
}

// key reads a member's name and the colon.
func (p *parser) key() string {
	if p.peek() != '"' {
		return "expected a key"
	}
	t, at := p.t, uint32(len(p.t.nodes))
	if what := p.str(); what != "" {
		return what
	}
	f := &p.stack[p.depth-1]
	t.nodes[f.node].count++
	if f.sorted && f.last != 0 && t.compareKeys(f.last, at) >= 0 {
		f.sorted = false
	}
	f.last = at
	f.lower = f.lower && t.lower(at)
	p.space()
	if p.peek() != ':' {
		return "expected ':'"
	}
	p.i++
	p.space()
	return ""
}

func (p *parser) scalar(c byte) string {
	from, kind := p.i, Null
	word := ""
	switch {
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		word, kind = "true", Bool
	case c == 'f':
		word, kind = "false", Bool
	case c == 'n':
		word = "null"
	}
	if word == "" || len(p.s)-from < len(word) || string(p.s[from:from+len(word)]) != word {
		return "expected a value"
	}
	p.i += len(word)
	p.add(node{kind: kind, off: uint32(from), end: uint32(p.i)})
	return ""
}

func (p *parser) add(n node) {
	n.next = uint32(len(p.t.nodes)) + 1
	p.t.nodes = append(p.t.nodes, n)
}

// Eight bytes at once: which of them end a run of plain ASCII in a string?
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func special(w uint64) uint64 {
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (quote - ones) | (slash - ones) | (w - ones*0x20)) & highs
}

// str reads a string. Its text stays where it is unless an escape in it is not the canonical one.
func (p *parser) str() string {
	s, from, i := p.s, p.i, p.i+1
	flags := uint8(0)
	for {
		for i+8 <= len(s) {
			m := special(binary.LittleEndian.Uint64(s[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(s) {
			p.i = len(s)
			return "string without end"
		}
		switch c := s[i]; {
		case c == '"':
			p.i = i + 1
			p.add(node{kind: String, flags: flags, off: uint32(from), end: uint32(p.i)})
			return ""
		case c == '\\':
			n := canonicalEscape(s[i:])
			if n == 0 {
				return p.rewrite()
			}
			flags |= escaped
			i += n
		case c < 0x20:
			p.i = i
			return "control character in a string"
		case c < utf8.RuneSelf:
			i++
		default:
			_, n := utf8.DecodeRune(s[i:])
			if n == 1 {
				p.i = i
				return "invalid UTF-8"
			}
			flags |= wide
			i += n
		}
	}
}

// canonicalEscape is the length of the escape that b starts with, or 0 if RFC 8785 writes it otherwise.
func canonicalEscape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 || b[2] != '0' || b[3] != '0' || b[4] > '1' || b[4] < '0' || unhex(b[5]) < 0 || b[5] >= 'A' && b[5] <= 'F' {
			return 0
		}
		switch c := byte(unhex(b[4])<<4 | unhex(b[5])); c {
		case '\b', '\t', '\n', '\f', '\r':
			return 0
		}
		return 6
	}
	return 0
}

func unhex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// rewrite reads a string at p.i and puts its canonical text into the side buffer.
func (p *parser) rewrite() string {
	s, side := p.s, p.t.side
	from, flags, start := len(side), uint8(inSide), uint32(p.i)
	side = append(side, '"')
	defer func() { p.t.side = side }()
	for p.i++; p.i < len(s); {
		c := s[p.i]
		if c == '"' {
			p.i++
			side = append(side, '"')
			p.add(node{kind: String, flags: flags, off: uint32(from), end: uint32(len(side)), order: start})
			p.dirty()
			return ""
		}
		var r rune
		switch {
		case c < 0x20:
			return "control character in a string"
		case c == '\\':
			what := ""
			if r, what = p.escape(); what != "" {
				return what
			}
		default:
			n := 0
			if r, n = utf8.DecodeRune(s[p.i:]); r == utf8.RuneError && n == 1 {
				return "invalid UTF-8"
			}
			p.i += n
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
	}
	return "string without end"
}

// escape reads one escape, or two that make a surrogate pair.
func (p *parser) escape() (rune, string) {
	b := p.s[p.i:]
	if len(b) < 2 {
		return 0, "string without end"
	}
	if b[1] != 'u' {
		r := simpleEscape(b[1])
		if r < 0 {
			return 0, "bad escape"
		}
		p.i += 2
		return r, ""
	}
	r := hex4(b[2:])
	if r < 0 {
		return 0, "bad escape"
	}
	if !utf16.IsSurrogate(r) {
		p.i += 6
		return r, ""
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return 0, "lone surrogate"
	}
	r = utf16.DecodeRune(r, hex4(b[8:]))
	if r == utf8.RuneError {
		return 0, "lone surrogate"
	}
	p.i += 12
	return r, ""
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

func hex4(b []byte) (r rune) {
	if len(b) < 4 {
		return -1
	}
	for _, c := range b[:4] {
		d := unhex(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

// unescape decodes canonical text, so every escape in it is well formed.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		r, n := decode(b[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}

// decode reads one rune of canonical text without its quotes.
func decode(b []byte) (r rune, n int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	if b[1] == 'u' {
		return hex4(b[2:]), 6
	}
	return simpleEscape(b[1]), 2
}

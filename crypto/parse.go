package crypto

import "slices"

// maxText keeps every offset below 2^32, even if the text is all numbers like 1e20, whose canonical
// text is five times as long.
const maxText = 512 << 20

// Limits of arguments: their length, as received and in canonical form, and their nesting.
const (
	maxArgs      = 1 << 20
	maxArgsDepth = 64
)

// Parse reads one strict JSON text, as the package comment describes it. On error the Tree is
// empty, and the error is a *[SyntaxError]. The time is linear in the text except for sorting keys.
// The memory is 24 bytes for each value and key, at most 12 times the text, plus the growth of
// append.
func (t *Tree) Parse(src []byte, l Limits) error {
	t.src, t.side, t.nodes, t.order = src, t.side[:0], t.nodes[:0], t.order[:0]
	p := parser{t: t, s: src, limits: l}
	if !p.parse() {
		t.src, t.nodes = nil, t.nodes[:0]
		return &SyntaxError{p.at, p.what}
	}
	return nil
}

// ParseArgs reads the arguments of a tool call: an object of at most 1 MiB, as received and in
// canonical form, nested at most 64 deep, without keys that differ only by letter case. It appends
// the canonical form to dst.
func (t *Tree) ParseArgs(dst, src []byte) ([]byte, error) {
	if err := t.Parse(src, Limits{Bytes: maxArgs, Depth: maxArgsDepth, Object: true, Fold: true}); err != nil {
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

// Canonical reports whether the parsed text is its own canonical form.
func (t *Tree) Canonical() bool {
	if len(t.nodes) == 0 {
		return false
	}
	n := &t.nodes[0]
	return n.off == 0 && int(n.end) == len(t.src) && n.flags&inSide == 0 && (n.kind < Array || n.flags&clean != 0)
}

// IsArgs reports whether ParseArgs accepts the canonical form of v, without parsing it again.
func (v Value) IsArgs() bool {
	if v.Kind() != Object {
		return false
	}
	n := v.node()
	size := int(n.end - n.off)
	if n.flags&clean == 0 {
		size = len(v.Append(nil))
	}
	return size <= maxArgs && v.t.foldsApart(v.n, maxArgsDepth)
}

// A parser passes the position from method to method: each takes the offset at which it starts and
// returns the offset at which it ended, or failed.
type parser struct {
	t      *Tree
	s      []byte
	limits Limits
	depth  int
	stack  [1 + MaxDepth]frame // the open containers; the first frame is around the root
	at     int                 // offset of the error
	what   string              // text of the error
}

const failed = -1

func (p *parser) top() *frame { return &p.stack[p.depth] }

func (p *parser) fail(i int, what string) int {
	p.at, p.what = i, what
	return failed
}

// A frame is an object or array that is still open.
type frame struct {
	node   uint32
	last   uint32 // the key before; 0 if there is none
	object bool
	sorted bool // keys came in canonical order
	lower  bool // no key has a letter that folds
	clean  bool // the text so far is canonical
}

// parse is a loop rather than a recursion, so no text can exhaust the goroutine's stack.
func (p *parser) parse() bool {
	if limit := max(0, min(p.limits.Bytes, maxText)); len(p.s) > limit {
		p.fail(limit, "longer than its limit")
		return false
	}
	i := p.space(0)
	if p.limits.Object && p.peek(i) != '{' {
		p.fail(i, "not an object")
		return false
	}
	for {
		// A value starts here.
		switch c := p.peek(i); c {
		case '"':
			i = p.str(i)
		case '{', '[':
			i = p.open(i, c)
			if i == failed {
				return false
			}
			if p.peek(i) == c+2 { // } follows { by two in ASCII, and ] follows [
				break
			}
			if c == '{' {
				i = p.key(i)
				if i == failed {
					return false
				}
			} else {
				p.t.nodes[p.top().node].count = 1
			}
			continue
		default:
			i = p.scalar(i, c)
		}
		if i == failed {
			return false
		}
		// A value ended here, and perhaps containers of which it is the last value.
		for {
			i = p.space(i)
			f, c := p.top(), p.peek(i)
			if p.depth == 0 {
				if i < len(p.s) {
					p.fail(i, "more than one value")
				}
				return i == len(p.s)
			}
			if c == ',' {
				i = p.space(i + 1)
				if !f.object {
					p.t.nodes[f.node].count++
					break
				}
				i = p.key(i)
				if i == failed {
					return false
				}
				break
			}
			if f.object && c != '}' {
				p.fail(i, "expected ',' or '}'")
				return false
			}
			if !f.object && c != ']' {
				p.fail(i, "expected ',' or ']'")
				return false
			}
			i = p.close(i+1, f)
			if i == failed {
				return false
			}
		}
	}
}

// peek returns 0 at the end of the text. No text may have a zero byte at any offset that it is
// called with.
func (p *parser) peek(i int) byte {
	if i < len(p.s) {
		return p.s[i]
	}
	return 0
}

// space skips white space, which no canonical text has.
func (p *parser) space(i int) int {
	if i >= len(p.s) || p.s[i] > ' ' {
		return i
	}
	return p.skip(i)
}

const white = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'

func (p *parser) skip(i int) int {
	for p.top().clean = false; i < len(p.s) && p.s[i] <= ' ' && uint64(1)<<p.s[i]&white != 0; {
		i++
	}
	return i
}

func (p *parser) open(i int, c byte) int {
	if p.depth >= p.limits.Depth || p.depth >= MaxDepth {
		return p.fail(i, "nested too deep")
	}
	kind := Object
	if c == '[' {
		kind = Array
	}
	p.depth++
	*p.top() = frame{node: uint32(len(p.t.nodes)), object: c == '{', sorted: true, lower: true, clean: true}
	p.add(kind, 0, i, i)
	return p.space(i + 1)
}

func (p *parser) close(i int, f *frame) int {
	t := p.t
	n := &t.nodes[f.node]
	n.end, n.next = uint32(i), uint32(len(t.nodes))
	if !f.sorted || p.limits.Fold && !f.lower {
		if !p.arrange(f, n) {
			return failed
		}
	}
	p.depth--
	if f.clean && f.sorted {
		n.flags |= clean
	} else {
		p.top().clean = false
	}
	return i
}

// key reads a member's name and the colon.
func (p *parser) key(i int) int {
	if p.peek(i) != '"' {
		return p.fail(i, "expected a key")
	}
	t, f, at := p.t, p.top(), uint32(len(p.t.nodes))
	i = p.str(i)
	if i == failed {
		return failed
	}
	t.nodes[f.node].count++
	k := &t.nodes[at]
	t.setPrefix(k)
	if f.sorted && f.last != 0 && t.compareKeys(f.last, at) >= 0 {
		f.sorted = false
	}
	f.last = at
	if f.lower && !t.lower(k) {
		f.lower = false
	}
	i = p.space(i)
	if p.peek(i) != ':' {
		return p.fail(i, "expected ':'")
	}
	return p.space(i + 1)
}

func (p *parser) scalar(i int, c byte) int {
	word, kind := "", Bool
	switch c {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number(i)
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word, kind = "null", Null
	}
	if word == "" || len(p.s)-i < len(word) || string(p.s[i:i+len(word)]) != word {
		return p.fail(i, "expected a value")
	}
	p.add(kind, 0, i, i+len(word))
	return i + len(word)
}

// add appends a scalar. It sets the fields one by one, since copying a node made elsewhere takes a
// quarter of the parser's time.
func (p *parser) add(kind Kind, flags uint8, off, end int) *node {
	t := p.t
	at := len(t.nodes)
	if at == cap(t.nodes) {
		t.nodes = slices.Grow(t.nodes, 1)
	}
	t.nodes = t.nodes[:at+1]
	n := &t.nodes[at]
	n.kind, n.flags = kind, flags
	n.off, n.end = uint32(off), uint32(end)
	n.next, n.count, n.order = uint32(at+1), 0, 0
	return n
}

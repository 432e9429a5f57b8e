// Package rawjson reads JSON that is passed on: what is not changed stays as the bytes that came.
//
// Check looks at a whole text once. It refuses what RFC 8259 does not allow, bytes that are not
// UTF-8, an object in which a name, as decoded, is there twice, and nesting over a limit: two
// programs read such a text as two different things, or one of them not at all. It does allow half
// of a surrogate pair in a string, which clients do send. A Value is read again whenever it is
// needed, so a text takes no memory beyond its own bytes.
package rawjson

import (
	"bytes"
	"errors"
	"iter"
	"unicode/utf8"
)

// Limits of a text.
const (
	MaxDepth   = 128     // of nesting; the root is 1
	maxMembers = 1 << 16 // of an object
)

// Errors of Check.
var (
	ErrSyntax  = errors.New("no JSON")
	ErrTwice   = errors.New("a name twice in an object")
	ErrDeep    = errors.New("nested too deep")
	ErrMembers = errors.New("an object of too many members")
)

// A Kind is what a Value is.
type Kind byte

// Kinds.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// A Value is a part of a text that was checked. The zero Value is Missing.
type Value struct{ raw []byte }

// Check returns the value of a text.
func Check(text []byte) (Value, error) {
	c := checker{text: text}
	if !utf8.Valid(text) {
		return Value{}, ErrSyntax
	}
	c.space()
	from := c.at
	if err := c.value(1); err != nil {
		return Value{}, err
	}
	to := c.at
	if c.space(); c.at != len(text) {
		return Value{}, ErrSyntax
	}
	return Value{text[from:to]}, nil
}

// A checker reads a text from its beginning to its end.
type checker struct {
	text []byte
	at   int
}

func (c *checker) space() { c.at = skip(c.text, c.at) }

func skip(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\r' || b[at] == '\t') {
		at++
	}
	return at
}

func (c *checker) next() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

func (c *checker) value(depth int) error {
	if depth > MaxDepth {
		return ErrDeep
	}
	switch b := c.next(); {
	case b == '{':
		return c.object(depth)
	case b == '[':
		return c.array(depth)
	case b == '"':
		return c.str()
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.text[c.at:], []byte(word)) {
			c.at += len(word)
			return nil
		}
	}
	return ErrSyntax
}

func (c *checker) array(depth int) error {
	c.at++
	c.space()
	if c.next() == ']' {
		c.at++
		return nil
	}
	for {
		c.space()
		if err := c.value(depth + 1); err != nil {
			return err
		}
		c.space()
		b := c.next()
		c.at++
		switch b {
		case ']':
			return nil
		case ',':
		default:
			return ErrSyntax
		}
	}
}

func (c *checker) object(depth int) error {
	var seen names
	c.at++
	c.space()
	if c.next() == '}' {
		c.at++
		return nil
	}
	for {
		c.space()
		from := c.at
		if c.next() != '"' {
			return ErrSyntax
		}
		if err := c.str(); err != nil {
			return err
		}
		if err := seen.add(c.text[from:c.at]); err != nil {
			return err
		}
		c.space()
		if c.next() != ':' {
			return ErrSyntax
		}
		c.at++
		c.space()
		if err := c.value(depth + 1); err != nil {
			return err
		}
		c.space()
		b := c.next()
		c.at++
		switch b {
		case '}':
			return nil
		case ',':
		default:
			return ErrSyntax
		}
	}
}

// str reads a string.
func (c *checker) str() error {
	for c.at++; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b == '"':
			c.at++
			return nil
		case b < ' ':
			return ErrSyntax
		case b != '\\':
			continue
		}
		c.at++
		switch c.next() {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			if _, ok := hex(c.text, c.at+1); !ok {
				return ErrSyntax
			}
			c.at += 4
		default:
			return ErrSyntax
		}
	}
	return ErrSyntax
}

// hex reads four hex digits.
func hex(b []byte, at int) (r rune, ok bool) {
	if at+4 > len(b) {
		return 0, false
	}
	for _, d := range b[at : at+4] {
		switch {
		case d >= '0' && d <= '9':
			r = r<<4 | rune(d-'0')
		case d >= 'a' && d <= 'f':
			r = r<<4 | rune(d-'a'+10)
		case d >= 'A' && d <= 'F':
			r = r<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (c *checker) digits() bool {
	from := c.at
	for b := c.next(); b >= '0' && b <= '9'; b = c.next() {
		c.at++
	}
	return c.at > from
}

func (c *checker) number() error {
	if c.next() == '-' {
		c.at++
	}
	if c.next() == '0' {
		c.at++
	} else if !c.digits() {
		return ErrSyntax
	}
	if c.next() == '.' {
		c.at++
		if !c.digits() {
			return ErrSyntax
		}
	}
	if b := c.next(); b == 'e' || b == 'E' {
		c.at++
		if b := c.next(); b == '+' || b == '-' {
			c.at++
		}
		if !c.digits() {
			return ErrSyntax
		}
	}
	return nil
}

// names are those of an object so far, decoded. Half of a surrogate pair is U+FFFD in them, as it
// is for most that read it.
type names struct {
	few  []string
	many map[string]bool
}

func (n *names) add(quoted []byte) error {
	name := unquote(quoted)
	if n.many == nil && len(n.few) < 8 {
		for _, has := range n.few {
			if has == name {
				return ErrTwice
			}
		}
		n.few = append(n.few, name)
		return nil
	}
	if n.many == nil {
		n.many = map[string]bool{}
		for _, has := range n.few {
			n.many[has] = true
		}
	}
	switch {
	case n.many[name]:
		return ErrTwice
	case len(n.many) >= maxMembers:
		return ErrMembers
	}
	n.many[name] = true
	return nil
}

// Kind returns what v is.
func (v Value) Kind() Kind {
	if len(v.raw) == 0 {
		return Missing
	}
	switch v.raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Raw returns the bytes of v as they came, without white space around them.
func (v Value) Raw() []byte { return v.raw }

// Is reports whether v is that text, as it came: a number or a word.
func (v Value) Is(text string) bool { return string(v.raw) == text }

// Text returns the content of a string, or "" of another value. Half of a surrogate pair is U+FFFD;
// whole reports whether there was none.
func (v Value) Text() string {
	if v.Kind() != String {
		return ""
	}
	return unquote(v.raw)
}

// Halves reports whether a string has half of a surrogate pair, so that Text is not what it has.
func (v Value) Halves() bool {
	if v.Kind() != String {
		return false
	}
	b := v.raw
	for at := 0; at+1 < len(b); at++ {
		if b[at] != '\\' {
			continue
		}
		if at++; b[at] != 'u' {
			continue
		}
		r, _ := hex(b, at+1)
		at += 4
		switch {
		case r < 0xd800 || r > 0xdfff:
		case r < 0xdc00 && at+2 < len(b) && b[at+1] == '\\' && b[at+2] == 'u':
			low, ok := hex(b, at+3)
			if !ok || low < 0xdc00 || low > 0xdfff {
				return true
			}
			at += 6
		default:
			return true
		}
	}
	return false
}

// unquote returns the content of a string that was checked.
func unquote(b []byte) string {
	b = b[1 : len(b)-1]
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for at := 0; at < len(b); at++ {
		if b[at] != '\\' {
			out = append(out, b[at])
			continue
		}
		at++
		switch b[at] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex(b, at+1)
			at += 4
			if r >= 0xd800 && r < 0xdc00 && at+2 < len(b) && b[at+1] == '\\' && b[at+2] == 'u' {
				if low, ok := hex(b, at+3); ok && low >= 0xdc00 && low <= 0xdfff {
					r = (r-0xd800)<<10 + low - 0xdc00 + 0x10000
					at += 6
				}
			}
			out = utf8.AppendRune(out, r) // U+FFFD for half of a pair
		default:
			out = append(out, b[at])
		}
	}
	return string(out)
}

// end returns where the value that begins at a place of a checked text ends.
func end(b []byte, at int) int {
	switch b[at] {
	case '"':
		for at++; b[at] != '"'; at++ {
			if b[at] == '\\' {
				at++
			}
		}
		return at + 1
	case '{', '[':
		for depth := 0; ; at++ {
			switch b[at] {
			case '"':
				at = end(b, at) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
		}
	}
	for at < len(b) && b[at] != ',' && b[at] != '}' && b[at] != ']' && b[at] > ' ' {
		at++
	}
	return at
}

// A Member is one of an object.
type Member struct {
	Name  string // decoded
	Key   []byte // as it came, with its quotes
	Value Value
}

// Members returns those of an object, in the order of the text; of another value none.
func (v Value) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		if v.Kind() != Object {
			return
		}
		b := v.raw
		for at := skip(b, 1); b[at] != '}'; {
			to := end(b, at)
			m := Member{Name: unquote(b[at:to]), Key: b[at:to]}
			at = skip(b, skip(b, to)+1)
			to = end(b, at)
			m.Value = Value{b[at:to]}
			if !yield(m) {
				return
			}
			if at = skip(b, to); b[at] == ',' {
				at = skip(b, at+1)
			}
		}
	}
}

// Get returns the member of that name, or a Missing value.
func (v Value) Get(name string) Value {
	for m := range v.Members() {
		if m.Name == name {
			return m.Value
		}
	}
	return Value{}
}

// Elements returns those of an array; of another value none.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		b := v.raw
		for at := skip(b, 1); b[at] != ']'; {
			to := end(b, at)
			if !yield(Value{b[at:to]}) {
				return
			}
			if at = skip(b, to); b[at] == ',' {
				at = skip(b, at+1)
			}
		}
	}
}

// Edit returns an object with some members replaced, or left out: of each, change returns what
// stands for its value, nil for nothing. What stays is as it came; add are further members, as
// text, such as "helm":{}. If nothing changes it is v.
func (v Value) Edit(change func(Member) []byte, add ...[]byte) Value {
	changed := len(add) > 0
	var parts [][]byte
	for m := range v.Members() {
		now := change(m)
		if now == nil {
			changed = true
			continue
		}
		if !bytes.Equal(now, m.Value.raw) {
			changed = true
		}
		parts = append(parts, append(append(bytes.Clone(m.Key), ':'), now...))
	}
	if !changed {
		return v
	}
	parts = append(parts, add...)
	return Value{append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')}
}

// List returns an array of these values.
func List(values [][]byte) Value {
	return Value{append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')}
}

// Clone returns v in memory of its own, so that the text around it is kept no longer.
func (v Value) Clone() Value { return Value{bytes.Clone(v.raw)} }

// Exists reports whether v is there, and not null.
func (v Value) Exists() bool { return v.Kind() > Null }

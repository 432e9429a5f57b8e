package crypto

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting that any [Limits] may allow; the root is 1.
const MaxDepth = 128

// MaxInt is the largest integer of a record, 2^53-1: above it doubles skip values.
const MaxInt = 1<<53 - 1

// Limits are those of one sort of JSON text.
type Limits struct {
	Bytes  int  // of the text; at most 512 MiB
	Depth  int  // of nested objects and arrays, the root being 1; at most MaxDepth
	Object bool // the root must be an object
	Fold   bool // no two keys of one object may be equal under ASCII case folding plus U+017F = s and U+212A = k
}

// A SyntaxError says where a text stops being JSON that HELM accepts. It never quotes the text.
type SyntaxError struct {
	Offset int // in bytes
	What   string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("crypto: json: %s at byte %d", e.What, e.Offset)
}

// Kind is the type of a [Value].
type Kind uint8

const (
	Missing Kind = iota // the zero Value: there is none
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "array", "object"}[k]
}

// A Tree holds one parsed JSON text. The zero Tree is ready for [Tree.Parse], and parsing again reuses its memory: Values of the text
// before are then no longer valid. A Tree may be read by many goroutines, but not while it is parsed.
type Tree struct {
	src   []byte // the text; not copied, so it must not change while the Tree is used
	side  []byte // canonical text of scalars whose spelling in src is another
	nodes []node
	order []uint32 // key nodes of objects whose members do not stand in canonical order
}

// A node is a value or, before each member's value, its key. Children follow their parent.
type node struct {
	kind  Kind
	flags uint8
	off   uint32 // the canonical text of a scalar, or the source text of a container
	end   uint32
	next  uint32 // the node after this one and all below it; of a key, see prefix
	count uint32 // elements, or members; of a key, see prefix
	order uint32 // of a permuted object, where in Tree.order its keys are listed; of a string in side, where it stands in src
}

const (
	inSide   = 1 << iota // the text lies in Tree.side
	escaped              // a string whose text has escapes
	wide                 // a string that is not all ASCII
	permuted             // an object whose members are not in canonical order
	clean                // a container whose source text is its canonical text
)

// Value is one value of a [Tree]. It is valid until the Tree is parsed again. The zero Value is Missing, and so is whatever is looked up
// in a value of another kind.
type Value struct {
	t *Tree
	n uint32
}

// Root is the value that was parsed, or Missing.
func (t *Tree) Root() Value {
	if len(t.nodes) == 0 {
		return Value{}
	}
	return Value{t, 0}
}

func (v Value) node() *node { return &v.t.nodes[v.n] }

// Kind gives the type of v.
func (v Value) Kind() Kind {
	if v.t == nil {
		return Missing
	}
	return v.node().kind
}

// Exists tells whether v is there and not null.
func (v Value) Exists() bool { return v.Kind() > Null }

// text is the canonical text of a scalar.
func (t *Tree) text(n *node) []byte {
	if n.flags&inSide != 0 {
		return t.side[n.off:n.end:n.end]
	}
	return t.src[n.off:n.end:n.end]
}

// Raw is the canonical text of a scalar, with the quotes of a string; nil for others. It must not be modified.
func (v Value) Raw() []byte {
	switch v.Kind() {
	case Missing, Array, Object:
		return nil
	}
	return v.t.text(v.node())
}

// Bytes is the content of a string, or nil. It must not be modified. It allocates only where the string has escapes.
func (v Value) Bytes() []byte {
	if v.Kind() != String {
		return nil
	}
	return v.t.content(v.node())
}

func (t *Tree) content(n *node) []byte {
	b := t.text(n)
	b = b[1 : len(b)-1]
	if n.flags&escaped != 0 {
		return unescape(b)
	}
	return b
}

// Text is the content of a string, as a string of its own, or "".
func (v Value) Text() string { return string(v.Bytes()) }

// Bool is the value of a boolean, or false.
func (v Value) Bool() bool { return v.Kind() == Bool && v.Raw()[0] == 't' }

// Float is the value of a number, or NaN.
func (v Value) Float() float64 {
	if v.Kind() != Number {
		return math.NaN()
	}
	raw := v.Raw()
	if n, ok := integer(raw); ok {
		return float64(n)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return math.NaN() // cannot be: Parse read the same text
	}
	return f
}

// Uint is the value of an integer from 0 to 2^53-1.
func (v Value) Uint() (uint64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	n, ok := integer(v.Raw())
	if !ok || n < 0 || n > MaxInt {
		return 0, false
	}
	return uint64(n), true
}

// integer reads canonical text of at most 16 digits.
func integer(b []byte) (n int64, ok bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 16 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(b) {
		n = -n
	}
	return n, true
}

// Len is the number of elements or members; 0 for scalars.
func (v Value) Len() int {
	if k := v.Kind(); k == Array || k == Object {
		return int(v.node().count)
	}
	return 0
}

// Get looks a member of an object up, in time linear in their number.
func (v Value) Get(key string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	t, end := v.t, v.node().next
	for at := v.n + 1; at < end; at = t.nodes[at+1].next {
		if t.named(&t.nodes[at], key) {
			return Value{t, at + 1}
		}
	}
	return Value{}
}

// named tells whether a key is name, without decoding it anew for each look-up.
func (t *Tree) named(k *node, name string) bool {
	b := t.text(k)
	b = b[1 : len(b)-1]
	if k.flags&escaped == 0 {
		return string(b) == name
	}
	for len(b) > 0 {
		r, n := decode(b)
		s, m := utf8.DecodeRuneInString(name)
		if m == 0 || r != s || r == utf8.RuneError && m == 1 { // broken UTF-8 in name is not U+FFFD in the key
			return false
		}
		b, name = b[n:], name[m:]
	}
	return name == ""
}

// At is the element of an array at an index, found in time linear in it.
func (v Value) At(index int) Value {
	if v.Kind() != Array || index < 0 || index >= v.Len() {
		return Value{}
	}
	at := v.n + 1
	for range index {
		at = v.t.nodes[at].next
	}
	return Value{v.t, at}
}

// Elements gives the elements of an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		for it := v.Iter(); it.Next() && yield(it.Value()); {
		}
	}
}

// An Iter walks through the elements of an array, or the members of an object in canonical order: whatever the order of the keys in a
// text, whoever reads it meets them in the same one.
type Iter struct {
	t       *Tree
	at, end uint32
	keys    []uint32 // what is left of a permuted object
	object  bool
	key     uint32
	value   uint32
}

// Iter starts before the first element or member; a scalar has none.
func (v Value) Iter() Iter {
	it := Iter{t: v.t}
	switch v.Kind() {
	case Object:
		n := v.node()
		it.object = true
		if n.flags&permuted != 0 {
			it.keys = v.t.order[n.order : n.order+n.count]
			return it
		}
		it.at, it.end = v.n+1, n.next
	case Array:
		it.at, it.end = v.n+1, v.node().next
	}
	return it
}

// Next goes to the next element or member, if there is one.
func (it *Iter) Next() bool {
	if len(it.keys) > 0 {
		it.key, it.keys = it.keys[0], it.keys[1:]
		it.value = it.key + 1
		return true
	}
	if it.at >= it.end {
		return false
	}
	it.key, it.value = it.at, it.at
	if it.object {
		it.value++
	}
	it.at = it.t.nodes[it.value].next
	return true
}

// Key is the name of the present member. It must not be modified. It allocates only where the name has escapes.
func (it *Iter) Key() []byte { return it.t.content(&it.t.nodes[it.key]) }

// Value is the present element, or the value of the present member.
func (it *Iter) Value() Value { return Value{it.t, it.value} }

// Equal tells whether two values are the same: numbers by value, strings by content, objects whatever the order of their members.
func (v Value) Equal(w Value) bool {
	if v.Kind() != w.Kind() || v.Len() != w.Len() {
		return false
	}
	switch v.Kind() {
	case Missing, Null:
		return true
	case Array, Object:
		a, b := v.Iter(), w.Iter()
		for a.Next() && b.Next() {
			if a.object && string(a.Key()) != string(b.Key()) || !a.Value().Equal(b.Value()) {
				return false
			}
		}
		return true
	}
	return string(v.Raw()) == string(w.Raw()) // canonical text is unique
}

package crypto

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting that [Limits] can allow. The root has depth 1.
const MaxDepth = 128

// MaxInt is the largest integer in a record, 2^53-1. Doubles do not hold all integers above it.
const MaxInt = 1<<53 - 1

// Limits bounds a JSON text.
type Limits struct {
	Bytes  int  // length of the text; at most 512 MiB
	Depth  int  // nesting of objects and arrays, the root being 1; at most MaxDepth
	Object bool // the root must be an object
	Fold   bool // no two keys of an object may be equal under ASCII case folding plus U+017F = s and U+212A = k
}

// A SyntaxError describes a text that is not JSON as HELM accepts it. It never quotes the text.
type SyntaxError struct {
	Offset int // of the error, in bytes
	What   string
}

// Error returns "crypto: json: what at byte offset".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("crypto: json: %s at byte %d", e.What, e.Offset)
}

// Kind is the type of a [Value].
type Kind uint8

// The kinds.
const (
	Missing Kind = iota // no value; the kind of the zero Value
	Null
	Bool
	Number
	String
	Array
	Object
)

// String returns the name of the kind as in JSON Schema, "missing" for Missing.
func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "array", "object"}[k]
}

// A Tree holds one parsed JSON text. The zero Tree is ready for [Tree.Parse]. Parsing again reuses
// its memory and invalidates the Values of the text before. A Tree may be read by multiple
// goroutines, but not while it parses.
type Tree struct {
	src   []byte // the text; not copied, so it must not change as long as the Tree is used
	side  []byte // canonical text of scalars that src spells differently
	nodes []node
	order []uint32 // key nodes of objects whose members are not in canonical order
}

// A node is a value, or the key in front of a member's value. Children follow their parent.
type node struct {
	kind  Kind
	flags uint8
	off   uint32 // the canonical text of a scalar, or the source text of a container
	end   uint32
	next  uint32 // the node after this one and all its children; of a key, see prefix
	count uint32 // number of elements or members; of a key, see prefix
	// Of a permuted object, the index in Tree.order of its keys; of a string in side, its offset in
	// src.
	order uint32
}

const (
	inSide   = 1 << iota // the text is in Tree.side
	escaped              // a string whose text contains escapes
	wide                 // a string that is not all ASCII
	permuted             // an object whose members are not in canonical order
	clean                // a container whose source text is its canonical text
)

// A Value is one value of a [Tree]. It is valid until the Tree parses again. The zero Value is
// Missing, and so is the result of looking into a value of another kind.
type Value struct {
	t *Tree
	n uint32
}

// Root returns the value of the text, or Missing if there is none.
func (t *Tree) Root() Value {
	if len(t.nodes) == 0 {
		return Value{}
	}
	return Value{t, 0}
}

func (v Value) node() *node { return &v.t.nodes[v.n] }

// Kind returns the kind of v.
func (v Value) Kind() Kind {
	if v.t == nil {
		return Missing
	}
	return v.node().kind
}

// Exists reports whether v is neither Missing nor null.
func (v Value) Exists() bool { return v.Kind() > Null }

// text returns the canonical text of a scalar.
func (t *Tree) text(n *node) []byte {
	if n.flags&inSide != 0 {
		return t.side[n.off:n.end:n.end]
	}
	return t.src[n.off:n.end:n.end]
}

// Raw returns the canonical text of a scalar, with the quotes of a string, or nil for other values.
// It must not be modified.
func (v Value) Raw() []byte {
	switch v.Kind() {
	case Missing, Array, Object:
		return nil
	}
	return v.t.text(v.node())
}

// Bytes returns the content of a string, or nil for other values. It must not be modified. It
// allocates only if the string contains escapes.
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

// Text returns a copy of the content of a string, or "" for other values.
func (v Value) Text() string { return string(v.Bytes()) }

// Bool returns the value of a boolean, or false for other values.
func (v Value) Bool() bool { return v.Kind() == Bool && v.Raw()[0] == 't' }

// Float returns the value of a number, or NaN for other values.
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
		return math.NaN() // cannot happen: Parse read the same text
	}
	return f
}

// Uint returns the value of an integer from 0 to 2^53-1. It reports false for any other value.
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

// Len returns the number of elements or members, 0 for other values.
func (v Value) Len() int {
	if k := v.Kind(); k == Array || k == Object {
		return int(v.node().count)
	}
	return 0
}

// Get returns a member of an object. It searches the members one by one.
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

// named reports whether a key is name, without decoding the key.
func (t *Tree) named(k *node, name string) bool {
	b := t.text(k)
	b = b[1 : len(b)-1]
	if k.flags&escaped == 0 {
		return string(b) == name
	}
	for len(b) > 0 {
		r, n := decode(b)
		s, m := utf8.DecodeRuneInString(name)
		if m == 0 || r != s || r == utf8.RuneError && m == 1 { // invalid UTF-8 in name is not U+FFFD in the key
			return false
		}
		b, name = b[n:], name[m:]
	}
	return name == ""
}

// At returns the element of an array at an index. It walks there from the first.
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

// Elements returns an iterator over the elements of an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		for it := v.Iter(); it.Next() && yield(it.Value()); {
		}
	}
}

// An Iter walks through the elements of an array, or through the members of an object in canonical
// order, whatever their order in the text.
type Iter struct {
	t       *Tree
	at, end uint32
	keys    []uint32 // keys of a permuted object that are still to come
	object  bool
	key     uint32
	value   uint32
}

// Iter returns an Iter before the first element or member. Other values have none.
func (v Value) Iter() Iter {
	switch v.Kind() {
	case Object:
		n := v.node()
		if n.flags&permuted != 0 {
			return Iter{t: v.t, object: true, keys: v.t.order[n.order : n.order+n.count]}
		}
		return Iter{t: v.t, object: true, at: v.n + 1, end: n.next}
	case Array:
		return Iter{t: v.t, at: v.n + 1, end: v.node().next}
	}
	return Iter{}
}

// Next moves to the next element or member and reports whether there is one.
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

// Key returns the name of the current member. It must not be modified. It allocates only if the
// name contains escapes.
func (it *Iter) Key() []byte { return it.t.content(&it.t.nodes[it.key]) }

// Value returns the current element, or the value of the current member.
func (it *Iter) Value() Value { return Value{it.t, it.value} }

// Equal reports whether v and w are the same: numbers by value, strings by content, objects in any
// order of their members.
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
	return string(v.Raw()) == string(w.Raw()) // a value has only one canonical text
}

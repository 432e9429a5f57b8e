package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/helmkernel/helm/crypto"
)

// A node is a JSON value that is changed before it is written.
type node struct {
	kind     crypto.Kind
	scalar   []byte // canonical text
	kids     []kid  // members, or elements, which have no names
	at       string // JSON Pointer to where the text has it
	comments []string
}

type kid struct {
	name string
	*node
}

// nodeOf copies a value that was read at a JSON Pointer.
func nodeOf(v crypto.Value, at string) *node {
	n := &node{kind: v.Kind(), scalar: v.Raw(), at: at}
	switch v.Kind() {
	case crypto.Object:
		for it := v.Iter(); it.Next(); {
			name := string(it.Key())
			n.kids = append(n.kids, kid{name, nodeOf(it.Value(), at+"/"+escapeSegment.Replace(name))})
		}
	case crypto.Array:
		for e := range v.Elements() {
			n.kids = append(n.kids, kid{"", nodeOf(e, at+"/"+strconv.Itoa(len(n.kids)))})
		}
	}
	return n
}

func textNode(s string) *node {
	return &node{kind: crypto.String, scalar: crypto.AppendString(nil, s)}
}

func listNode(elements ...*node) *node {
	n := &node{kind: crypto.Array}
	for _, e := range elements {
		n.kids = append(n.kids, kid{"", e})
	}
	return n
}

var falseNode = &node{kind: crypto.Bool, scalar: []byte("false")}

func (n *node) isTrue() bool { return n != nil && n.kind == crypto.Bool && string(n.scalar) == "true" }

// text returns the content of a string, and "" of anything else.
func (n *node) text() string {
	var t crypto.Tree
	if n == nil || n.kind != crypto.String ||
		t.Parse(n.scalar, crypto.Limits{Bytes: len(n.scalar), Depth: 1}) != nil {
		return ""
	}
	return t.Root().Text()
}

func (n *node) index(name string) int {
	if n == nil || n.kind != crypto.Object {
		return -1
	}
	return slices.IndexFunc(n.kids, func(k kid) bool { return k.name == name })
}

// get returns a member, or nil.
func (n *node) get(name string) *node {
	if i := n.index(name); i >= 0 {
		return n.kids[i].node
	}
	return nil
}

func (n *node) has(name string) bool { return n.index(name) >= 0 }

// set adds a member, or replaces it.
func (n *node) set(name string, value *node) {
	if i := n.index(name); i >= 0 {
		n.kids[i].node = value
		return
	}
	n.kids = append(n.kids, kid{name, value})
}

func (n *node) remove(name string) {
	n.kids = slices.DeleteFunc(n.kids, func(k kid) bool { return k.name == name })
}

// json appends the value as JSON.
func (n *node) json(dst []byte) []byte {
	switch n.kind {
	case crypto.Object, crypto.Array:
		brackets := "{}"
		if n.kind == crypto.Array {
			brackets = "[]"
		}
		dst = append(dst, brackets[0])
		for i, k := range n.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			if n.kind == crypto.Object {
				dst = append(crypto.AppendString(dst, k.name), ':')
			}
			dst = k.json(dst)
		}
		return append(dst, brackets[1])
	}
	return append(dst, n.scalar...)
}

// commented reports whether there is a comment in the value.
func (n *node) commented() bool {
	return len(n.comments) > 0 || slices.ContainsFunc(n.kids, func(k kid) bool { return k.commented() })
}

// A writer writes YAML that reads back as the same values.
type writer struct{ out []byte }

func (w *writer) line(depth int, text string) {
	w.out = append(append(append(w.out, strings.Repeat("  ", depth)...), text...), '\n')
}

// member writes a member of an object, with its comments above it.
func (w *writer) member(depth int, name string, n *node) {
	w.entry(depth, string(scalarText(name))+":", n)
}

// entry writes what follows a key, or the dash of an element. What has a comment in it, or is too
// long for a line, has lines of its own.
func (w *writer) entry(depth int, prefix string, n *node) {
	const width = 100
	for _, c := range n.comments {
		w.line(depth, "# "+c)
	}
	if flow := n.flow(nil); !n.inner() && 2*depth+len(prefix)+1+len(flow) <= width || len(n.kids) == 0 {
		w.line(depth, prefix+" "+string(flow))
		return
	}
	w.line(depth, prefix)
	for _, k := range n.kids {
		if n.kind == crypto.Array {
			w.entry(depth+1, "-", k.node)
		} else {
			w.member(depth+1, k.name, k.node)
		}
	}
}

// inner reports whether something in the value has a comment.
func (n *node) inner() bool {
	return slices.ContainsFunc(n.kids, func(k kid) bool { return k.commented() })
}

// flow appends the value on one line.
func (n *node) flow(dst []byte) []byte {
	switch n.kind {
	case crypto.String:
		return append(dst, scalarText(n.text())...)
	case crypto.Object, crypto.Array:
		brackets := "{}"
		if n.kind == crypto.Array {
			brackets = "[]"
		}
		dst = append(dst, brackets[0])
		for i, k := range n.kids {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			if n.kind == crypto.Object {
				dst = append(append(dst, scalarText(k.name)...), ": "...)
			}
			dst = k.flow(dst)
		}
		return append(dst, brackets[1])
	}
	return append(dst, n.scalar...)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// scalarText returns a string as YAML: plain if every reader takes it for the same string, in flow
// style, too, else in double quotes.
func scalarText(s string) []byte {
	_, odd := span(s, letters+"0123456789_$./-")
	if s != "" && odd == "" && strings.IndexByte(letters+"_$", s[0]) >= 0 && !isAmbiguous(s) {
		return []byte(s)
	}
	out := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\t':
			out = append(out, `\t`...)
		case !unicode.IsPrint(r): // what YAML does not have, and what turns text round or cannot be seen
			width, escape := "0000", `\u`
			if r > 0xffff {
				width, escape = "00000000", `\U`
			}
			hex := strconv.FormatInt(int64(r), 16)
			out = append(append(append(out, escape...), width[len(hex):]...), hex...)
		default:
			out = append(out, string(r)...)
		}
	}
	return append(out, '"')
}

package jsonschema

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

type compiler struct {
	doc      crypto.Value
	closed   bool
	nodes    map[key]*node // nil if it is still being compiled
	defs     []place       // schemas in $defs, compiled even if no $ref leads there
	patterns map[string]*expression
	sets     map[string]*set // by pointer
	filled   int             // bytes of defaults filled in so far
	err      *Error          // the first error; methods return if it is set
}

// A place is a schema and its position in the document.
type place struct {
	v  crypto.Value
	at string
}

// A key names a node. The node of a schema also depends on where the values are that it is for.
type key struct {
	at   string
	in   inside
	root bool
	open string // the pointers that are open from there on
}

func (c *compiler) fail(at, what, remedy string) {
	if c.err == nil {
		c.err = &Error{at, what, remedy}
	}
}

func (c *compiler) compile(open [][]string) *Schema {
	root := c.schema(place{c.doc, ""}, start(c.closed, open), 1)
	for i := 0; i < len(c.defs) && c.err == nil; i++ { // nothing is known of the values
		c.schema(c.defs[i], site{open: everything, in: inside{true, true}}, 1)
	}
	if c.err != nil {
		return nil
	}
	if c.closed {
		c.conflicts(root, nil)
	}
	return &Schema{root: root, closed: c.closed, filler: c.filler([]*node{root})}
}

// schema compiles the schema at a place in the document for the values at a site, once for each
// kind of site.
func (c *compiler) schema(p place, x site, depth int) *node {
	k := key{p.at, x.in, x.root(), x.open.text()}
	n := c.nodes[k]
	switch {
	case c.err != nil || n != nil:
		return n
	case depth > maxNesting:
		c.fail(p.at, "schemas are nested more than 64 deep", "flatten it")
	case p.v.Kind() == crypto.Bool && !p.v.Bool():
		c.fail(p.at, "boolean schemas are not supported", "leave what is never allowed out")
	case p.v.Kind() == crypto.Bool && x.isOpen():
		c.fail(p.at, "boolean schemas are not supported", "write {}")
	case p.v.Kind() == crypto.Bool:
		c.fail(p.at, "boolean schemas are not supported", "write what the value may be, or "+x.remedy())
	case p.v.Kind() != crypto.Object:
		c.fail(p.at, "a schema is an object", `write one, such as {"type": "string"}`)
	}
	if c.err != nil {
		return nil
	}
	c.nodes[k] = nil
	n = &node{at: p.at, types: anyType, open: c.closed && x.isOpen()}
	for it := p.v.Iter(); it.Next() && c.err == nil; {
		c.keyword(n, p, string(it.Key()), it.Value())
	}
	if c.closed && p.at == "" && n.types != TypeObject {
		c.fail("", "the arguments of a tool are an object", `write "type": "object" here`)
	}
	if c.err == nil {
		c.applicators(n, p, x, depth)
	}
	if c.err == nil {
		c.finish(n, p)
	}
	if c.err != nil {
		return nil
	}
	c.nodes[k] = n
	return n
}

// applicators compiles the schemas in a schema. It determines which of them must close the value.
func (c *compiler) applicators(n *node, p place, x site, depth int) {
	self, in := closing(n, p.v, x)
	c.members(n, p, x, self.object, depth)
	c.elements(n, p, x, self.array, depth)
	x.in = in
	if ref := p.v.Get("$ref"); ref.Kind() != crypto.Missing {
		at := join(p.at, "$ref")
		target, _ := c.resolve(ref, at)
		if n, seen := c.nodes[key{target.at, x.in, x.root(), x.open.text()}]; seen && n == nil {
			c.fail(at, "the $ref leads back to a schema that it is in", "write the levels out, as many as there may be")
		}
		n.all = []*node{c.schema(target, x, depth+1)}
	}
	n.anyOf = c.branches(p, "anyOf", x, depth)
	n.oneOf = c.branches(p, "oneOf", x, depth)
	n.composed = n.all != nil || n.anyOf != nil || n.oneOf != nil
	// The schemas in $defs are compiled last: one of them may lead to the schema that holds it.
	defs := p.v.Get("$defs")
	if k := defs.Kind(); k != crypto.Missing && k != crypto.Object {
		c.fail(join(p.at, "$defs"), "$defs is an object of schemas", "name each schema")
	}
	for it := defs.Iter(); it.Next(); {
		c.defs = append(c.defs, place{it.Value(), join(p.at, "$defs", string(it.Key()))})
	}
}

// elements compiles items. closes says that a closed schema must have them.
func (c *compiler) elements(n *node, p place, x site, closes bool, depth int) {
	v := p.v.Get("items")
	switch {
	case v.Kind() == crypto.Array:
		c.fail(join(p.at, "items"), "items is one schema for all elements", "use an object with named members")
	case v.Kind() != crypto.Missing:
		n.arrays().items = c.schema(place{v, join(p.at, "items")}, x.elements(), depth+1)
	case closes && n.types&TypeArray != 0 && has(p.v, "type"):
		c.fail(p.at, "an array without items may hold anything", "write items, or "+x.remedy())
	case closes && n.types&TypeArray != 0:
		c.fail(p.at, "without type it may be an array, of anything", "write its type, or "+x.remedy())
	}
}

func (n *node) arrays() *array {
	if n.array == nil {
		n.array = &array{max: unlimited}
	}
	return n.array
}

func (c *compiler) branches(p place, keyword string, x site, depth int) (nodes []*node) {
	v, at := p.v.Get(keyword), join(p.at, keyword)
	if v.Kind() == crypto.Missing || c.err != nil {
		return nil
	}
	if v.Kind() != crypto.Array || v.Len() == 0 {
		c.fail(at, keyword+" is a list of schemas", "write at least one")
	}
	for e := range v.Elements() {
		n := c.schema(place{e, join(at, strconv.Itoa(len(nodes)))}, x, depth+1)
		if c.err == nil && n.defaultAt != "" {
			c.fail(n.defaultAt, "no default is filled in below anyOf or oneOf",
				"remove it, or state it beside the "+keyword)
		}
		if c.err != nil {
			return nil
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// finish computes the properties of a node that depend on the nodes below it.
func (c *compiler) finish(n *node, p place) {
	n.narrow()
	// A generator that has no default to state writes null, whatever the type.
	if n.value.Kind() == crypto.Null && n.may&TypeNull == 0 && !(has(p.v, "type") && n.types&TypeNull != 0) {
		n.value = crypto.Value{}
	}
	n.size, n.height = 1, 0
	if n.object != nil {
		for _, m := range n.object.members {
			if m.required {
				n.size++
			}
		}
		for _, d := range n.object.dependent {
			n.size += len(d.needs)
		}
	}
	if n.value.Kind() != crypto.Missing {
		n.defaultAt = join(n.at, "default")
	}
	for child := range n.children {
		n.size = min(n.size+child.size, maxSchemas+1)
		n.height = max(n.height, child.height)
		if n.defaultAt == "" {
			n.defaultAt = child.defaultAt
		}
	}
	n.height++
	switch {
	case n.size > maxSchemas:
		c.fail(n.at, "with each $ref written out it has more than 10,000 schemas", "make it smaller")
	case n.height > maxNesting:
		c.fail(n.at, "with each $ref written out schemas are nested more than 64 deep", "flatten it")
	case n.value.Kind() != crypto.Missing: // it is checked even if it is never filled in
		itself := []*node{n}
		c.filledIn(n, c.filler(itself), itself)
	}
}

// children calls yield for the schemas written in a schema and the one that its $ref leads to.
func (n *node) children(yield func(*node) bool) {
	if n.object != nil {
		for _, m := range n.object.members {
			if m.schema != nil && !yield(m.schema) {
				return
			}
		}
		if n.object.rest != nil && !yield(n.object.rest) {
			return
		}
	}
	if n.array != nil && n.array.items != nil && !yield(n.array.items) {
		return
	}
	for _, group := range [...][]*node{n.all, n.anyOf, n.oneOf} {
		for _, s := range group {
			if !yield(s) {
				return
			}
		}
	}
}

// join appends segments to a JSON Pointer, RFC 6901.
func join(pointer string, segments ...string) string {
	for _, s := range segments {
		pointer += "/" + pointerEscapes.Replace(s)
	}
	return pointer
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

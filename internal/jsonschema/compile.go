package jsonschema

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

type compiler struct {
	doc      crypto.Value
	closed   bool
	nodes    map[key]*node // nil is one that is being compiled
	anything *node         // of a closed schema: whatever has no members
	defs     []place       // of $defs, which are read even if no $ref leads there
	patterns map[string]*pattern
	sets     map[string]*set // by pointer
	filled   int             // bytes that defaults filled in
	err      *Error          // the first one; whoever finds it set returns
}

// A place is where a schema stands in the document.
type place struct {
	v  crypto.Value
	at string
}

// key names a node: what a schema means depends on whether the schema around it closes the value already.
type key struct {
	at string
	in inside
}

func (c *compiler) fail(at, what, remedy string) {
	if c.err == nil {
		c.err = &Error{at, what, remedy}
	}
}

func (c *compiler) compile() *Schema {
	// An open schema leaves nothing to be closed but where it says so, which is as if all were closed already.
	outside := inside{!c.closed, !c.closed}
	root := c.schema(place{c.doc, ""}, outside, 1)
	for i := 0; i < len(c.defs) && c.err == nil; i++ {
		c.schema(c.defs[i], inside{true, true}, 1)
	}
	if c.err != nil {
		return nil
	}
	if c.closed {
		if root.types != TypeObject {
			c.fail("", "the arguments of a tool are an object", `write "type": "object" here`)
		}
		c.conflicts(root, nil)
	}
	return &Schema{root: root, filler: c.filler([]*node{root})}
}

// schema compiles the schema at a place, once for each sort of surroundings.
func (c *compiler) schema(p place, in inside, depth int) *node {
	n := c.nodes[key{p.at, in}]
	switch {
	case c.err != nil || n != nil:
		return n
	case depth > maxNesting:
		c.fail(p.at, "schemas are nested more than 64 deep", "flatten it")
	case p.v.Kind() == crypto.Bool:
		c.fail(p.at, "boolean schemas are not supported", "write {} for true; leave what is never allowed out")
	case p.v.Kind() != crypto.Object:
		c.fail(p.at, "a schema is an object", `write one, such as {"type": "string"}`)
	}
	if c.err != nil {
		return nil
	}
	c.nodes[key{p.at, in}] = nil
	n = &node{at: p.at, types: anyType}
	for it := p.v.Iter(); it.Next() && c.err == nil; {
		name := string(it.Key())
		c.keyword(n, name, it.Value(), join(p.at, name))
	}
	if c.err == nil {
		c.applicators(n, p, in, depth)
	}
	if c.err == nil {
		c.finish(n)
	}
	if c.err != nil {
		return nil
	}
	c.nodes[key{p.at, in}] = n
	return n
}

// applicators compiles the schemas in a schema, knowing which of them have to close the value.
func (c *compiler) applicators(n *node, p place, in inside, depth int) {
	self, in := c.closing(n, p.v, in)
	c.members(n, p, self.object, depth)
	c.elements(n, p, self.array, depth)
	if ref := p.v.Get("$ref"); ref.Kind() != crypto.Missing {
		at := join(p.at, "$ref")
		target, _ := c.resolve(ref, at)
		if n, seen := c.nodes[key{target.at, in}]; seen && n == nil {
			c.fail(at, "the $ref leads back to a schema that it is in", "write the levels out, as many as there may be")
		}
		n.all = []*node{c.schema(target, in, depth+1)}
	}
	n.anyOf = c.branches(p, "anyOf", in, depth)
	n.oneOf = c.branches(p, "oneOf", in, depth)
	c.holder(p)
}

func (c *compiler) branches(p place, keyword string, in inside, depth int) (nodes []*node) {
	v, at := p.v.Get(keyword), join(p.at, keyword)
	if v.Kind() == crypto.Missing || c.err != nil {
		return nil
	}
	if v.Kind() != crypto.Array || v.Len() == 0 {
		c.fail(at, keyword+" is a list of schemas", "write at least one")
	}
	for e := range v.Elements() {
		n := c.schema(place{e, join(at, strconv.Itoa(len(nodes)))}, in, depth+1)
		if c.err == nil && n.defaultAt != "" {
			c.fail(n.defaultAt, "no default is filled in below anyOf or oneOf", "remove it, or state it beside the "+keyword)
		}
		if c.err != nil {
			return nil
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// holder notes the schemas in $defs; they are read last, for one of them may lead to the schema that holds them.
func (c *compiler) holder(p place) {
	defs := p.v.Get("$defs")
	if k := defs.Kind(); k != crypto.Missing && k != crypto.Object {
		c.fail(join(p.at, "$defs"), "$defs is an object of schemas", "name each schema")
	}
	for it := defs.Iter(); it.Next(); {
		c.defs = append(c.defs, place{it.Value(), join(p.at, "$defs", string(it.Key()))})
	}
}

// finish works out what is known of a node once all below it are compiled.
func (c *compiler) finish(n *node) {
	n.narrow()
	n.size, n.height = 1, 0
	if n.object != nil {
		n.size += n.object.required()
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
	default:
		c.checkDefault(n)
	}
}

// children are the schemas written in a schema, and that which its $ref leads to.
func (n *node) children(yield func(*node) bool) {
	if n.object != nil {
		for _, m := range n.object.members {
			if m.schema != nil && !yield(m.schema) {
				return
			}
		}
	}
	if n.array != nil && n.array.items != nil && !n.array.implied && !yield(n.array.items) {
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

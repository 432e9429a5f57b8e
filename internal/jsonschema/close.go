package jsonschema

import "github.com/helmkernel/helm/crypto"

// inside says which parts of a value the schemas around a schema, for the same value, close
// already.
type inside struct {
	object bool // they determine the members
	array  bool // they determine the elements
}

// closing returns which parts of a value the schema v itself must close, and which parts are closed
// for the schemas in it.
func closing(n *node, v crypto.Value, x site) (self, below inside) {
	in := x.in
	if n.constant != nil || n.enum != nil {
		in = inside{true, true} // these keywords give the whole value
	}
	// A value that cannot be an object needs no closing as one.
	in.object = in.object || n.types&TypeObject == 0
	in.array = in.array || n.types&TypeArray == 0
	last := !has(v, "$ref") && !has(v, "anyOf") && !has(v, "oneOf") // no other schema can close the value
	self.object = has(v, "additionalProperties") || !x.isOpen() && has(v, "properties") || !in.object && last
	self.array = !has(v, "items") && !in.array && last
	return self, inside{in.object || self.object, in.array || self.array || has(v, "items")}
}

func has(v crypto.Value, keyword string) bool { return v.Get(keyword).Kind() != crypto.Missing }

// conflicts refuses, in a closed schema, members that a schema requires or describes and a schema
// around it does not have: no value could have them. around are the schemas around n for the same
// value.
func (c *compiler) conflicts(n *node, around []*node) {
	if n.open {
		return
	}
	if n.object != nil {
		for _, outer := range around {
			c.conflict(n, outer)
		}
	}
	around = append(around[:len(around):len(around)], n)
	for _, group := range [...][]*node{n.all, n.anyOf, n.oneOf} {
		for _, s := range group {
			c.conflicts(s, around)
		}
	}
	if n.object != nil {
		for _, m := range n.object.members {
			if m.schema != nil {
				c.conflicts(m.schema, nil)
			}
		}
		if n.object.rest != nil {
			c.conflicts(n.object.rest, nil)
		}
	}
	if n.array != nil && n.array.items != nil {
		c.conflicts(n.array.items, nil)
	}
}

func (c *compiler) conflict(n, outer *node) {
	const remedy = "each schema is closed by itself: state the same properties in both"
	if outer.object == nil || c.err != nil {
		return
	}
	for _, m := range n.object.members {
		if outer.object.closed && !outer.object.has(m.name) {
			c.fail(n.at, "it has "+label(m.name)+", which the schema around it, at "+label(outer.at)+", does not allow",
				remedy)
		}
	}
	for _, m := range outer.object.members {
		if m.required && n.object.closed && !n.object.has(m.name) {
			c.fail(n.at, "it lacks "+label(m.name)+", which the schema around it, at "+label(outer.at)+", requires",
				remedy)
		}
	}
}

package jsonschema

// Unbounded is the Depth of a schema that does not bound the depth.
const Unbounded = 1 << 30

// Depth returns a bound of the nesting of objects and arrays in values that the schema allows, the
// root being 1. It follows properties, additionalProperties, items, $ref, anyOf and oneOf. It does
// not look into const and enum.
func (s *Schema) Depth() int {
	if s == nil || s.root == nil {
		return 0
	}
	return make(depths).value(s.root)
}

// A container is a schema and one of the two types that nest.
type container struct {
	n *node
	t Types
}

// depths holds results, since many $ref may lead to the same schema.
type depths map[container]int

func (d depths) value(n *node) int {
	most := 0
	for _, t := range [...]Types{TypeObject, TypeArray} {
		if n.may&t != 0 {
			most = max(most, d.below(container{n, t}))
		}
	}
	return most
}

// below returns the least of the bounds that the schemas for the value set.
func (d depths) below(c container) int {
	least, ok := d[c]
	if ok {
		return least
	}
	least = d.own(c)
	for _, s := range c.n.all {
		least = min(least, d.below(container{s, c.t}))
	}
	for _, branches := range [...][]*node{c.n.anyOf, c.n.oneOf} {
		most := 0
		for _, s := range branches {
			if s.may&c.t != 0 {
				most = max(most, d.below(container{s, c.t}))
			}
		}
		if branches != nil {
			least = min(least, most)
		}
	}
	d[c] = least
	return least
}

func (d depths) own(c container) int {
	most := 0
	switch o, a := c.n.object, c.n.array; {
	case c.t == TypeObject && o != nil && (o.closed || o.rest != nil):
		if o.rest != nil {
			most = d.value(o.rest)
		}
		for _, m := range o.members {
			if m.schema != nil {
				most = max(most, d.value(m.schema))
			}
		}
	case c.t == TypeArray && a != nil && a.items != nil:
		most = d.value(a.items)
	default:
		return Unbounded
	}
	return min(1+most, Unbounded)
}

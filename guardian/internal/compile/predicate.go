package compile

import (
	"slices"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

const (
	maxDepth = 8
	maxKids  = 64
)

// predicate compiles p. If it returns false it has refused p.
func (c *compiler) predicate(p docValue, depth int, pol polarity) (program.Node, bool) {
	n, ok := c.unplaced(p, depth, pol)
	n.At = c.placed(p.at)
	return n, ok
}

func (c *compiler) unplaced(p docValue, depth int, pol polarity) (program.Node, bool) {
	if !p.isObject() {
		c.refuse(p.at, "is "+article(p.v.Kind())+", not a predicate", "write an object like {arg: /path, eq: x}")
		return program.Node{}, false
	}
	if depth > maxDepth {
		c.refuse(p.at, "nested more than 8 deep", "split the rule")
		return program.Node{}, false
	}
	if c.constants.steps != nil { // a grant means the same in every session in which it is presented
		for _, key := range [...]string{"session", "receipt", "fact", "from"} {
			if p.has(key) {
				c.refuse(p.get(key).at, key+" in a grant", "look at arg, caller and time alone")
				return program.Node{}, false
			}
		}
	}
	direct := c.in != nil && c.in.direct
	if c.in != nil {
		c.in.direct = false
	}
	for _, form := range []struct {
		key string
		op  program.Op
	}{
		{"all", program.OpAll}, {"any", program.OpAny}, {"not", program.OpNot},
		{"every", program.OpEvery}, {"some", program.OpSome}, {"count", program.OpCount},
	} {
		if !p.has(form.key) {
			continue
		}
		if form.op >= program.OpEvery {
			return c.quantifier(p, form.key, form.op, depth, pol)
		}
		if !c.object(p, []string{form.key}) {
			return program.Node{}, false
		}
		return c.combined(p.get(form.key), form.op, depth, pol)
	}
	switch {
	case p.has("receipt"):
		return c.receipt(p, depth, pol)
	case p.has("session"):
		return c.session(p)
	}
	return c.leaf(p, direct, pol)
}

func (c *compiler) combined(p docValue, o program.Op, depth int, pol polarity) (program.Node, bool) {
	n := program.Node{Op: o, Slot: program.NoSlot, Ref: program.NoSlot}
	kids := []docValue{p}
	if o == program.OpNot {
		pol = pol.flip()
	} else {
		var ok bool
		kids, ok = c.list(p, 1, maxKids)
		if !ok {
			return n, false
		}
	}
	whole := true
	for _, kid := range kids {
		k, ok := c.predicate(kid, depth+1, pol)
		n.Kids, whole = append(n.Kids, k), whole && ok
	}
	return n, whole
}

func (c *compiler) quantifier(p docValue, key string, o program.Op, depth int, pol polarity) (program.Node, bool) {
	n := program.Node{Op: o, Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed,
		More: &program.Operand{}}
	keys := []string{key, "that", "absent"}
	if o == program.OpCount {
		keys = append(keys, comparisons...)
	}
	if !c.strict(p, keys) {
		return n, false
	}
	over := p.get(key)
	if c.in != nil {
		c.refuse(over.at, "a quantifier inside another", "use * in the pointer")
		return n, false
	}
	segments, place, ok := c.pointer(over, nil, true)
	if !ok {
		return n, false
	}
	if !walkable(place) {
		c.refuse(over.at, "never an array or a map by the input of "+c.t.Name,
			"name one; "+key+" goes through its elements")
		return n, false
	}
	s := program.Subject{From: program.FromArgs, Pointer: value.JoinPointer(segments)}
	s.Path, s.As, n.More.Rest, n.More.Maps = c.walk(segments)
	n.Slot = c.slot(s)
	maybe := presenceOf(place)
	if o == program.OpCount {
		refMaybe, ok := c.counted(p, &n)
		if !ok {
			return n, false
		}
		if maybe != always && n.More.Rest != nil {
			what := "some of the arrays may be missing, and the others counted"
			c.refuse(over.at, what, "make them required in the schema")
			return n, false
		}
		maybe = max(maybe, refMaybe)
		pol = countPolarity(n.Num, pol)
	}
	n.Absent, ok = c.absent(p, maybe)
	if !ok {
		return n, false
	}
	that := p.get("that")
	if !that.exists() {
		if o != program.OpCount {
			c.refuse(p.at, key+" without that", "add that: {OPERATOR: …}")
		}
		return n, o == program.OpCount
	}
	c.in = &inside{element: append(slices.Clone(segments), value.Star), direct: true}
	kid, ok := c.predicate(that, depth+1, pol)
	n.Kids, n.More.Inner = []program.Node{kid}, c.in.subjects
	c.in = nil
	return n, ok
}

// countPolarity is the polarity of an element that counts: more of them make `gt` true, and `lt`
// false.
func countPolarity(o program.Op, pol polarity) polarity {
	switch o {
	case program.OpGt, program.OpGe:
		return pol
	case program.OpLt, program.OpLe:
		return pol.flip()
	}
	return relaxes | restricts
}

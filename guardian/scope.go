package guardian

import (
	"slices"

	"github.com/helmkernel/helm/guardian/internal/value"
)

var scopeTests = []string{"within", "url", "host", "email", "cidr", "in"}

// readScope reads where the destinations of a tool may lie. With stars, an entry is an `every`.
func (l *loader) readScope(p part, t *tool) {
	entries, ok := l.list(p, 1, maxKids)
	if !ok {
		return
	}
	c := compiler{l: l, t: t}
	for _, e := range entries {
		if n, ok := c.scope(e); ok {
			t.scope = append(t.scope, n)
		}
	}
	l.idle.report(l)
}

func (c *compiler) scope(p part) (node, bool) {
	n := node{slot: noSlot, ref: noSlot, absent: failed}
	before := len(c.l.errs)
	if !c.l.object(p, slices.Concat([]string{"arg", "absent"}, scopeTests), nil) || len(c.l.errs) > before {
		return n, false
	}
	arg, ok := c.l.need(p, "arg")
	if !ok {
		return n, false
	}
	name, ok := c.one(p, scopeTests, func() []string { return scopeTests })
	if !ok {
		return n, false
	}
	segments, place, ok := c.pointer(arg, nil, true)
	if !ok {
		return n, false
	}
	o := operatorNamed(name)
	n.op = o.op
	takes, _, ok := c.operand(p.get(name), o, &n)
	if !ok {
		return n, false
	}
	if place.Types&takes == 0 {
		c.l.refuse(p.get(name).at, name+" with this operand takes "+takes.String()+", and the value is "+place.Types.String()+" in a call of "+c.t.name, "correct the pointer or the test")
		return n, false
	}
	if n.absent, ok = c.absent(p, gapOf(place)); !ok {
		return n, false
	}
	switch name {
	case "within", "url", "host", "email":
		c.t.declared = append(c.t.declared, segments)
	}
	pointer := value.JoinPointer(segments)
	last := -1
	for i, seg := range segments {
		if seg == value.Star {
			last = i
		}
	}
	if last < 0 {
		n.slot = c.slot(subject{from: fromArgs, as: o.as, path: segments, pointer: pointer})
		return n, true
	}
	// Everything that is missing on the way answers as the entry does.
	arrays, first := segments[:last], slices.Index(segments, value.Star)
	every := node{op: opEvery, slot: noSlot, ref: noSlot, absent: n.absent, more: &operand{}}
	c.in = &inside{element: segments[:last+1]}
	n.slot = c.slot(subject{from: fromElement, as: o.as, path: segments[last+1:], pointer: pointer})
	every.kids, every.more.inner, every.more.rest = []node{n}, c.in.subjects, arrays[first:]
	c.in = nil
	every.slot = c.slot(subject{from: fromArgs, as: asElement, path: segments[:first], pointer: value.JoinPointer(arrays)})
	return every, true
}

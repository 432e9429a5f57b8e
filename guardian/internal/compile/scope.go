package compile

import (
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

// scope compiles an entry of scope. With stars in its pointer it is an `every`.
func (c *compiler) scope(p docValue) (program.Node, bool) {
	n := program.Node{Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed}
	if !c.strict(p, grammar.Scope) {
		return n, false
	}
	arg, ok := c.need(p, "arg")
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
	n.Op = o.op
	takes, _, ok := c.operand(p.get(name), o, &n)
	if !ok {
		return n, false
	}
	if place.Types&takes == 0 {
		c.refuse(p.get(name).at, c.mismatch(name, takes, program.Subject{}, place), "correct the pointer or the test")
		return n, false
	}
	n.Absent, ok = c.absent(p, presenceOf(place))
	if !ok {
		return n, false
	}
	switch name {
	case "within", "url", "host", "email":
		c.t.Declared = append(c.t.Declared, segments)
	}
	pointer := value.JoinPointer(segments)
	last := -1
	for i, seg := range segments {
		if seg == value.Star {
			last = i
		}
	}
	if last < 0 {
		n.Slot = c.slot(program.Subject{From: program.FromArgs, As: o.as, Path: segments, Pointer: pointer})
		return n, true
	}
	// Everything that is missing on the way answers as the entry does.
	arrays := segments[:last]
	every := program.Node{
		Op: program.OpEvery, Slot: program.NoSlot, Ref: program.NoSlot, Absent: n.Absent, More: &program.Operand{},
	}
	c.in = &inside{element: segments[:last+1]}
	n.Slot = c.slot(program.Subject{
		From: program.FromElement, As: o.as, Path: segments[last+1:], Pointer: pointer,
	})
	every.Kids, every.More.Inner = []program.Node{n}, c.in.subjects
	c.in = nil
	s := program.Subject{From: program.FromArgs, Pointer: value.JoinPointer(arrays)}
	s.Path, s.As, every.More.Rest, every.More.Maps = c.walk(arrays)
	every.Slot = c.slot(s)
	return every, true
}

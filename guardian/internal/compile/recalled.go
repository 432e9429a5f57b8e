package compile

import (
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A recalled is the receipt whose `that` is being compiled.
type recalled struct {
	tool     *program.Tool
	unread   bool // something in its declaration was refused
	subjects []program.Subject
}

// slot returns the slot of a fact.
func (x *recalled) slot(s program.Subject) int32 {
	for i := range x.subjects {
		if y := &x.subjects[i]; y.As == s.As && y.Pointer == s.Pointer {
			return program.FactSlot(i)
		}
	}
	x.subjects = append(x.subjects, s)
	return program.FactSlot(len(x.subjects) - 1)
}

// fact reads the name of a fact of the receipt.
func (c *view) fact(p docValue) *program.Fact {
	if c.of == nil {
		c.refuse(p.at, "fact outside of that of a receipt", "write it there")
		return nil
	}
	name, ok := c.text(p)
	if !ok {
		return nil
	}
	f := c.factNamed(p, c.of.tool, name, c.of.unread)
	if f == nil || f.Types == 0 { // refused
		return nil
	}
	return f
}

// factSubject reads a fact that has at most one value.
func (c *view) factSubject(p docValue) (s program.Subject, place jsonschema.Place, ok bool) {
	f := c.fact(p)
	if f == nil {
		return s, place, false
	}
	if f.Many {
		remedy := "use {arg: PTR, in: {fact: " + f.Name + "}}, or declare {count: PTR}"
		c.refuse(p.at, f.Name+" has many values", remedy)
		return s, place, false
	}
	s = program.Subject{From: program.FromFact, Path: []string{f.Name}, Pointer: f.Key}
	return s, jsonschema.Place{Types: f.Types, Optional: f.Lacking}, true
}

// factSet reads {fact: NAME}, all values of a fact, as the operand of in or not_in.
func (c *view) factSet(p docValue, o operator, n *program.Node) (takes jsonschema.Types, ok bool) {
	if !c.strict(p, []string{factKey}) {
		return 0, false
	}
	f := c.fact(p.get(factKey))
	if f == nil {
		return 0, false
	}
	takes = sameKinds(f.Types) & o.takes
	if n.Fold {
		takes &= textual
	}
	switch {
	case !f.Many:
		c.refuse(p.get(factKey).at, f.Name+" has one value", "use eq")
		return 0, false
	case takes == 0:
		c.refuse(p.at, "the fact is "+f.Types.String(), o.name+" takes "+o.takes.String())
		return 0, false
	}
	s := program.Subject{From: program.FromFact, As: program.AsSet, Path: []string{f.Name}, Pointer: f.Key}
	if n.Fold {
		s.As = program.AsFoldedSet
	}
	n.Ref, n.More = c.of.slot(s), &program.Operand{Kinds: kindsOf(takes)}
	return takes, true
}

package compile

import (
	"slices"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// leaf compiles one operator on one subject. direct: the predicate is the `that` of a quantifier.
func (c *compiler) leaf(p docValue, direct bool, pol polarity) (program.Node, bool) {
	n := program.Node{Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed}
	offer := func() []string { return c.offer(p, direct) }
	keys := leafKeys
	if c.mistaken(p) {
		keys = predicateKeys
	}
	if !c.only(p, keys, leafLater, func(key string) string { return suggest(key, leafKeys, offer()) }) {
		return n, false
	}
	name, ok := c.one(p, operatorNames, offer)
	if !ok {
		return n, false
	}
	o := operatorNamed(name)
	n.Op = o.op
	s, place, ok := c.subject(p, direct, name)
	if !ok {
		return n, false
	}
	if o.op != program.OpExists && o.op != program.OpType && !c.described(p, place) {
		return n, false
	}
	n.Fold, ok = c.fold(p, o)
	if !ok {
		return n, false
	}
	x := p.get(name)
	if p.has("time") {
		if n.Fold {
			c.refuse(p.get("fold").at, "a time has no letters to fold", "remove fold")
			return n, false
		}
		week, ok := c.constants.windows(x)
		n.Op, n.More = program.OpTime, &program.Operand{Week: week}
		return n, c.neverAbsent(p) && ok
	}
	if o.op == program.OpHas {
		role, ok := c.text(x)
		n.Text = []byte(role)
		return n, c.neverAbsent(p) && ok
	}
	takes, maybe, ok := c.operand(x, o, &n)
	if !ok {
		return n, false
	}
	if place.Types&takes == 0 {
		c.refuse(x.at, c.mismatch(name, takes, place), "use an operator and operand for it")
		return n, false
	}
	if !c.permitted(x, name, s, pol) {
		return n, false
	}
	maybe = max(maybe, presenceOf(place))
	if o.op == program.OpExists {
		c.idle.note(x.at, maybe == open, "the value is never missing or null in a call of "+c.t.Name, "remove the test")
		maybe = always
	}
	s.As = o.as
	n.Slot = c.slot(s)
	n.Absent, ok = c.absent(p, maybe)
	return n, ok
}

// mistaken reports whether a predicate has a key that none has. It may be why another key, which is
// one of another form, stands next to the wrong ones.
func (c *compiler) mistaken(p docValue) bool {
	for it := p.v.Iter(); it.Next(); {
		if key := string(it.Key()); !slices.Contains(predicateKeys, key) && !slices.Contains(leafLater, key) {
			return true
		}
	}
	return false
}

// offer lists what may stand in a predicate that is not complete: the operators of its subject or,
// if it has none, all that a predicate can start with.
func (c *compiler) offer(p docValue, direct bool) []string {
	operators := slices.Clone(operatorNames)
	operators = slices.DeleteFunc(operators, func(name string) bool { return name == "has" }) // it is for roles
	switch {
	case p.has("caller"):
		return append(slices.Clone(callerTests), "has")
	case p.has("time"):
		return []string{"in"}
	case p.has("arg"), p.has("item"):
		return operators
	case direct:
		return slices.Concat(operators, combinators, subjectKeys)
	case c.in != nil:
		return slices.Concat(combinators, subjectKeys)
	}
	return slices.Concat(combinators, quantifiers, []string{"arg", "caller", "session", "time", "receipt"})
}

// operand reads what a value is tested against into n. It returns the types that the value may then
// have, and whether the operand may be missing when a call is judged.
func (c *compiler) operand(p docValue, o operator, n *program.Node) (takes jsonschema.Types, maybe presence, ok bool) {
	if !p.isObject() || o.op != program.OpEq && o.op != program.OpNe && o.as != program.AsNumber {
		takes, ok = c.constants.read(p, o, n)
		return takes, always, ok
	}
	place, ok := c.reference(p, o.as, n)
	takes = o.takes & place.Types
	if n.Fold {
		takes &= textual
	}
	if ok && takes == 0 {
		what := "the value that it refers to is " + place.Types.String() + " in a call of " + c.t.Name
		c.refuse(p.at, what, o.name+" takes "+o.takes.String())
		ok = false
	}
	return takes, presenceOf(place), ok
}

// mismatch says that an operator does not take the values at a place.
func (c *compiler) mismatch(name string, takes jsonschema.Types, place jsonschema.Place) string {
	return name + " with this operand takes " + takes.String() +
		", and the value is " + place.Types.String() + " in a call of " + c.t.Name
}

func (c *compiler) fold(p docValue, o operator) (fold, ok bool) {
	x := p.get("fold")
	if !x.exists() {
		return false, true
	}
	if !o.folds || !x.v.Bool() {
		what := "fold: true is for eq, ne, in, not_in, prefix and suffix; there is no other fold"
		c.refuse(x.at, what, "remove fold")
		return false, false
	}
	return true, true
}

// neverAbsent refuses absent if the subject is always there.
func (c *compiler) neverAbsent(p docValue) bool {
	x := p.get("absent")
	if x.exists() {
		c.refuse(x.at, "the subject is never missing", "remove absent")
	}
	return !x.exists()
}

// permitted refuses operators in the places in which they are the classic way round a rule.
func (c *compiler) permitted(x docValue, name string, s program.Subject, pol polarity) bool {
	switch name {
	case "finds":
		if pol&relaxes != 0 {
			what := "finds where a true answer permits more: any text around what it finds would do"
			c.refuse(x.at, what, "use regex, which matches the whole string")
			return false
		}
	case "prefix", "suffix":
		if s.From == program.FromID || s.From == program.FromTenant {
			return true
		}
		full := s.Path
		if s.From == program.FromElement {
			full = append(slices.Clone(c.in.element), s.Path...)
		}
		for _, d := range c.t.Declared {
			if value.Overlap(d, full) {
				what := name + " on what scope declares as a path, URL, host or address"
				c.refuse(x.at, what, "use within, url, host or email: "+name+" would take /data-evil for /data")
				return false
			}
		}
	}
	return true
}

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
	if !c.only(p, keys, func(key string) string { return suggest(key, leafKeys, offer()) }) {
		return n, false
	}
	name, ok := c.one(p, operatorNames, offer)
	if !ok {
		return n, false
	}
	o := operatorNamed(name)
	n.Op = o.op
	if o.op == program.OpFrom && !c.askable(p, pol) {
		return n, false
	}
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
		n.Text = role
		return n, c.neverAbsent(p) && ok
	}
	takes, maybe, ok := c.operand(x, o, &n)
	if !ok {
		return n, false
	}
	if place.Types&takes == 0 {
		c.refuse(x.at, c.mismatch(name, takes, s, place), "use an operator and operand for it")
		return n, false
	}
	if o.op == program.OpFrom {
		n.More = &program.Operand{}
		n.More.Sources, n.More.Kinds, ok = c.catalog.sources(x, c.t, place.Types)
		if !ok {
			return n, false
		}
	}
	if !c.permitted(x, name, s, pol) {
		return n, false
	}
	maybe = max(maybe, presenceOf(place))
	if o.op == program.OpExists {
		c.idle.note(x.at, maybe == open, "the value is never missing or null in "+c.where(p), "remove the test")
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
		if key := string(it.Key()); !slices.Contains(predicateKeys, key) {
			return true
		}
	}
	return false
}

// offer lists what may stand in a predicate that is not complete: the operators of its subject or,
// if it has none, all that a predicate can start with.
func (c *compiler) offer(p docValue, direct bool) []string {
	lacking := []string{"has"} // it is for roles and labels
	if c.of != nil || p.has(factKey) {
		lacking = append(lacking, "from")
	}
	operators := slices.Clone(operatorNames)
	operators = slices.DeleteFunc(operators, func(name string) bool { return slices.Contains(lacking, name) })
	var fact []string
	if c.of != nil {
		fact = []string{factKey}
	}
	switch {
	case p.has("caller"):
		return append(slices.Clone(callerTests), "has")
	case p.has("time"):
		return []string{"in"}
	case p.has("arg"), p.has("item"), p.has(factKey):
		return operators
	case direct:
		return slices.Concat(operators, combinators, subjectKeys, fact)
	case c.in != nil:
		return slices.Concat(combinators, subjectKeys, fact)
	case c.of != nil:
		return slices.Concat(combinators, quantifiers, []string{"arg", factKey, "caller", "session", "time"})
	}
	return slices.Concat(combinators, quantifiers, []string{"arg", "caller", "session", "time", "receipt"})
}

// operand reads what a value is tested against into n. It returns the types that the value may then
// have, and whether the operand may be missing when a call is judged.
func (c *compiler) operand(p docValue, o operator, n *program.Node) (takes jsonschema.Types, maybe presence, ok bool) {
	switch {
	case o.op == program.OpFrom: // sources are not the same for every tool
		return o.takes, always, true
	case (o.op == program.OpIn || o.op == program.OpNotIn) && p.has(factKey):
		takes, ok = c.factSet(p, o, n)
		return takes, always, ok
	case !p.isObject() || o.op != program.OpEq && o.op != program.OpNe && o.as != program.AsNumber:
		takes, ok = c.constants.read(p, o, n)
		return takes, always, ok
	}
	place, ok := c.reference(p, o.as, n)
	takes = o.takes & sameKinds(place.Types)
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
func (c *compiler) mismatch(name string, takes jsonschema.Types, s program.Subject, place jsonschema.Place) string {
	is := ", and the value is " + place.Types.String() + " in a call of " + c.t.Name
	if s.From == program.FromFact {
		is = ", and the fact is " + place.Types.String()
	}
	return name + " with this operand takes " + takes.String() + is
}

// askable refuses from in the places in which it says nothing. It is for values that were supplied,
// and its true answer must not restrict: who writes a value can always keep it from being found.
func (c *compiler) askable(p docValue, pol polarity) bool {
	at := p.get("from").at
	switch {
	case p.has("fold"):
		c.refuse(p.get("fold").at, "from takes no fold: values are compared byte by byte", "remove fold")
	case p.has("caller"), p.has("time"), p.has(factKey):
		c.refuse(at, "from is for arg and item", "ask it of a value of the call")
	case c.of != nil:
		c.refuse(at, "from inside that of a receipt", "write it beside the receipt, with all or any")
	case pol&restricts != 0:
		c.refuse(at, "from where a true answer restricts: a value can always be written so that it is not found",
			"use it in allow … when, deny … unless, requires … unless or budgets … unless")
	default:
		return true
	}
	return false
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
		if s.From != program.FromArgs && s.From != program.FromElement {
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

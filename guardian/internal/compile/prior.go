package compile

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// receipt compiles {receipt: TOOL, same, max_age, that}: the latest EXECUTED receipt of the tool in
// the session, if there is one, and what its facts are.
func (c *compiler) receipt(p docValue, depth int, pol polarity) (program.Node, bool) {
	n := program.Node{
		Op: program.OpReceipt, Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed,
		More: &program.Operand{Prior: &program.Prior{}},
	}
	if !c.strict(p, grammar.Receipt) {
		return n, false
	}
	if c.in != nil || c.of != nil {
		inside := "every, some or count"
		if c.in == nil {
			inside = "that of another"
		}
		c.refuse(p.get("receipt").at, "a receipt inside "+inside, "write it beside them, with all or any")
		return n, false
	}
	earlier, ok := c.earlier(p.get("receipt"))
	if !ok {
		return n, false
	}
	n.More.Prior.Tool = earlier.Name
	if age := p.get("max_age"); age.exists() {
		ok = c.duration(age, &n.More.Age)
	}
	if same := p.get("same"); same.exists() {
		n.More.Prior.Same, ok = c.equals(same, earlier, ok)
	}
	if that := p.get("that"); that.exists() {
		c.of = &recalled{tool: earlier, unread: c.catalog.unread(earlier)}
		kid, whole := c.predicate(that, depth+1, pol)
		n.Kids, n.More.Facts, ok = []program.Node{kid}, c.of.subjects, ok && whole
		c.of = nil
	}
	return n, ok
}

// session compiles a predicate over the session.
func (c *compiler) session(p docValue) (program.Node, bool) {
	subject := p.get("session")
	switch word, _ := c.oneOf(subject, grammar.Sessions...); word {
	case "calls":
		return c.calls(p)
	case "labels":
		n := program.Node{Op: program.OpLabel, Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed}
		label := p.get("has")
		if !label.exists() {
			c.refuse(subject.at, "session: labels takes has", "write has: LABEL")
			return n, false
		}
		if !c.strict(p, []string{"session", "has", "absent"}) || !c.neverAbsent(p) {
			return n, false
		}
		name, ok := c.text(label)
		n.Text = name
		return n, ok && c.catalog.declared(label)
	case "tainted":
		n := program.Node{Op: program.OpTainted, Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed}
		is := p.get("eq")
		if is.v.Kind() != crypto.Bool {
			c.refuse(subject.at, "session: tainted takes eq: true or eq: false", "write one of them")
			return n, false
		}
		n.Flag = is.v.Bool()
		return n, c.strict(p, []string{"session", "eq", "absent"}) && c.neverAbsent(p)
	}
	return program.Node{}, false
}

// calls compiles {session: calls, of: TOOL}: how many calls of the session were allowed so far.
func (c *compiler) calls(p docValue) (program.Node, bool) {
	n := program.Node{
		Op: program.OpCalls, Slot: program.NoSlot, Ref: program.NoSlot, Absent: program.Failed,
		More: &program.Operand{Prior: &program.Prior{}},
	}
	if !c.strict(p, slices.Concat([]string{"session", "of"}, comparisons, []string{"absent"})) {
		return n, false
	}
	maybe, ok := c.counted(p, &n)
	if !ok {
		return n, false
	}
	if of := p.get("of"); of.exists() {
		t, ok := c.earlier(of)
		if !ok {
			return n, false
		}
		n.More.Prior.Tool = t.Name
	}
	n.Absent, ok = c.absent(p, maybe)
	return n, ok
}

// earlier reads the name of a tool whose calls in the session are asked for. The document must be
// able to speak of it.
func (c *compiler) earlier(p docValue) (*program.Tool, bool) {
	name, ok := c.text(p)
	if !ok {
		return nil, false
	}
	tools := c.catalog.named(p, name)
	if tools == nil {
		return nil, false
	}
	return tools[0], true
}

// equals reads the pointers of same: a list if they are the same in both calls, else an object from
// those of the earlier call to those of the present one.
func (c *compiler) equals(p docValue, earlier *program.Tool, ok bool) ([]program.Equal, bool) {
	var all []program.Equal
	before := c.refused
	add := func(there string, here docValue) {
		segments, place, found := c.required(here)
		ok = found && c.agrees(there, here.at, earlier, place) && ok
		all = append(all, program.Equal{There: there, Name: crypto.AppendString(nil, there), Here: segments})
	}
	if p.isObject() {
		c.members(p, add)
	} else {
		for _, e := range c.distinct(p, 1) {
			add(e.v.Text(), e)
		}
	}
	ok = ok && c.refused == before
	if n := len(all); ok && (n == 0 || n > maxKids) {
		c.refuse(p.at, strconv.Itoa(n)+" pointers", "write 1 to "+strconv.Itoa(maxKids)+", or remove same")
		return nil, false
	}
	byName := func(x program.Equal) string { return x.There }
	all, ok = inCanonicalOrder(all, byName), ok && len(all) > 0
	if !ok {
		return all, false
	}
	pointers := make([]string, len(all)) // by which later calls are compared with those of the tool
	for i := range all {
		pointers[i] = all[i].There
	}
	earlier = c.catalog.draft(earlier)
	if !slices.ContainsFunc(earlier.Compared, func(x []string) bool { return slices.Equal(x, pointers) }) {
		earlier.Compared = append(earlier.Compared, pointers)
	}
	return all, true
}

// agrees reports whether the earlier call can have the same value there as the present one has
// here.
func (c *compiler) agrees(there, at string, earlier *program.Tool, here jsonschema.Place) bool {
	segments, ok := value.SplitPointer(there)
	if !ok || slices.Contains(segments, value.Star) {
		what := quote(there) + " is no JSON Pointer to one value"
		c.refuse(at, what, "write it like /path, with ~0 for ~ and ~1 for /")
		return false
	}
	if earlier.Input == nil {
		return false // refused already
	}
	place, ok := earlier.Input.Lookup(segments)
	switch {
	case place.Open:
		c.refuse(at, quote(there)+" is open in the input of "+earlier.Name+", or below what is",
			"compare what the schema describes")
		return false
	case !ok:
		c.refuse(at, "no "+quote(there)+" in the input of "+earlier.Name, "name what the schema declares")
		return false
	}
	if sameKinds(place.Types)&sameKinds(here.Types) == 0 {
		what := "the value is " + place.Types.String() + " in a call of " + earlier.Name +
			", and " + here.Types.String() + " in one of " + c.t.Name
		c.refuse(at, what, "compare values that can be equal")
		return false
	}
	return true
}

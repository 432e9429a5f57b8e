package guardian

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A prior is what a receipt predicate, or one over calls, asks of the session's past.
type prior struct {
	of   *tool   // nil: every tool
	same []equal // in the canonical order of their names
}

// An equal is a value that two calls must have in common.
type equal struct {
	there string   // pointer into the arguments of the earlier call
	name  []byte   // its canonical text
	here  []string // where it is in the present one
}

// receipt compiles {receipt: TOOL, same, max_age}: the latest EXECUTED receipt of the tool in the session, if there is one.
func (c *compiler) receipt(p part) (node, bool) {
	n := node{op: opReceipt, slot: noSlot, ref: noSlot, absent: failed, more: &operand{prior: &prior{}}}
	if before := len(c.l.errs); !c.l.object(p, []string{"receipt", "same", "max_age"}, []string{"that"}) || len(c.l.errs) > before {
		return n, false
	}
	if c.in != nil {
		c.l.refuse(p.get("receipt").at, "a receipt inside every, some or count", "write it beside them, with all or any")
		return n, false
	}
	earlier, ok := c.earlier(p.get("receipt"))
	if !ok {
		return n, false
	}
	n.more.prior.of = earlier
	if age := p.get("max_age"); age.there() {
		before := len(c.l.errs)
		c.l.duration(age, &n.more.age)
		ok = len(c.l.errs) == before
	}
	if same := p.get("same"); same.there() {
		n.more.prior.same, ok = c.equals(same, earlier, ok)
	}
	return n, ok
}

// earlier is a tool whose calls in the session are asked for: one that the document can speak of.
func (c *compiler) earlier(p part) (*tool, bool) {
	name, ok := c.l.text(p)
	if !ok {
		return nil, false
	}
	tools := c.l.named(p, name)
	if tools == nil {
		return nil, false
	}
	return tools[0], true
}

// equals reads the pointers of same: a list where they are the same in both calls, else an object, from those of the earlier call to
// those of the present one.
func (c *compiler) equals(p part, earlier *tool, ok bool) ([]equal, bool) {
	var all []equal
	give := func(there string, here part) {
		segments, place, found := c.surely(here)
		ok = found && c.agrees(there, here.at, earlier, place) && ok
		all = append(all, equal{there, crypto.AppendString(nil, there), segments})
	}
	if p.v.Kind() == crypto.Object {
		c.l.members(p, give)
	} else {
		for _, e := range c.l.distinct(p, 1) {
			give(e.v.Text(), e)
		}
	}
	if n := len(all); ok && (n == 0 || n > maxKids) {
		c.l.refuse(p.at, strconv.Itoa(n)+" pointers", "write 1 to "+strconv.Itoa(maxKids)+", or remove same")
		return nil, false
	}
	all, ok = inCanonicalOrder(all), ok && len(all) > 0
	if ok {
		earlier.compare(all)
	}
	return all, ok
}

// compare notes that later calls will be compared with those of the tool.
func (t *tool) compare(same []equal) {
	pointers := make([]string, len(same))
	for i := range same {
		pointers[i] = same[i].there
	}
	if !slices.ContainsFunc(t.compared, func(x []string) bool { return slices.Equal(x, pointers) }) {
		t.compared = append(t.compared, pointers)
	}
}

// Compared returns, for each way in which the policy compares later calls with those of the tool, the
// JSON Pointers to the values in its arguments that must be the same: see [past.Session.Watch].
func (p *Policy) Compared(tool string) [][]string {
	t := p.tool(tool)
	if t == nil || len(t.compared) == 0 {
		return nil
	}
	list := make([][]string, len(t.compared))
	for i, pointers := range t.compared {
		list[i] = slices.Clone(pointers)
	}
	return list
}

// agrees tells whether the earlier call can have a value there that the present one has here.
func (c *compiler) agrees(there, at string, earlier *tool, here jsonschema.Place) bool {
	segments, ok := value.SplitPointer(there)
	if !ok || slices.Contains(segments, value.Star) {
		c.l.refuse(at, quote(there)+" is no JSON Pointer to one value", "write it like /path, with ~0 for ~ and ~1 for /")
		return false
	}
	if earlier.input == nil {
		return false // refused already
	}
	place, ok := earlier.input.Lookup(segments)
	if !ok {
		c.l.refuse(at, "no "+quote(there)+" in the input of "+earlier.name, "name what the schema declares")
		return false
	}
	kinds := func(t jsonschema.Types) jsonschema.Types {
		if t&numeric != 0 {
			return t | numeric
		}
		return t
	}
	if kinds(place.Types)&kinds(here.Types) == 0 {
		c.l.refuse(at, "the value is "+place.Types.String()+" in a call of "+earlier.name+", and "+here.Types.String()+" in one of "+c.t.name, "compare values that can be equal")
		return false
	}
	return true
}

// inCanonicalOrder sorts members as RFC 8785 does.
func inCanonicalOrder(all []equal) []equal {
	var tree crypto.Tree
	b := []byte{'{'}
	for _, x := range all {
		b = append(append(b, x.name...), ":0,"...)
	}
	if len(all) < 2 || tree.Parse(append(b[:len(b)-1], '}'), crypto.Limits{Bytes: len(b), Depth: 1, Object: true}) != nil {
		return all
	}
	sorted := make([]equal, 0, len(all))
	root := tree.Root()
	for it := root.Iter(); it.Next(); {
		at := slices.IndexFunc(all, func(x equal) bool { return x.there == string(it.Key()) })
		sorted = append(sorted, all[at])
	}
	return sorted
}

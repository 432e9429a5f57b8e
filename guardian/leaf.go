package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// leaf compiles one operator on one subject. direct: the predicate is the `that` of a quantifier.
func (c *compiler) leaf(p part, direct bool, pol polarity) (node, bool) {
	n := node{slot: noSlot, ref: noSlot, absent: failed}
	offer := func() []string { return c.offer(p, direct) }
	if !c.l.only(p, leafKeys, leafLater, func(key string) string { return suggest(key, leafKeys, offer()) }) {
		return n, false
	}
	name, ok := c.one(p, operatorNames, offer)
	if !ok {
		return n, false
	}
	o := operatorNamed(name)
	n.op = o.op
	s, place, ok := c.subject(p, direct, name)
	if !ok {
		return n, false
	}
	if n.fold, ok = c.fold(p, o); !ok {
		return n, false
	}
	x := p.get(name)
	if p.has("time") {
		return c.windows(p, x, n)
	}
	if o.op == opHas {
		role, ok := c.l.text(x)
		n.text = []byte(role)
		return c.never(p, n, ok)
	}
	takes, maybe, ok := c.operand(x, o, &n)
	if !ok {
		return n, false
	}
	if place.Types&takes == 0 {
		c.l.refuse(x.at, name+" with this operand takes "+takes.String()+", and the value is "+place.Types.String()+" in a call of "+c.t.name, "use an operator and operand for it")
		return n, false
	}
	if !c.permitted(x, name, s, pol) {
		return n, false
	}
	maybe = max(maybe, gapOf(place))
	if o.op == opExists {
		c.l.idle.note(x.at, maybe == open, "the value is never missing or null in a call of "+c.t.name, "remove the test")
		maybe = never
	}
	s.as = o.as
	n.slot = c.slot(s)
	n.absent, ok = c.absent(p, maybe)
	return n, ok
}

// subject reads what is tested, and what values it may have.
func (c *compiler) subject(p part, direct bool, operator string) (subject, jsonschema.Place, bool) {
	var s subject
	var found []string
	for _, key := range subjectKeys {
		if p.has(key) {
			found = append(found, key)
		}
	}
	if len(found) > 1 {
		c.l.refuse(p.get(found[1]).at, "two subjects in one predicate: "+strings.Join(found, ", "), "combine two predicates with all")
		return s, jsonschema.Place{}, false
	}
	key := ""
	if len(found) == 1 {
		key = found[0]
	}
	switch {
	case key == "caller":
		return c.callerSubject(p.get(key), operator)
	case operator == "has":
		c.l.refuse(p.get("has").at, "has is for roles", "write caller: roles")
		return s, jsonschema.Place{}, false
	case key == "time":
		_, ok := c.l.oneOf(p.get(key), "utc")
		if ok && operator != "in" {
			c.l.refuse(p.get(operator).at, "time: utc takes in alone", `write in: ["Mon-Fri 08:00-18:00"]`)
			ok = false
		}
		return s, jsonschema.Place{}, ok
	case key == "arg":
		segments, place, ok := c.pointer(p.get(key), nil, false)
		return subject{from: fromArgs, path: segments, pointer: value.JoinPointer(segments)}, place, ok
	case c.in == nil && key == "item":
		c.l.refuse(p.get(key).at, "item outside of every, some and count", "write arg: /path")
		return s, jsonschema.Place{}, false
	case key == "item":
		segments, place, ok := c.pointer(p.get(key), c.in.element, false)
		pointer := value.JoinPointer(append(slices.Clone(c.in.element), segments...))
		return subject{from: fromElement, path: segments, pointer: pointer}, place, ok
	case direct:
		place, ok := c.t.input.LookupBelow(c.in.element, nil)
		return subject{from: fromElement, pointer: value.JoinPointer(c.in.element)}, place, ok
	case c.in != nil:
		c.l.refuse(p.at, "no subject", `write item: "" for the element itself, or item: /path below it`)
	default:
		c.l.refuse(p.at, "no subject", "write one of "+strings.Join(subjectKeys, ", "))
	}
	return s, jsonschema.Place{}, false
}

func (c *compiler) callerSubject(p part, operator string) (subject, jsonschema.Place, bool) {
	word, ok := c.l.oneOf(p, "id", "tenant", "roles")
	tests := callerTests
	if word == "roles" {
		tests = []string{"has"}
	}
	if ok && !slices.Contains(tests, operator) {
		c.l.refuse(p.at, "caller: "+word+" does not take "+operator, "use one of "+strings.Join(tests, ", "))
		ok = false
	}
	s := subject{from: fromID, pointer: "caller " + word}
	if word == "tenant" {
		s.from = fromTenant
	}
	return s, jsonschema.Place{Types: textual, Optional: true}, ok
}

func (c *compiler) fold(p part, o operator) (bool, bool) {
	x := p.get("fold")
	if !x.there() {
		return false, true
	}
	if !o.folds || !x.v.Bool() {
		c.l.refuse(x.at, "fold: true is for eq, ne, in, not_in, prefix and suffix; there is no other fold", "remove fold")
		return false, false
	}
	return true, true
}

// windows compiles a test of the time.
func (c *compiler) windows(p, x part, n node) (node, bool) {
	if n.fold {
		c.l.refuse(p.get("fold").at, "a time has no letters to fold", "remove fold")
		return n, false
	}
	n.op, n.more = opTime, &operand{week: new(value.Week)}
	list, ok := c.l.strings(x)
	for _, e := range list {
		if s := e.v.Text(); !n.more.week.Add(s) {
			c.l.refuse(e.at, quote(s)+" is no window", `write it like "Mon-Fri 08:00-18:00", within one day`)
			ok = false
		}
	}
	return c.never(p, n, ok)
}

// never is for subjects that are always there.
func (c *compiler) never(p part, n node, ok bool) (node, bool) {
	if x := p.get("absent"); x.there() {
		c.l.refuse(x.at, "the subject is never missing", "remove absent")
		ok = false
	}
	return n, ok
}

// permitted refuses operators where they are the classic way round a rule.
func (c *compiler) permitted(x part, name string, s subject, pol polarity) bool {
	switch name {
	case "finds":
		if pol&relaxes != 0 {
			c.l.refuse(x.at, "finds where a true answer permits more: any text around what it finds would do", "use regex, which matches the whole string")
			return false
		}
	case "prefix", "suffix":
		if s.from == fromID || s.from == fromTenant {
			return true
		}
		full := s.path
		if s.from == fromElement {
			full = append(slices.Clone(c.in.element), s.path...)
		}
		for _, d := range c.t.declared {
			if value.Overlap(d, full) {
				c.l.refuse(x.at, name+" on what scope declares as a path, URL, host or address", "use within, url, host or email: "+name+" would take /data-evil for /data")
				return false
			}
		}
	}
	return true
}

// strings is one string, or a list of them.
func (l *loader) strings(p part) ([]part, bool) {
	if p.v.Kind() == crypto.Array {
		if _, ok := l.list(p, 1, maxListed); !ok {
			return nil, false
		}
	}
	list := p.elements()
	for _, e := range list {
		if _, ok := l.text(e); !ok {
			return nil, false
		}
	}
	return list, true
}

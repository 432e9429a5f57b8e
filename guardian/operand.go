package guardian

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A constant is an operand that is the same in every call and for every tool.
type constant struct {
	op    op
	kind  crypto.Kind
	flag  bool
	limit float64
	text  []byte
	more  *operand
	takes jsonschema.Types
	ok    bool
}

// operand reads what a value is tested against into n. It gives the types that the value may then have, and whether the operand may be
// missing when a call is judged.
func (c *compiler) operand(p part, o operator, n *node) (takes jsonschema.Types, maybe gap, ok bool) {
	if p.v.Kind() == crypto.Object && (o.op == opEq || o.op == opNe || o.as == asNumber) {
		place, ok := c.reference(p, o.as, n)
		takes := o.takes & place.Types
		if n.fold {
			takes &= textual
		}
		if ok && takes == 0 {
			c.l.refuse(p.at, "the value that it refers to is "+place.Types.String()+" in a call of "+c.t.name, o.name+" takes "+o.takes.String())
			ok = false
		}
		return takes, gapOf(place), ok
	}
	x, seen := c.l.read[p.at]
	if !seen {
		x.takes, x.ok = c.constant(p, o, n)
		x.op, x.kind, x.flag, x.limit, x.text, x.more = n.op, n.kind, n.flag, n.limit, n.text, n.more
		c.l.read[p.at] = x
	}
	n.op, n.kind, n.flag, n.limit, n.text, n.more = x.op, x.kind, x.flag, x.limit, x.text, x.more
	return x.takes, never, x.ok
}

// constant reads an operand that refers to nothing.
func (c *compiler) constant(p part, o operator, n *node) (takes jsonschema.Types, ok bool) {
	switch o.op {
	case opEq, opNe, opLt, opLe, opGt, opGe:
		return c.scalar(p, o, n)
	case opIn, opNotIn:
		return c.setOf(p, n)
	case opType:
		return c.typeOf(p, n)
	case opExists:
		exists, ok := c.l.boolean(p)
		n.flag = !exists
		return o.takes, ok
	case opPrefix, opSuffix:
		s, ok := c.l.text(p)
		if n.text = []byte(s); ok && s == "" {
			c.l.refuse(p.at, "every string has an empty "+o.name, "remove the test")
			ok = false
		}
		return o.takes, ok
	case opMatch:
		return o.takes, c.pattern(p, o, n)
	case opAge:
		n.more = &operand{}
		return o.takes, c.l.duration(p, &n.more.age)
	}
	n.more = &operand{}
	list, ok := c.l.strings(p)
	ok = ok && c.destinations(list, o.op, n.more)
	if ok && o.op == opWithin && len(n.more.below) == 1 {
		n.op, n.text = opBelow, []byte(strings.TrimSuffix(n.more.below[0].Below, "/"))
	}
	return o.takes, ok
}

func (c *compiler) scalar(p part, o operator, n *node) (takes jsonschema.Types, ok bool) {
	n.kind, n.text, n.limit = p.v.Kind(), append([]byte(nil), p.v.Raw()...), p.v.Float()
	takes = typesOf(n.kind) & o.takes
	if takes == 0 {
		c.l.refuse(p.at, o.name+" takes "+o.takes.String()+", not "+article(n.kind), "correct the operand")
		return 0, false
	}
	if n.fold && n.kind != crypto.String {
		c.l.refuse(p.at, article(n.kind)+" has no letters to fold", "remove fold")
		return 0, false
	}
	return takes, true
}

func typesOf(k crypto.Kind) jsonschema.Types {
	switch k {
	case crypto.String:
		return textual
	case crypto.Number:
		return numeric
	case crypto.Bool:
		return jsonschema.TypeBoolean
	}
	return 0
}

// reference reads {arg: PTR} or {caller: id | tenant}: another value of the same call.
func (c *compiler) reference(p part, as reading, n *node) (place jsonschema.Place, ok bool) {
	if !c.l.object(p, []string{"arg", "caller"}, []string{"fact"}) {
		return place, false
	}
	if f := p.get("fact"); f.there() {
		return place, false
	}
	arg, caller := p.get("arg"), p.get("caller")
	var s subject
	switch {
	case p.has("list"):
		return place, false
	case arg.there() == caller.there():
		c.l.refuse(p.at, "neither or both of arg and caller", "write {arg: PTR} or {caller: id}")
		return place, false
	case arg.there():
		s.path, place, ok = c.pointer(arg, nil, false)
		s.pointer = value.JoinPointer(s.path)
	default:
		var word string
		word, ok = c.l.oneOf(caller, "id", "tenant")
		s = subject{from: fromID, pointer: "caller " + word}
		if word == "tenant" {
			s.from = fromTenant
		}
		place = jsonschema.Place{Types: textual, Optional: true}
	}
	if !ok {
		return place, false
	}
	s.as = as
	n.ref = c.slot(s)
	return place, true
}

// setOf reads the members that in and not_in look among.
func (c *compiler) setOf(p part, n *node) (jsonschema.Types, bool) {
	n.more = &operand{}
	if p.v.Kind() == crypto.Object {
		if !c.l.object(p, []string{"list"}, []string{"fact"}) {
			return 0, false
		}
		ref, ok := c.l.need(p, "list")
		if !ok {
			return 0, false
		}
		name, ok := c.l.text(ref)
		if !ok {
			return 0, false
		}
		x := c.l.lists[name]
		if x == nil {
			c.l.refuse(ref.at, "no list "+quote(name)+" in this document", "declare it under lists")
			return 0, false
		}
		if x.plain == nil {
			return 0, false // refused already
		}
		n.kind, n.more.set = x.kind, x.set(n.fold)
	} else {
		elements, ok := c.l.list(p, 1, maxListed)
		if !ok {
			return 0, false
		}
		kind, members, ok := c.l.scalars(elements)
		if !ok {
			return 0, false
		}
		n.kind, n.more.set = kind, value.NewSet(members, n.fold)
	}
	if n.fold && n.kind != crypto.String {
		c.l.refuse(p.at, "numbers have no letters to fold", "remove fold")
		return 0, false
	}
	return typesOf(n.kind), true
}

func (c *compiler) typeOf(p part, n *node) (jsonschema.Types, bool) {
	word, ok := c.l.oneOf(p, "string", "number", "integer", "boolean", "array", "object")
	switch word {
	case "string":
		n.kind = crypto.String
	case "number", "integer":
		n.kind, n.flag = crypto.Number, word == "integer"
		return numeric, ok
	case "boolean":
		n.kind = crypto.Bool
	case "array":
		n.kind = crypto.Array
		return jsonschema.TypeArray, ok
	case "object":
		n.kind = crypto.Object
		return jsonschema.TypeObject, ok
	}
	return typesOf(n.kind), ok
}

const maxPattern = 1 << 10

func (c *compiler) pattern(p part, o operator, n *node) bool {
	s, ok := c.l.text(p)
	if !ok {
		return false
	}
	if len(s) > maxPattern {
		c.l.refuse(p.at, "a pattern of "+strconv.Itoa(len(s))+" bytes", "write at most 1024")
		return false
	}
	if c.steps != nil {
		steps, ok := c.affordable(p, s)
		if !ok {
			return false
		}
		n.limit = float64(steps)
	}
	re, err := regexp.Compile(s) // by itself first: a)|(b would be whole only within the anchors
	if err == nil && o.name == "regex" {
		re, err = regexp.Compile(`\A(?:` + s + `)\z`)
	}
	if err != nil {
		c.l.refuse(p.at, "not RE2: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "correct the pattern")
		return false
	}
	n.more = &operand{re: re}
	return true
}

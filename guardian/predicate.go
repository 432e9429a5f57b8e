package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A polarity says what a true answer does to the verdict. It is a set: beside `count … eq` it can do either.
type polarity uint8

const (
	relaxes   polarity = 1 << iota // makes an ALLOW more likely
	restricts                      // makes it less likely
)

func (p polarity) flip() polarity { return p>>1 | p<<1&restricts }

// A compiler makes the predicates of one tool.
type compiler struct {
	l     *loader
	t     *tool
	in    *inside
	steps *int // of a grant: what the patterns of its chain have become so far; nil: of a document
}

// inside is the quantifier whose `that` is being compiled.
type inside struct {
	element  []string // pointer to its elements
	subjects []subject
	direct   bool // the predicate is `that` itself
}

const (
	maxDepth = 8
	maxKids  = 64
)

// predicate compiles p. On failure it has refused it.
func (c *compiler) predicate(p part, depth int, pol polarity) (node, bool) {
	if p.v.Kind() != crypto.Object {
		c.l.refuse(p.at, "is "+article(p.v.Kind())+", not a predicate", "write an object like {arg: /path, eq: x}")
		return node{}, false
	}
	if depth > maxDepth {
		c.l.refuse(p.at, "nested more than 8 deep", "split the rule")
		return node{}, false
	}
	if c.steps != nil && !c.apart(p) {
		return node{}, false
	}
	direct := c.in != nil && c.in.direct
	if c.in != nil {
		c.in.direct = false
	}
	for _, form := range []struct {
		key string
		op  op
	}{{"all", opAll}, {"any", opAny}, {"not", opNot}, {"every", opEvery}, {"some", opSome}, {"count", opCount}} {
		if !p.has(form.key) {
			continue
		}
		if form.op >= opEvery {
			return c.quantifier(p, form.key, form.op, depth, pol)
		}
		if !c.l.object(p, []string{form.key}, nil) {
			return node{}, false
		}
		return c.combined(p.get(form.key), form.op, depth, pol)
	}
	switch {
	case p.has("receipt"):
		return c.receipt(p)
	case p.has("session"):
		return c.calls(p)
	}
	return c.leaf(p, direct, pol)
}

func (c *compiler) combined(p part, o op, depth int, pol polarity) (node, bool) {
	n := node{op: o, slot: noSlot, ref: noSlot}
	kids := []part{p}
	if o == opNot {
		pol = pol.flip()
	} else {
		var ok bool
		if kids, ok = c.l.list(p, 1, maxKids); !ok {
			return n, false
		}
	}
	whole := true
	for _, kid := range kids {
		k, ok := c.predicate(kid, depth+1, pol)
		n.kids, whole = append(n.kids, k), whole && ok
	}
	return n, whole
}

var comparisons = []string{"eq", "ne", "lt", "le", "gt", "ge"}

func (c *compiler) quantifier(p part, key string, o op, depth int, pol polarity) (node, bool) {
	n := node{op: o, slot: noSlot, ref: noSlot, absent: failed, more: &operand{}}
	keys := []string{key, "that", "absent"}
	if o == opCount {
		keys = append(keys, comparisons...)
	}
	if before := len(c.l.errs); !c.l.object(p, keys, nil) || len(c.l.errs) > before {
		return n, false
	}
	if c.in != nil {
		c.l.refuse(p.get(key).at, "a quantifier inside another", "use * in the pointer")
		return n, false
	}
	segments, place, ok := c.pointer(p.get(key), nil, true)
	if !ok {
		return n, false
	}
	if place.Types&jsonschema.TypeArray == 0 {
		c.l.refuse(p.get(key).at, "never an array by the input of "+c.t.name, "name an array; "+key+" goes through its elements")
		return n, false
	}
	head := segments
	if at := slices.Index(segments, value.Star); at >= 0 {
		head, n.more.rest = segments[:at], segments[at:]
	}
	n.slot = c.slot(subject{from: fromArgs, as: asElement, path: head, pointer: value.JoinPointer(segments)})
	maybe := gapOf(place)
	if o == opCount {
		refMaybe, ok := c.counted(p, &n)
		if !ok {
			return n, false
		}
		if maybe != never && n.more.rest != nil {
			c.l.refuse(p.get(key).at, "some of the arrays may be missing, and the others counted", "make them required in the schema")
			return n, false
		}
		maybe = max(maybe, refMaybe)
		pol = countPolarity(n.num, pol)
	}
	if n.absent, ok = c.absent(p, maybe); !ok {
		return n, false
	}
	that := p.get("that")
	if !that.there() {
		if o != opCount {
			c.l.refuse(p.at, key+" without that", "add that: {OPERATOR: …}")
		}
		return n, o == opCount
	}
	c.in = &inside{element: append(slices.Clone(segments), value.Star), direct: true}
	kid, ok := c.predicate(that, depth+1, pol)
	n.kids, n.more.inner = []node{kid}, c.in.subjects
	c.in = nil
	return n, ok
}

// counted reads how to compare a count, and tells whether what it is compared with may be missing.
func (c *compiler) counted(p part, n *node) (maybe gap, ok bool) {
	name, ok := c.one(p, comparisons, func() []string { return comparisons })
	if !ok {
		return never, false
	}
	o := operatorNamed(name)
	n.num = o.op
	x := p.get(name)
	if x.v.Kind() == crypto.Object {
		place, ok := c.reference(x, asNumber, n)
		if ok && place.Types&numeric == 0 {
			c.l.refuse(x.at, "never a number", "compare a count with a number")
			ok = false
		}
		return gapOf(place), ok
	}
	n.limit = x.v.Float()
	if x.v.Kind() != crypto.Number {
		c.l.refuse(x.at, "is "+article(x.v.Kind()), "compare a count with a number")
		return never, false
	}
	return never, true
}

// countPolarity is that of an element that counts: more of them make `gt` true, and `lt` false.
func countPolarity(o op, pol polarity) polarity {
	switch o {
	case opGt, opGe:
		return pol
	case opLt, opLe:
		return pol.flip()
	}
	return relaxes | restricts
}

// one finds the one key of p that is among the names. If there is none it makes the offer.
func (c *compiler) one(p part, names []string, offer func() []string) (string, bool) {
	var found []string
	for _, name := range names {
		if p.has(name) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], true
	case 0:
		c.l.refuse(p.at, "no operator", "write one of "+strings.Join(offer(), ", "))
	default:
		c.l.refuse(p.get(found[1]).at, "two operators in one predicate: "+strings.Join(found, ", "), "combine two predicates with all")
	}
	return "", false
}

// gap is whether a value that a test reads may be missing or null.
type gap uint8

const (
	never  gap = iota
	filled     // only a default keeps it from missing: absent may be written, and is not needed
	open       // absent must be written
)

func gapOf(p jsonschema.Place) gap {
	switch {
	case p.Nullable || p.Optional && !p.Filled:
		return open
	case p.Optional:
		return filled
	}
	return never
}

// absent reads what the test answers for a missing value, which must be said exactly when there can be none.
func (c *compiler) absent(p part, maybe gap) (answer, bool) {
	x := p.get("absent")
	switch {
	case maybe == open && !x.there():
		c.l.refuse(p.at, "the value may be missing or null in a call of "+c.t.name, "add absent: true or absent: false, the answer then")
		return failed, false
	case !x.there():
		return failed, true
	}
	c.l.idle.note(x.at, maybe != never, "the value is never missing or null in a call of "+c.t.name, "remove absent")
	b, ok := c.l.boolean(x)
	if maybe == never {
		return failed, ok
	}
	return answerOf(b), ok
}

// Idle is what of a rule says nothing about one tool, and would have to be left out for it. A rule about several tools may need it for
// another; if it needs it for none, it is refused.
type idle struct {
	places []idlePlace
	used   map[string]bool
}

type idlePlace struct{ at, what, remedy string }

func (x *idle) note(at string, used bool, what, remedy string) {
	switch {
	case used && x.used == nil:
		x.used = map[string]bool{at: true}
	case used:
		x.used[at] = true
	case !slices.ContainsFunc(x.places, func(p idlePlace) bool { return p.at == at }):
		x.places = append(x.places, idlePlace{at, what, remedy})
	}
}

// report refuses what no tool needs, and begins anew.
func (x *idle) report(l *loader) {
	for _, p := range x.places {
		if !x.used[p.at] {
			l.refuse(p.at, p.what, p.remedy)
		}
	}
	*x = idle{}
}

// pointer reads a pointer and looks up what the input has there. Below an element, base is the pointer to it.
func (c *compiler) pointer(p part, base []string, stars bool) ([]string, jsonschema.Place, bool) {
	s, ok := c.l.text(p)
	if !ok {
		return nil, jsonschema.Place{}, false
	}
	segments, ok := value.SplitPointer(s)
	switch {
	case !ok:
		c.l.refuse(p.at, quote(s)+" is no JSON Pointer", "write it like /path, with ~0 for ~ and ~1 for /")
		return nil, jsonschema.Place{}, false
	case !stars && slices.Contains(segments, value.Star):
		c.l.refuse(p.at, "a * in a pointer to one value", "use every, some or count")
		return nil, jsonschema.Place{}, false
	}
	place, ok := c.t.input.LookupBelow(base, segments)
	if !ok {
		c.l.refuse(p.at, "no "+quote(value.JoinPointer(append(slices.Clone(base), segments...)))+" in the input of "+c.t.name, "name what the schema declares")
	}
	return segments, place, ok && c.arrays(p, segments)
}

// arrays refuses a * that stands for anything but the elements of an array.
func (c *compiler) arrays(p part, segments []string) bool {
	for i, seg := range segments {
		if seg != value.Star {
			continue
		}
		if place, ok := c.t.input.Lookup(segments[:i]); !ok || place.Types&jsonschema.TypeArray == 0 {
			c.l.refuse(p.at, quote(value.JoinPointer(segments[:i]))+" is never an array in a call of "+c.t.name, "a * stands for the elements of an array")
			return false
		}
	}
	return true
}

// slot gives the slot of a subject, a new one if need be. Below an element it is one of the quantifier's own.
func (c *compiler) slot(s subject) int32 {
	if s.from == fromElement {
		for i := range c.in.subjects {
			if c.in.subjects[i].key() == s.key() {
				return ^int32(i)
			}
		}
		c.in.subjects = append(c.in.subjects, s)
		return ^int32(len(c.in.subjects) - 1)
	}
	if i, ok := c.t.slots[s.key()]; ok {
		return i
	}
	i := int32(len(c.t.subjects))
	c.t.slots[s.key()] = i
	c.t.subjects = append(c.t.subjects, s)
	return i
}

package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A view is the values that a predicate can look at in a call of one tool.
type view struct {
	*reader
	t  *program.Tool
	in *inside
	of *recalled
}

// An inside is the quantifier whose `that` is being compiled.
type inside struct {
	element  []string // pointer to its elements
	subjects []program.Subject
	direct   bool // the predicate is `that` itself
}

// presence is whether a value that a test reads may be missing or null.
type presence uint8

const (
	always presence = iota
	filled          // only a default keeps it from missing: absent may be written, and is not needed
	open            // it may be missing or null: absent must be written
)

func presenceOf(p jsonschema.Place) presence {
	switch {
	case p.Nullable || p.Optional && !p.Filled:
		return open
	case p.Optional:
		return filled
	}
	return always
}

// refuse notes an error that a predicate has in calls of one tool. A rule may be about many tools:
// of those for which the same place is wrong, the first is told.
func (c *view) refuse(at, what, remedy string) {
	if c.note(refusal{at: at}, c.t) {
		c.refused++
		return
	}
	c.reader.refuse(at, what, remedy)
}

// pointer reads a pointer to a value that the input describes: it is not open.
func (c *view) pointer(p docValue, base []string, stars bool) ([]string, jsonschema.Place, bool) {
	segments, place, ok := c.place(p, base, stars)
	return segments, place, ok && c.described(p, place)
}

// described refuses a value of which nothing is known, since it is open.
func (c *view) described(p docValue, place jsonschema.Place) bool {
	if place.Open {
		c.refuse(p.at, "is open in the input of "+c.t.Name+": it may be anything",
			"ask exists or type of it, or describe it in the schema in place of open")
	}
	return !place.Open
}

// place reads a pointer and looks up what the input has there. Below an element, base is the
// pointer to it.
func (c *view) place(p docValue, base []string, stars bool) ([]string, jsonschema.Place, bool) {
	s, ok := c.text(p)
	if !ok {
		return nil, jsonschema.Place{}, false
	}
	segments, ok := value.SplitPointer(s)
	switch {
	case !ok:
		c.refuse(p.at, quote(s)+" is no JSON Pointer", "write it like /path, with ~0 for ~ and ~1 for /")
		return nil, jsonschema.Place{}, false
	case !stars && slices.Contains(segments, value.Star):
		c.refuse(p.at, "a * in a pointer to one value", "use every, some or count")
		return nil, jsonschema.Place{}, false
	}
	place, ok := c.t.Input.LookupBelow(base, segments)
	whole := quote(value.JoinPointer(append(slices.Clone(base), segments...)))
	switch {
	case !ok && place.Open:
		c.refuse(p.at, whole+" is below what is open in the input of "+c.t.Name,
			"name what the schema describes, or describe it there in place of open")
	case !ok:
		c.refuse(p.at, "no "+whole+" in the input of "+c.t.Name, "name what the schema declares")
	}
	for i, seg := range segments {
		if !ok || seg != value.Star {
			continue
		}
		if place, is := c.t.Input.Lookup(segments[:i]); !is || !walkable(place) {
			what := quote(value.JoinPointer(segments[:i])) + " is never an array or a map in a call of " + c.t.Name
			c.refuse(p.at, what, "a * stands for the elements of an array, or the members of a map")
			ok = false
		}
	}
	return segments, place, ok
}

// walkable reports whether a quantifier can go through a value.
func walkable(p jsonschema.Place) bool { return p.Types&jsonschema.TypeArray != 0 || p.Map }

// walk returns how a quantifier goes through the values at a pointer: each through an array or, if
// the schema allows a map there, an object. arrays is the pointer with a star for each but the
// last.
func (c *view) walk(arrays []string) (head []string, as program.Reading, rest []string, maps []bool) {
	head = arrays
	if at := slices.Index(arrays, value.Star); at >= 0 {
		head, rest = arrays[:at], arrays[at:]
	}
	isMap := func(n int) bool {
		place, _ := c.t.Input.Lookup(arrays[:n])
		return place.Map
	}
	as = program.AsElement
	if isMap(len(head)) {
		as = program.AsMembers
	}
	for i, seg := range rest {
		if seg != value.Star {
			continue
		}
		next := slices.Index(rest[i+1:], value.Star)
		if next < 0 {
			next = len(rest) - i - 1
		}
		maps = append(maps, isMap(len(head)+i+1+next))
	}
	return head, as, rest, maps
}

// required reads a pointer to a value that is never missing or null: another must be equal to it.
func (c *view) required(here docValue) ([]string, jsonschema.Place, bool) {
	segments, place, ok := c.pointer(here, nil, false)
	if ok && presenceOf(place) == open {
		what := "the value may be missing or null in a call of " + c.t.Name
		c.refuse(here.at, what, "compare with a value that is required in the schema, or has a default")
		ok = false
	}
	return segments, place, ok
}

// slot returns the slot of a subject. Below an element it is one of the quantifier's own.
func (c *view) slot(s program.Subject) int32 {
	switch s.From {
	case program.FromElement:
	case program.FromFact:
		return c.of.slot(s)
	default:
		return c.t.Slot(s)
	}
	for i := range c.in.subjects {
		if x := &c.in.subjects[i]; x.From == s.From && x.As == s.As && x.Pointer == s.Pointer {
			return ^int32(i)
		}
	}
	c.in.subjects = append(c.in.subjects, s)
	return ^int32(len(c.in.subjects) - 1)
}

// subject reads what is tested, and what values it may have.
func (c *view) subject(p docValue, direct bool, operator string) (program.Subject, jsonschema.Place, bool) {
	var found []string
	for _, key := range leafKeys[:len(subjectKeys)+1] {
		if p.has(key) {
			found = append(found, key)
		}
	}
	if len(found) > 1 {
		what := "two subjects in one predicate: " + strings.Join(found, ", ")
		c.refuse(p.get(found[1]).at, what, "combine two predicates with all")
		return program.Subject{}, jsonschema.Place{}, false
	}
	key := ""
	if len(found) == 1 {
		key = found[0]
	}
	switch {
	case key == "caller":
		return c.callerSubject(p.get(key), operator)
	case operator == "has":
		c.refuse(p.get("has").at, "has is for roles and labels", "write caller: roles, or session: labels")
		return program.Subject{}, jsonschema.Place{}, false
	case key == "time":
		_, ok := c.oneOf(p.get(key), "utc")
		if ok && operator != "in" {
			c.refuse(p.get(operator).at, "time: utc takes in alone", `write in: ["Mon-Fri 08:00-18:00"]`)
			ok = false
		}
		return program.Subject{}, jsonschema.Place{}, ok
	case key == factKey:
		return c.factSubject(p.get(key))
	case key == "arg":
		segments, place, ok := c.place(p.get(key), nil, false)
		pointer := value.JoinPointer(segments)
		return program.Subject{From: program.FromArgs, Path: segments, Pointer: pointer}, place, ok
	}
	return c.elementSubject(p, key, direct)
}

// elementSubject reads a subject in the element of a quantifier: an item or, with no key, the
// element itself if the predicate is the `that`.
func (c *view) elementSubject(p docValue, key string, direct bool) (program.Subject, jsonschema.Place, bool) {
	switch {
	case c.in == nil && key == "item":
		c.refuse(p.get(key).at, "item outside of every, some and count", "write arg: /path")
	case key == "item":
		segments, place, ok := c.place(p.get(key), c.in.element, false)
		pointer := value.JoinPointer(append(slices.Clone(c.in.element), segments...))
		return program.Subject{From: program.FromElement, Path: segments, Pointer: pointer}, place, ok
	case direct:
		place, ok := c.t.Input.LookupBelow(c.in.element, nil)
		return program.Subject{From: program.FromElement, Pointer: value.JoinPointer(c.in.element)}, place, ok
	case c.in != nil:
		c.refuse(p.at, "no subject", `write item: "" for the element itself, or item: /path below it`)
	default:
		c.refuse(p.at, "no subject", "write one of "+strings.Join(subjectKeys, ", "))
	}
	return program.Subject{}, jsonschema.Place{}, false
}

func (c *view) callerSubject(p docValue, operator string) (program.Subject, jsonschema.Place, bool) {
	word, ok := c.oneOf(p, "id", "tenant", "roles")
	tests := callerTests
	if word == "roles" {
		tests = []string{"has"}
	}
	if ok && !slices.Contains(tests, operator) {
		c.refuse(p.at, "caller: "+word+" does not take "+operator, "use one of "+strings.Join(tests, ", "))
		ok = false
	}
	return callerWord(word), jsonschema.Place{Types: textual, Optional: true}, ok
}

// callerWord returns the subject of the caller's id or tenant.
func callerWord(word string) program.Subject {
	s := program.Subject{From: program.FromID, Pointer: "caller " + word}
	if word == "tenant" {
		s.From = program.FromTenant
	}
	return s
}

// reference reads {arg: PTR} or {caller: id | tenant}, another value of the same call, or
// {fact: NAME} into n.
func (c *view) reference(p docValue, as program.Reading, n *program.Node) (place jsonschema.Place, ok bool) {
	if p.has(factKey) {
		if !c.strict(p, []string{factKey}) {
			return place, false
		}
		s, place, ok := c.factSubject(p.get(factKey))
		if ok {
			s.As = as
			n.Ref = c.slot(s)
		}
		return place, ok
	}
	if !c.object(p, grammar.Reference) {
		return place, false
	}
	arg, caller := p.get("arg"), p.get("caller")
	var s program.Subject
	switch {
	case p.has("list"):
		return place, false
	case arg.exists() == caller.exists():
		c.refuse(p.at, "neither or both of arg and caller", "write {arg: PTR} or {caller: id}")
		return place, false
	case arg.exists():
		s.Path, place, ok = c.pointer(arg, nil, false)
		s.Pointer = value.JoinPointer(s.Path)
	default:
		var word string
		word, ok = c.oneOf(caller, "id", "tenant")
		s = callerWord(word)
		place = jsonschema.Place{Types: textual, Optional: true}
	}
	if !ok {
		return place, false
	}
	s.As = as
	n.Ref = c.slot(s)
	return place, true
}

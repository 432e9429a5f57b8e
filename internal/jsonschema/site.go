package jsonschema

import (
	"slices"
	"strings"
)

// A site is where the values are that a schema is for.
type site struct {
	in   inside
	open pointers // that are open, continued from here; an empty one is this place
	way  []string // from the root; "*" is an element, or a member of a map
}

// pointers are JSON Pointers as decoded segments.
type pointers [][]string

// everything is open at the place itself, and so below it.
var everything = pointers{{}}

// text returns the pointers as one text, to compare them.
func (l pointers) text() string {
	var b strings.Builder
	for _, p := range l {
		b.WriteString(join("", p...) + "\n")
	}
	return b.String()
}

// below returns the pointers that go on with one of the names, without it.
func (l pointers) below(names ...string) (rest pointers) {
	for _, p := range l {
		if len(p) > 0 && slices.Contains(names, p[0]) {
			rest = append(rest, p[1:])
		}
	}
	return rest
}

func (l pointers) here() bool {
	return slices.ContainsFunc(l, func(p []string) bool { return len(p) == 0 })
}

// start returns the site of the root. An open schema is open from there.
func start(closed bool, open [][]string) site {
	if !closed {
		open = everything
	}
	return site{open: open}.arrived()
}

// arrived returns the site as a schema finds it that is not in place of another. In an open one a
// schema closes a value only if it says so: the same as if all were closed already.
func (x site) arrived() site {
	x.in = inside{}
	if x.isOpen() {
		x.open, x.in = everything, inside{true, true}
	}
	return x
}

func (x site) isOpen() bool { return x.open.here() }

func (x site) root() bool { return len(x.way) == 0 }

// elements returns the site of the elements, or of the members of a map.
func (x site) elements() site { return x.below("*", "*") }

// member returns the site of a member that has a name in the schema. The members of a map are all
// opened by a star.
func (x site) member(name string, ofMap bool) site {
	if ofMap {
		return x.below(name, name, "*")
	}
	return x.below(name, name)
}

func (x site) below(step string, names ...string) site {
	below := site{open: x.open.below(names...), way: append(slices.Clip(x.way), step)}
	if x.isOpen() {
		below.open = everything
	}
	return below.arrived()
}

// remedy says how to let anything in.
func (x site) remedy() string {
	return "list " + label(join("", x.way...)) + " under the tool's open"
}

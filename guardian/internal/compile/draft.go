package compile

import (
	"slices"

	"github.com/helmkernel/helm/guardian/internal/program"
)

// Additions are what overlays say with which a stack was narrowed.
type additions struct {
	own  map[string]*program.More // of tools of which they say more, or less, than of the rest
	rest program.More             // of every other tool
}

// More returns what the overlays say of a tool.
func (x *additions) More(tool string) *program.More {
	if x.own != nil {
		if m, ok := x.own[tool]; ok {
			return m
		}
	}
	return &x.rest
}

// A mark is what an overlay says of tools that it has no rules about: that they are outside of its
// only, and that it expires. Tools of which the same was said before share what is said then.
type mark struct {
	of      *program.Terms
	expires bool
	made    map[*program.More][2]*program.More // inside and outside
}

// on returns what is said of a tool with the mark.
func (m *mark) on(x *program.More, outside bool) *program.More {
	if !outside && !m.expires {
		return x
	}
	made, at := m.made[x], 0
	if outside {
		at = 1
	}
	if made[at] == nil {
		n := *x
		n.Overlays = append(slices.Clip(x.Overlays), program.Clause{Of: m.of, Outside: outside})
		made[at] = &n
		m.made[x] = made
	}
	return made[at]
}

// Drafts are copies of those tools of a stack to which an overlay adds something. The stack is
// shared, so its tools are not written.
type drafts struct {
	over   *additions // of the overlays before
	tools  map[string]*program.Tool
	shapes map[form]*program.Shape
}

// A form is what tools share of one input and scope, of which the overlays before say the same.
type form struct {
	shape *program.Shape
	last  *program.Subject // that these overlays look at
}

func newDrafts(over *additions) *drafts {
	return &drafts{over, map[string]*program.Tool{}, map[form]*program.Shape{}}
}

// of returns the copy of a tool, with what the overlays before say of it. It is made once.
func (x *drafts) of(t *program.Tool) *program.Tool {
	if d := x.tools[t.Name]; d != nil {
		return d
	}
	d, more := new(program.Tool), x.over.More(t.Name)
	*d = *t
	d.Overlays, d.Requires = joined(t.Overlays, more.Overlays), joined(t.Requires, more.Requires)
	d.Budgets, d.Compared = joined(t.Budgets, more.Budgets), joined(t.Compared, more.Compared)
	d.Shape = x.shape(t.Shape, more.Subjects)
	x.tools[t.Name] = d
	return d
}

func (x *drafts) shape(of *program.Shape, subjects []program.Subject) *program.Shape {
	key := form{shape: of}
	if subjects == nil {
		subjects = of.Subjects
	} else {
		key.last = &subjects[len(subjects)-1]
	}
	if x.shapes[key] == nil {
		s := *of
		s.Subjects = slices.Clip(subjects)
		x.shapes[key] = &s
	}
	return x.shapes[key]
}

// joined returns a list to append to. It writes neither part.
func joined[T any](a, b []T) []T {
	if len(a) == 0 {
		return slices.Clip(b)
	}
	return append(slices.Clip(a), b...)
}

// added returns what was added to a copy of a tool.
func added(d, t *program.Tool) *program.More {
	x := &program.More{
		Overlays: d.Overlays[len(t.Overlays):], Requires: d.Requires[len(t.Requires):],
		Budgets: d.Budgets[len(t.Budgets):], Compared: d.Compared[len(t.Compared):],
	}
	if len(d.Subjects) > len(t.Subjects) {
		x.Subjects = d.Subjects
	}
	return x
}

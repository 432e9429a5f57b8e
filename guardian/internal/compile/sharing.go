package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
)

// Sharing keeps one copy of clauses that are the same for many tools, as those of a floor mostly
// are. What is judged at every call stays in the processor's caches then, however many tools there
// are.
type sharing map[shared][]program.Clause

// shared identifies clauses: by their documents and rules and, if a rule looks at a value of the
// call, by the shape of the tools.
type shared struct {
	shape *program.Shape
	text  string
}

// settle ends the loading of a tool. It drops what only loading needs and judging does not.
func (s sharing) settle(t *program.Tool) {
	t.Seal()
	if t.Depth > 0 && t.Input.Depth() <= t.Depth {
		t.Depth = 0 // arguments that are nested deeper are not of the schema
	}
	inStackOrder(t.Requires, func(x *program.Requirement) string { return x.Name })
	inStackOrder(t.Budgets, func(x program.Budget) string { return x.Name })
	t.Overlays, t.Floors = s.clauses(t.Shape, t.Overlays), s.clauses(t.Shape, t.Floors)
}

// inStackOrder sorts by layer what bundles, which are read first, and other documents brought to a
// tool. It does not sort by name, since overlays stand in the order of narrowing.
func inStackOrder[T any](list []T, name func(T) string) {
	layer := func(x T) string { return name(x)[:len(floorLayer)] }
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(layer(a), layer(b)) })
}

func (s sharing) clauses(of *program.Shape, list []program.Clause) []program.Clause {
	var key shared
	var text []byte
	for i := range list {
		c := &list[i]
		text = append(append(text, c.Of.Only...), flag(c.Risky), flag(c.Outside))
		for i := range c.Rules {
			x := &c.Rules[i]
			if !x.General {
				key.shape = of
			}
			text = append(append(text, ' '), x.Name...)
		}
		text = append(text, '\n')
	}
	if len(list) == 0 {
		return nil
	}
	key.text = string(text)
	if s[key] == nil {
		s[key] = list
	}
	return s[key]
}

func flag(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

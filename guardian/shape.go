package guardian

import "github.com/helmkernel/helm/internal/jsonschema"

// A shape is what predicates see of a tool. Tools of a bundle whose input and scope have the same text have one shape, so that what is said of
// all of them is read once, and what is looked at in every call stays in the processor's caches, however many tools there are.
type shape struct {
	input    *jsonschema.Schema
	scope    []node
	declared [][]string // pointers that scope declares as a path, URL, host or address
	subjects []subject

	slots map[subjectKey]int32 // while loading: where each subject is
}

func newShape() *shape { return &shape{slots: map[subjectKey]int32{}} }

// readShape gives a tool its shape. One that is wrong is no other tool's: each is told what is wrong with it.
func (l *loader) readShape(p part, t *tool) {
	input, ok := l.need(p, "input")
	if !ok {
		return
	}
	scope := p.get("scope")
	text := string(scope.v.Append(append(input.v.Append(nil), ' ')))
	if x := l.shapes[text]; x != nil {
		t.shape = x
		return
	}
	errs := len(l.errs)
	if t.input = l.schema(input, true); t.input == nil {
		return
	}
	if scope.there() {
		l.readScope(scope, t)
	}
	if len(l.errs) == errs {
		l.shapes[text] = t.shape
	}
}

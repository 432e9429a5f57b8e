package compile

import (
	"errors"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
)

// Grant compiles the when of a grant for a tool of its own: one with the name, input
// and declared destinations of the tool that is called, and without subjects. stepsTaken
// counts what the patterns of the grant's chain have become; Grant adds those of this one. The
// author of a grant never saw the schema of each tool that it is for, so it may say what a rule
// must not say in vain. All else is as in a rule that allows.
func Grant(when crypto.Value, t *program.Tool, stepsTaken *int) (*program.Node, error) {
	r := &reader{}
	c := compiler{
		view:      view{reader: r, t: t},
		constants: &constants{reader: r, known: map[string]constant{}, steps: (*steps)(stepsTaken)},
		idle:      &idle{},
	}
	n, ok := c.predicate(docValue{when, "/when"}, 1, relaxes)
	if errs := r.sorted(); !ok || len(errs) > 0 {
		return nil, errors.New(errs[0].Pointer + ": " + errs[0].What)
	}
	return &n, nil
}

package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
)

const ruleDenies = "the rule denies the call"

// explained adds to why a call is denied that values were looked for in sources, and were not
// found, by the tests of the rule, requirement or budget that decided. It names no value.
func explained(e *program.Evaluator, why Why, tests []program.Node) Why {
	list := e.Unfound(nil, tests)
	if list == nil {
		return why
	}
	var parts, full []string
	for i, u := range list {
		var names []string
		for _, s := range u.Sources {
			names = append(names, s.Name)
			if e.Full(s.Name) && !slices.Contains(full, s.Name) {
				full = append(full, s.Name)
			}
		}
		part := "not from " + strings.Join(names, ", ")
		if i > 0 {
			part = u.Pointer + ": " + part
		}
		parts = append(parts, part)
	}
	for _, name := range full {
		parts = append(parts, name+" is full: later values are no source")
	}
	why.Pointer = list[0].Pointer
	if why.What != ruleDenies {
		parts[0] = why.What + ": " + parts[0]
	}
	why.What = strings.Join(parts, "; ")
	return why
}

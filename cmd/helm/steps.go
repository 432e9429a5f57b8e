package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
)

// conditions are what is judged at each, in short: docs/POLICY.md, section 8.
var conditions = []string{
	"the form of the arguments", "the tool and its driver", "the arguments and their scope", "budgets", "requirements",
	"rules", "delegation", "threat signals", "floors",
}

// answerOf returns the answer on a line, and of a denial the condition on another. Why is "" if a
// log is read, which does not have it.
func answerOf(
	v contracts.Verdict, reason contracts.ReasonCode, rule string, condition int, why string, steps guardian.Trace,
) string {
	var b strings.Builder
	b.WriteString(v.String())
	if v != contracts.Allow {
		b.WriteString(" " + string(reason))
	}
	if rule != "" {
		b.WriteString(" by " + rule)
	}
	if v == contracts.Allow {
		return b.String() + "\n"
	}
	if why != "" {
		b.WriteString(": " + ascii(why))
	}
	fmt.Fprintf(&b, "\nat condition %d", condition)
	if condition >= 0 && condition < len(conditions) {
		b.WriteString(", " + conditions[condition])
	}
	if near, ok := steps.Nearest(); ok {
		b.WriteString("; the nearest rule is " + near)
	}
	return b.String() + "\n"
}

// stepsText returns a line a step: condition, rule, place in the documents, result, what was read.
func stepsText(steps guardian.Trace, documents []contracts.Document) string {
	if len(steps) == 0 {
		return ""
	}
	lines := map[string]map[string]contracts.Pos{}
	for _, d := range documents {
		lines[d.Name] = d.Lines
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := range steps {
		x := &steps[i]
		place := x.Document
		if pos := explained.Position(lines[x.Document], x.Pointer); pos.Line > 0 {
			place = fmt.Sprintf("%s:%d", place, pos.Line)
		}
		var read []string
		for _, r := range x.Reads {
			read = append(read, strings.TrimSpace(ascii(r.Pointer)+" "+r.Type+" "+asciiJSON(r.Value)))
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\t%v\t%s\n",
			x.Condition, x.Rule, place, ascii(x.Pointer), x.Result, strings.Join(read, ", "))
	}
	table.Flush() // into memory
	text := "\nWhat was judged, in this order: condition, rule, place, result, what was read.\n"
	for line := range strings.Lines(b.String()) {
		text += strings.TrimRight(line, " \n") + "\n"
	}
	return text
}

package policytest

import (
	"fmt"
	"strings"
)

// String is the report for people: what failed, then what is covered, then the mutants that
// survived, and at last how many cases there were.
func (r Report) String() string {
	var b strings.Builder
	failed, skipped, weak := 0, 0, 0
	for i := range r.Cases {
		c := &r.Cases[i]
		switch {
		case c.Skipped != "":
			skipped++
			fmt.Fprintf(&b, "%s:%d: skipped: %s: %s\n", r.File, c.Line, c.Name, c.Skipped)
		case c.Failed():
			failed++
			fmt.Fprintf(&b, "%s:%d: FAIL: %s\n", r.File, c.Line, c)
		case c.Weak:
			weak++
			fmt.Fprintf(&b, "%s:%d: weak: %s: a DENY for any reason: state reason or rule\n", r.File, c.Line, c.Name)
		}
	}
	b.WriteString(r.Coverage.String())
	if r.Mutants != nil {
		survived := 0
		for _, m := range r.Mutants {
			if m.Survived {
				survived++
				touched := "no case that ran noticed it"
				if m.Cases == 0 {
					touched = "no case touched it"
				}
				fmt.Fprintf(&b, "survived: %s (%s)\n", m, touched)
			}
		}
		fmt.Fprintf(&b, "mutants %d: survived %d\n", len(r.Mutants), survived)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "%s\n", f)
	}
	fmt.Fprintf(&b, "cases %d: failed %d, skipped %d, weak %d\n", len(r.Cases), failed, skipped, weak)
	return b.String()
}

// String is a result as one block: the name, what differs, and the steps that decided.
func (r *Result) String() string {
	var b strings.Builder
	b.WriteString(r.Name)
	if r.Args != "" {
		b.WriteString(" " + r.Args)
	}
	for _, f := range r.Failures {
		b.WriteString("\n\t" + f)
	}
	for _, s := range r.Steps {
		b.WriteString("\n\t\t" + s)
	}
	if r.Verdicts != nil {
		for line := range strings.Lines(r.Verdicts.String()) {
			b.WriteString("\n\t\t" + strings.TrimSuffix(line, "\n"))
		}
	}
	return b.String()
}

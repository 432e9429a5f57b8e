package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// verdicts prints what becomes of the effects of each suite in each mode, and of all suites.
func verdicts(ctx context.Context, w io.Writer, suites []suite, policies string, list bool) error {
	var b, notes strings.Builder
	b.WriteString("| suite | sources | benign effects | free | to a person | denied " +
		"| attack effects | passed | to a person | denied |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	all := make([]tally, len(modes))
	for _, s := range suites {
		written, err := document(policies, s.name)
		if err != nil {
			return err
		}
		for i, m := range modes {
			d, err := m.in(written)
			if err != nil {
				return err
			}
			j, err := newJudge(d)
			if err != nil {
				return err
			}
			if err := j.suite(ctx, &s); err != nil {
				return err
			}
			b.WriteString(row(s.name, m, &j.tally))
			all[i].add(&j.tally)
			if i > 0 {
				continue
			}
			if len(j.unfit) > 0 {
				fmt.Fprintf(&notes, "%s: %d outputs do not fit the schema that the policy pins, the first at %s\n",
					s.name, len(j.unfit), j.unfit[0])
			}
			for _, n := range j.notable {
				if list {
					fmt.Fprintln(&notes, n)
				}
			}
		}
	}
	for i, m := range modes {
		b.WriteString(row("all", m, &all[i]))
	}
	if notes.Len() > 0 {
		b.WriteString("\n" + notes.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func row(suite string, m mode, t *tally) string {
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", suite, m.name, t.benign.all(),
		t.benign[free], t.benign[asked], t.benign[denied], t.attack.all(), t.attack[free], t.attack[asked],
		t.attack[denied])
}

package policy

import (
	"slices"

	"github.com/helmkernel/helm/internal/grammar"
)

// condense finds terms of letting go by which nothing ever goes.
func (l *linter) condense() {
	const idle = "condense-idle"
	var terms []*document
	without, least := "", grammar.Risks[len(grammar.Risks)-1]
	for _, d := range l.docs {
		switch c := d.root.Get("condense"); {
		case d.layer != grammar.Floor:
		case !c.Exists():
			without = d.layer + ":" + d.name
		default:
			terms = append(terms, d)
			if kept := c.Get("kept").Text(); slices.Index(grammar.Risks, kept) < slices.Index(grammar.Risks, least) {
				least = kept
			}
		}
	}
	below := func(t *declared) bool {
		return slices.Index(grammar.Risks, string(t.Risk)) < slices.Index(grammar.Risks, least)
	}
	some := slices.ContainsFunc(l.tools, below)
	for _, d := range terms {
		switch {
		case without != "":
			l.find(idle, d, "/condense",
				"no entry is ever let go of: "+without+" has no condense", "add it there, or remove it")
		case !some && d.root.Get("condense").Get("kept").Text() == least:
			l.find(idle, d, "/condense/kept",
				"no entry is ever let go of: no tool has a risk below "+least, "remove condense")
		}
	}
}

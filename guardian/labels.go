package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A vocabulary is the labels that the documents of a stack declare. A label that none declares is refused, so a misspelt one cannot sleep.
type vocabulary map[string]bool

func (v vocabulary) add(l *loader) {
	x := l.root.get("labels")
	if !x.there() {
		return
	}
	for _, e := range l.distinct(x, 1) {
		if name, ok := l.word(e, isLabel, "a label: 1 to 128 bytes without control characters"); ok {
			v[name] = true
		}
	}
}

func isLabel(s string) bool   { return contracts.IsWords(s, contracts.MaxWords) }
func isProfile(s string) bool { return contracts.IsWords(s, contracts.MaxWords) }

func (v vocabulary) remedy(name string) string {
	var close []string
	for label := range v {
		if near(name, label) {
			close = append(close, label)
		}
	}
	if close == nil {
		return "declare it under labels, in P0 or in a bundle"
	}
	return "did you mean " + slices.Min(close) + "?"
}

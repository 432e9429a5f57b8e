package compile

import "slices"

// A vocabulary is the labels that the documents of a stack declare. A label that none declares is
// refused, since a misspelt one would have no effect.
type vocabulary map[string]bool

func (v vocabulary) add(l *loader) {
	x := l.root.get("labels")
	if !x.exists() {
		return
	}
	for _, e := range l.distinct(x, 1) {
		if name, ok := l.word(e, isWords, "a label: "+formWords); ok {
			v[name] = true
		}
	}
}

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

package compile

import (
	"slices"
)

// A vocabulary is the labels that the documents of a stack declare. A label that none declares is
// refused, since a misspelt one would have no effect.
type vocabulary map[string]bool

// add adds those of a document.
func (v vocabulary) add(r *reader, labels docValue) {
	if !labels.exists() {
		return
	}
	for _, e := range r.distinct(labels, 1) {
		if name, ok := r.word(e, isWords, "a label: "+formWords); ok {
			v[name] = true
		}
	}
}

// declared refuses a label that no document declares.
func (c *catalog) declared(p docValue) bool {
	name := p.v.Text()
	if !c.labels[name] {
		c.refuse(p.at, "no document of the stack declares the label "+quote(name), c.labels.remedy(name))
	}
	return c.labels[name]
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

package compile

import (
	"slices"
)

// A vocabulary is the labels that the documents of a stack declare. A label that none declares is
// refused, since a misspelt one would have no effect.
type vocabulary struct {
	known   map[string]bool
	partial bool // some may be declared in what was refused
}

// add adds those of a document.
func (v *vocabulary) add(l *loader) {
	x := l.root.get("labels")
	if !l.whole || l.misspelt("labels") || x.exists() && l.layer == overlayLayer {
		v.partial = true
	}
	if !l.whole || !x.exists() || l.layer == overlayLayer { // there labels are refused as a key
		return
	}
	before := l.refused
	for _, e := range l.distinct(x, 1) {
		if name, ok := l.word(e, isWords, "a label: "+formWords); ok {
			v.known[name] = true
		}
	}
	v.partial = v.partial || l.refused > before
}

// declared refuses a label that no document declares.
func (c *catalog) declared(p docValue) bool { return c.declaredName(p.v.Text(), p.at) }

func (c *catalog) declaredName(name, at string) bool {
	if !c.labels.known[name] && !c.labels.partial {
		c.refuse(at, "no document of the stack declares the label "+quote(name), c.labels.remedy(name))
	}
	return c.labels.known[name]
}

func (v *vocabulary) remedy(name string) string {
	var close []string
	for label := range v.known {
		if near(name, label) {
			close = append(close, label)
		}
	}
	if close == nil {
		return "declare it under labels, in P0 or in a bundle"
	}
	return "did you mean " + slices.Min(close) + "?"
}

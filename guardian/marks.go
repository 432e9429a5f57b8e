package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// DeclaredMarks are what documents say of what receipts bring to their sessions. They can be read
// of documents that this version does not compile: what a log says that was written under them
// stays.
type DeclaredMarks struct {
	tools  map[string]declaredTool
	floors []given
}

type declaredTool struct {
	trusted bool
	labels  []string // sorted
	outputs []given
}

// A given is a label, and the signals that bring it.
type given struct {
	label   string
	signals []string
}

// ReadMarks reads the floors (P0) and bundles (P1) of a stack, in canonical form. Other documents
// say nothing of marks. An error is a document that is not JSON.
func ReadMarks(docs ...[]byte) (*DeclaredMarks, error) {
	m := &DeclaredMarks{tools: map[string]declaredTool{}}
	for _, b := range docs {
		var tree crypto.Tree
		err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: contracts.MaxRecordDepth, Object: true})
		if err != nil {
			return nil, err
		}
		doc := tree.Root()
		switch doc.Get("layer").Text() {
		case "P0":
			m.floors = append(m.floors, givenBy(doc.Get("threat"))...)
		case "P1":
			for it := membersOf(doc.Get("tools")); it.Next(); {
				t := it.Value()
				labels := textsOf(t.Get("labels"))
				slices.Sort(labels)
				trusted := t.Get("trusted").Bool()
				m.tools[string(it.Key())] = declaredTool{trusted, slices.Compact(labels), givenBy(t.Get("threat"))}
			}
		}
	}
	return m, nil
}

// givenBy reads which labels the signals of outputs bring.
func givenBy(threat crypto.Value) (list []given) {
	for it := membersOf(threat.Get("outputs")); it.Next(); {
		list = append(list, given{string(it.Key()), textsOf(it.Value())})
	}
	return list
}

// membersOf goes through the members of an object, and through none of anything else.
func membersOf(v crypto.Value) crypto.Iter {
	if v.Kind() != crypto.Object {
		v = crypto.Value{}
	}
	return v.Iter()
}

func textsOf(list crypto.Value) (texts []string) {
	for v := range list.Elements() {
		texts = append(texts, v.Text())
	}
	return texts
}

// Marks answers as [Policy.Marks] does.
func (m *DeclaredMarks) Marks(tool string, signals []string) (taints bool, labels []string) {
	t := m.tools[tool]
	labels = t.labels
	for _, by := range [...][]given{m.floors, t.outputs} {
		for _, g := range by {
			if slices.ContainsFunc(g.signals, func(id string) bool { return slices.Contains(signals, id) }) {
				labels = append(slices.Clip(labels), g.label)
			}
		}
	}
	if len(labels) > len(t.labels) {
		slices.Sort(labels)
		labels = slices.Compact(labels)
	}
	return !t.trusted, labels
}

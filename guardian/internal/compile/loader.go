package compile

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/several"
)

// A loader reads one document into the tools that it speaks of.
type loader struct {
	*reader
	root    docValue
	whole   bool   // the head is read, so the rest can be
	lacks   bool   // the head has no name, or no version
	second  bool   // the stack has another document of its layer and name
	layer   string // P0, P1 or P2
	name    string // of the document, or of its bundle
	prefix  string // of the names of rules: layer:name:
	record  contracts.PolicyDocument
	expires contracts.Time // 0: never
	terms   *program.Terms // of P0 and P2
	catalog *catalog
	closed  bool                      // only is there
	inside  []*program.Tool           // and names these
	shapes  map[string]*program.Shape // of a bundle's tools, by the text of input and scope
	reads   *constants
	idle    idle            // of the rule that is being read
	ids     map[string]bool // of rules, requirements and budgets
	stated  []stated        // its requirements
	asked   []Asked         // their approvals
}

// An Asked approval is one that people must be there for.
type Asked struct {
	Roles  []string
	Quorum uint64
	Err    LoadError // without What and Remedy
}

// A stated requirement is one as it stands in its document.
type stated struct {
	*program.Requirement
	at    string
	tools []*program.Tool
}

// hides reports whether the document may declare tools, and was not read.
func (l *loader) hides() bool { return !l.whole && (l.layer == "" || l.layer == bundleLayer) }

// misspelt reports whether the document has a key that may stand for one that it lacks.
func (l *loader) misspelt(key string) bool {
	for it := l.root.v.Iter(); it.Next(); {
		if name := string(it.Key()); name != key && near(name, key) {
			return true
		}
	}
	return false
}

// errorsOf joins the errors of documents, in their order.
func errorsOf(loaders []*loader) error {
	var all []error
	for _, l := range loaders {
		for _, err := range l.sorted() {
			all = append(all, err)
		}
	}
	return several.Join(all...)
}

// compiler returns the compiler of the document's predicates about a tool.
func (l *loader) compiler(t *program.Tool) *compiler {
	return &compiler{view: view{reader: l.reader, t: t}, constants: l.reads, idle: &l.idle, catalog: l.catalog}
}

// ofOverlay returns the terms of an overlay, and nil for other documents.
func (l *loader) ofOverlay() *program.Terms {
	if l.layer == overlayLayer {
		return l.terms
	}
	return nil
}

// clause returns what the document says of a tool, and adds it if there is nothing yet.
func (l *loader) clause(t *program.Tool) *program.Clause {
	list := &t.Overlays
	if l.layer == floorLayer {
		list = &t.Floors
	}
	if n := len(*list); n == 0 || (*list)[n-1].Of != l.terms {
		*list = append(*list, program.Clause{Of: l.terms})
	}
	return &(*list)[len(*list)-1]
}

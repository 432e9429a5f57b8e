package compile

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A Stack is the program of a stack of documents.
type Stack struct {
	Documents []contracts.Document       // in stack order
	Records   []contracts.PolicyDocument // likewise
	Expiring  []Expiring                 // likewise
	Tools     map[string]*program.Tool
}

// An Expiring document is refused from At on.
type Expiring struct {
	At  contracts.Time
	Err LoadError
}

// Documents compiles the documents of a stack, in whatever order they come. The error is a
// *[LoadError].
func Documents(docs []contracts.Document) (*Stack, error) {
	if err := checkCount(len(docs)); err != nil {
		return nil, err
	}
	loaders := loadAll(docs)
	slices.SortFunc(loaders, stackOrder)
	return assemble(loaders)
}

// Narrow compiles the stack with overlays at its end, in their order. The error is a *[LoadError].
func (s *Stack) Narrow(overlays []contracts.Document) (*Stack, error) {
	if err := checkCount(len(s.Documents) + len(overlays)); err != nil {
		return nil, err
	}
	loaders := loadAll(overlays)
	for _, l := range loaders {
		if l.whole && l.layer != overlayLayer {
			remedy := "write P2: nothing else can be added to a stack that is in use"
			l.refuse("/layer", "layer "+l.layer+" over a stack", remedy)
		}
	}
	loaders = append(loadAll(s.Documents), loaders...)
	for _, l := range loaders {
		l.narrows = l.layer == overlayLayer // those of the stack, too: they may have been put over it
	}
	return assemble(loaders)
}

func checkCount(documents int) error {
	if documents > 0 && documents <= contracts.MaxDocuments {
		return nil
	}
	what := "a stack of " + strconv.Itoa(documents) + " documents"
	return &LoadError{What: what, Remedy: "hand in 1 to " + strconv.Itoa(contracts.MaxDocuments)}
}

func loadAll(docs []contracts.Document) []*loader {
	loaders := make([]*loader, len(docs))
	for i, doc := range docs {
		loaders[i] = load(doc)
	}
	return loaders
}

// stackOrder is the order of the documents in a stack: by layer and name. The file's name and
// content only make it total.
func stackOrder(a, b *loader) int {
	return cmp.Or(
		strings.Compare(a.layer, b.layer), strings.Compare(a.name, b.name),
		strings.Compare(a.doc.Name, b.doc.Name), bytes.Compare(a.doc.Canonical, b.doc.Canonical),
	)
}

// assemble makes a stack of documents in stack order.
func assemble(loaders []*loader) (*Stack, error) {
	s := &Stack{Tools: map[string]*program.Tool{}}
	labels := vocabulary{}
	seen := map[string]bool{}
	for _, l := range loaders {
		if l.whole {
			labels.add(l)
		}
		if l.name != "" && seen[l.prefix] {
			l.again()
		}
		seen[l.prefix] = true
	}
	names, err := s.readBundles(loaders, labels)
	if err != nil {
		return nil, err
	}
	for _, l := range loaders {
		if l.layer != bundleLayer {
			l.readLayer(s.Tools, names)
		}
		if err := l.first(); err != nil {
			return nil, err
		}
		s.add(l)
	}
	if err := refuseUnsatisfiable(s.Tools, loaders); err != nil {
		return nil, err
	}
	share := sharing{}
	for _, name := range names {
		share.settle(s.Tools[name])
	}
	return s, nil
}

// readBundles reads the bundles, and returns the names of all their tools, sorted.
func (s *Stack) readBundles(loaders []*loader, labels vocabulary) (names []string, err error) {
	owner := map[string]*loader{}
	for _, l := range loaders {
		if l.layer == bundleLayer && l.whole {
			l.readBundle(labels)
		}
		if l.layer != bundleLayer && l.whole {
			continue
		}
		for _, name := range l.catalog.names {
			if o := owner[name]; o != nil {
				what := "the tool is in the bundle " + o.name + ", too"
				l.refuse("/tools/"+value.EscapeSegment(name), what, "a tool belongs to one bundle")
			}
			owner[name] = l
			s.Tools[name] = l.catalog.tools[name]
		}
		if err := l.first(); err != nil {
			return nil, err
		}
		names = append(names, l.catalog.names...)
	}
	slices.Sort(names)
	return names, nil
}

func (s *Stack) add(l *loader) {
	s.Documents = append(s.Documents, l.doc)
	s.Records = append(s.Records, l.record)
	if l.expires == 0 {
		return
	}
	what, remedy := "the document "+l.layer+":"+l.name, "write a later version"
	if l.layer == bundleLayer {
		what, remedy = "the bundle "+l.name, "publish a later version"
	}
	s.Expiring = append(s.Expiring, Expiring{l.expires, LoadError{
		Document: l.doc.Name, Pos: l.pos("/expires"), Pointer: "/expires",
		What: what + " expired at " + l.expires.String(), Remedy: remedy,
	}})
}

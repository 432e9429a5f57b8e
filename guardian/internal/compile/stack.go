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
	Asked     []Asked                    // likewise
	Terms     []*program.Terms           // likewise; nil of a bundle
	Places    [][]string                 // likewise: by the numbers in rules and predicates
	Tools     map[string]*program.Tool   // shared with the stacks that this one is narrowed to

	names   []string          // of the tools, sorted
	labels  *vocabulary       // of all documents
	first   func() *reachable // of the documents that the stack was compiled from
	refused error             // why overlays cannot be added; nil: they can
	told    map[string]bool   // the requirements that it tells of, by name
	additions
}

// An Expiring document is refused from At on.
type Expiring struct {
	At  contracts.Time
	Err LoadError
}

// Documents compiles the documents of a stack, in whatever order they come. The error joins a
// *[LoadError] for each fault.
func Documents(docs []contracts.Document) (*Stack, error) {
	if err := checkCount(len(docs)); err != nil {
		return nil, err
	}
	loaders := loadAll(docs)
	inStack(loaders)
	s, err := assemble(loaders)
	if err != nil {
		return nil, err
	}
	if err := refuseUnsatisfiable(loaders, firstOf(s.Tools, true), map[string]bool{}); err != nil {
		return nil, err
	}
	s.told = map[string]bool{}
	if s.first = firstOf(s.Tools, false); loaders[len(loaders)-1].layer == overlayLayer {
		s.refused = refuseUnsatisfiable(loaders, s.first, s.told)
	}
	return s, nil
}

// inStack sorts documents by layer and name. The rest makes the order total.
func inStack(loaders []*loader) {
	slices.SortFunc(loaders, func(a, b *loader) int {
		return cmp.Or(
			strings.Compare(a.layer, b.layer), strings.Compare(a.name, b.name),
			strings.Compare(a.doc.Name, b.doc.Name), bytes.Compare(a.doc.Canonical, b.doc.Canonical),
		)
	})
}

func checkCount(documents int) error {
	if documents > 0 && documents <= contracts.MaxDocuments {
		return nil
	}
	what := "a stack of " + strconv.Itoa(documents) + " documents"
	return &LoadError{What: what, Remedy: "hand in 1 to " + strconv.Itoa(contracts.MaxDocuments)}
}

// loadAll reads the heads of documents. The rest is read when the tools that they speak of are
// known.
func loadAll(docs []contracts.Document) []*loader {
	loaders := make([]*loader, len(docs))
	for i, doc := range docs {
		r := &reader{doc: doc, places: &places{[]string{""}, map[string]int32{}}}
		l := &loader{
			reader:  r,
			catalog: &catalog{reader: r, tools: map[string]*program.Tool{}, doubtful: map[string]bool{}},
			shapes:  map[string]*program.Shape{}, reads: &constants{reader: r, known: map[string]constant{}},
			ids: map[string]bool{},
		}
		if root, ok := l.parse(); ok && l.head(root) {
			l.root, l.whole = root, true
		}
		l.catalog.layer = l.layer
		loaders[i] = l
	}
	return loaders
}

// assemble makes a stack of documents in stack order. It reads on after an error, but refuses
// nothing that may be right when the error is mended.
func assemble(loaders []*loader) (*Stack, error) {
	s := &Stack{Tools: map[string]*program.Tool{}}
	s.labels = &vocabulary{known: map[string]bool{}}
	seen := map[string]bool{}
	for _, l := range loaders {
		l.catalog.labels = s.labels
		s.labels.add(l)
		refuseSecond(l, seen)
	}
	all := s.readBundles(loaders)
	for _, l := range loaders {
		if l.whole && l.layer != bundleLayer {
			l.catalog.partial = !all
			l.readLayer(s.Tools, s.names)
			l.spread()
		}
		s.add(l)
	}
	refuseLoosening(loaders)
	if err := errorsOf(loaders); err != nil {
		return nil, err
	}
	share, gates := sharing{}, gates{}
	for _, name := range s.names {
		t := s.Tools[name]
		share.settle(t)
		t.Gates = gates.settle(t.Gates)
	}
	return s, nil
}

// refuseSecond refuses a document of a layer and name that were seen before.
func refuseSecond(l *loader, seen map[string]bool) {
	if l.whole && l.name != "" && seen[l.prefix] {
		if l.layer == bundleLayer {
			l.refuse("/bundle/name", "a second bundle "+quote(l.name), "a stack holds one version of a bundle")
		} else {
			l.refuse("/name", "a second "+l.layer+" document "+quote(l.name), "give it a name of its own, "+
				"since the name tells whose rule denied; a stack holds one version of a document")
		}
		l.second = true
	}
	seen[l.prefix] = true
}

// readBundles reads the bundles, and the names of all their tools. It reports whether it knows the
// tools for certain. One that was refused is unread for floors and overlays.
func (s *Stack) readBundles(loaders []*loader) (all bool) {
	all = true
	owner := map[string]*loader{}
	for _, l := range loaders {
		if l.whole && l.layer != bundleLayer {
			continue
		}
		if l.whole {
			l.readBundle()
		}
		all = all && !l.hides() && !l.catalog.partial
		for _, name := range l.catalog.names {
			o := owner[name]
			if o != nil && !l.second {
				what := "the tool is in the bundle " + o.name + ", too"
				l.refuse("/tools/"+value.EscapeSegment(name), what, "a tool belongs to one bundle")
			}
			owner[name], s.Tools[name] = l, l.catalog.tools[name]
			if o != nil || l.catalog.doubtful[name] {
				all, s.Tools[name] = false, &program.Tool{Name: name, Shape: &program.Shape{}}
			}
		}
		s.names = append(s.names, l.catalog.names...)
	}
	slices.Sort(s.names)
	s.names = slices.Compact(s.names)
	return all
}

func (s *Stack) add(l *loader) {
	s.Documents = append(s.Documents, l.doc)
	s.Records = append(s.Records, l.record)
	s.Asked = append(s.Asked, l.asked...)
	s.Terms, s.Places = append(s.Terms, l.terms), append(s.Places, l.places.list)
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

// sharing keeps one copy of clauses that are the same for many tools, as those of a floor mostly
// are. What is judged at every call stays in the processor's caches then, however many tools there
// are.
type sharing map[shared][]program.Clause

// shared identifies clauses: by their documents and rules and, if a rule looks at a value of the
// call, by the shape of the tools.
type shared struct {
	shape *program.Shape
	text  string
}

// settle ends the loading of a tool. It drops what only loading needs and judging does not.
func (s sharing) settle(t *program.Tool) {
	t.Seal()
	if t.Depth > 0 && t.Input.Depth() <= t.Depth {
		t.Depth = 0 // arguments that are nested deeper are not of the schema
	}
	inStackOrder(t.Driver.Demands, func(x *program.Demand) string { return x.Document })
	inStackOrder(t.Requires, func(x *program.Requirement) string { return x.Name })
	inStackOrder(t.Budgets, func(x program.Budget) string { return x.Name })
	t.Overlays, t.Floors = s.clauses(t.Shape, t.Overlays), s.clauses(t.Shape, t.Floors)
}

// inStackOrder sorts by layer what bundles, which are read first, and other documents brought to a
// tool. It does not sort by name, since overlays stand in the order of narrowing.
func inStackOrder[T any](list []T, name func(T) string) {
	layer := func(x T) string { return name(x)[:len(floorLayer)] }
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(layer(a), layer(b)) })
}

func (s sharing) clauses(of *program.Shape, list []program.Clause) []program.Clause {
	var key shared
	var text []byte
	for i := range list {
		c := &list[i]
		text = strconv.AppendBool(append(text, c.Of.Only...), c.Risky)
		text = strconv.AppendBool(append(text, ' '), c.Outside)
		for i := range c.Rules {
			x := &c.Rules[i]
			if !x.General {
				key.shape = of
			}
			text = append(append(text, ' '), x.Name...)
		}
		text = append(text, '\n')
	}
	if len(list) == 0 {
		return nil
	}
	key.text = string(text)
	if s[key] == nil {
		s[key] = list
	}
	return s[key]
}

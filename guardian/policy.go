package guardian

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// Versions of what judges, in every PolicyHash: another engine is another policy.
const (
	engineRules  = 1
	engineThreat = 0 // no threat scan
)

// Engine is the version of what judges here. Verdicts of another engine cannot be made again by this one.
func Engine() contracts.Engine { return contracts.Engine{Rules: engineRules, Threat: engineThreat} }

// Policy is a compiled stack of documents. It never changes, and is safe for concurrent use by multiple goroutines. The nil and the zero
// Policy have no tools: they deny every call.
type Policy struct {
	hash      contracts.Digest
	record    contracts.PolicyRecord
	documents []contracts.Document // in stack order
	expiring  []expiring
	tools     map[string]*tool
	scratch   sync.Pool // of *scratch
}

// An expiring document, in stack order.
type expiring struct {
	at  contracts.Time
	err LoadError
}

// Compile makes a policy of a floor (P0), bundles (P1) and overlays (P2), any number of each, whatever order they come in. The error is a
// *[LoadError]. Bundles are read first, since the others speak of their tools; of several errors it is the first in the order of stack and
// document. Compile keeps copies.
func Compile(docs ...contracts.Document) (*Policy, error) {
	if err := stackOf(len(docs)); err != nil {
		return nil, err
	}
	loaders := loadAll(docs)
	slices.SortFunc(loaders, stackOrder)
	return compile(loaders)
}

// Narrow makes the policy of a stack and overlays (P2) that are put at its end, in this order, which is part of the PolicyHash. The
// policy itself is not changed.
func (p *Policy) Narrow(overlays ...contracts.Document) (*Policy, error) {
	if p == nil || len(p.documents) == 0 {
		return nil, &LoadError{What: "no policy to narrow", Remedy: "narrow one that Compile made"}
	}
	if err := stackOf(len(p.documents) + len(overlays)); err != nil {
		return nil, err
	}
	loaders := loadAll(overlays)
	for _, l := range loaders {
		if l.whole && l.layer != overlayLayer {
			l.refuse("/layer", "layer "+l.layer+" over a stack", "write P2: nothing else can be added to a stack that is in use")
		}
	}
	loaders = append(loadAll(p.documents), loaders...)
	for _, l := range loaders {
		l.narrows = l.layer == overlayLayer // those of the stack, too: they may have been put over it
	}
	return compile(loaders)
}

func stackOf(documents int) error {
	if documents > 0 && documents <= contracts.MaxDocuments {
		return nil
	}
	return &LoadError{What: "a stack of " + strconv.Itoa(documents) + " documents", Remedy: "hand in 1 to " + strconv.Itoa(contracts.MaxDocuments)}
}

func loadAll(docs []contracts.Document) []*loader {
	loaders := make([]*loader, len(docs))
	for i, doc := range docs {
		loaders[i] = load(cloned(doc))
	}
	return loaders
}

// stackOrder is the order of the documents in a stack: layers, names. Name and content of the file only make it total.
func stackOrder(a, b *loader) int {
	return cmp.Or(strings.Compare(a.layer, b.layer), strings.Compare(a.name, b.name), strings.Compare(a.doc.Name, b.doc.Name), bytes.Compare(a.doc.Canonical, b.doc.Canonical))
}

// compile makes a policy of documents in stack order.
func compile(loaders []*loader) (*Policy, error) {
	p := &Policy{tools: map[string]*tool{}}
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
	names, err := p.bundles(loaders, labels)
	if err != nil {
		return nil, err
	}
	for _, l := range loaders {
		if l.layer != bundleLayer {
			l.readLayer(p.tools, names)
		}
		if err := l.first(); err != nil {
			return nil, err
		}
		p.add(l)
	}
	if err := p.meetable(loaders); err != nil {
		return nil, err
	}
	share := sharing{}
	for _, name := range names {
		p.tools[name].settle(share)
	}
	p.record.Engine = Engine()
	p.hash = p.record.Hash()
	p.record.Policy = p.hash
	return p, nil
}

// bundles reads those, and gives the names of all their tools, sorted.
func (p *Policy) bundles(loaders []*loader, labels vocabulary) (names []string, err error) {
	owner := map[string]*loader{}
	for _, l := range loaders {
		if l.layer == bundleLayer && l.whole {
			l.readBundle(labels)
		}
		if l.layer == bundleLayer || !l.whole {
			for _, name := range l.names {
				if o := owner[name]; o != nil {
					l.refuse("/tools/"+value.EscapeSegment(name), "the tool is in the bundle "+o.name+", too", "a tool belongs to one bundle")
				}
				owner[name] = l
				p.tools[name] = l.tools[name]
			}
			if err := l.first(); err != nil {
				return nil, err
			}
			names = append(names, l.names...)
		}
	}
	slices.Sort(names)
	return names, nil
}

// again refuses a second document of one name.
func (l *loader) again() {
	if l.layer == bundleLayer {
		l.refuse("/bundle/name", "a second bundle "+quote(l.name), "a stack holds one version of a bundle")
		return
	}
	l.refuse("/name", "a second "+l.layer+" document "+quote(l.name), "give it a name of its own, since the name tells whose rule denied; a stack holds one version of a document")
}

func (p *Policy) add(l *loader) {
	p.documents = append(p.documents, l.doc)
	p.record.Documents = append(p.record.Documents, l.record)
	if l.expires > 0 {
		what, remedy := "the document "+l.layer+":"+l.name, "write a later version"
		if l.layer == bundleLayer {
			what, remedy = "the bundle "+l.name, "publish a later version"
		}
		p.expiring = append(p.expiring, expiring{l.expires, LoadError{
			Document: l.doc.Name, Pos: l.pos("/expires"), Pointer: "/expires",
			What: what + " expired at " + l.expires.String(), Remedy: remedy,
		}})
	}
}

func cloned(d contracts.Document) contracts.Document {
	return contracts.Document{Name: d.Name, Canonical: bytes.Clone(d.Canonical), Lines: maps.Clone(d.Lines)}
}

// Hash is the PolicyHash; zero for the zero Policy.
func (p *Policy) Hash() contracts.Digest {
	if p == nil {
		return contracts.Digest{}
	}
	return p.hash
}

// Record is what a policy entry says of the stack.
func (p *Policy) Record() contracts.PolicyRecord {
	if p == nil {
		return contracts.PolicyRecord{}
	}
	r := p.record
	r.Documents = slices.Clone(r.Documents)
	return r
}

// Documents gives copies of the documents in stack order.
func (p *Policy) Documents() []contracts.Document {
	if p == nil {
		return nil
	}
	out := make([]contracts.Document, len(p.documents))
	for i, d := range p.documents {
		out[i] = cloned(d)
	}
	return out
}

// Expired gives a *[LoadError] for the first document that has expired at t. Such a policy still judges, and denies the tools or calls that
// the document is about, but none should be taken into use: New, Narrow and Swap of package helm refuse it.
func (p *Policy) Expired(t contracts.Time) error {
	if p == nil {
		return nil
	}
	for _, x := range p.expiring {
		if t >= x.at {
			err := x.err
			return &err
		}
	}
	return nil
}

func (p *Policy) tool(name string) *tool {
	if p == nil {
		return nil
	}
	return p.tools[name]
}

// Limits gives those of a declared tool: the lower of its own and of every ceiling.
func (p *Policy) Limits(tool string) (Limits, bool) {
	if t := p.tool(tool); t != nil {
		return t.limits, true
	}
	return Limits{}, false
}

// AppendDefaults appends the canonical form of args with the defaults of the tool's input filled in. It gives false, and dst as it was,
// where nothing was missing or the tool is not declared.
func (p *Policy) AppendDefaults(dst []byte, tool string, args crypto.Value) ([]byte, bool) {
	if t := p.tool(tool); t != nil {
		return t.input.AppendDefaults(dst, args)
	}
	return dst, false
}

// Definition gives the digest that the tool pins of its definition, and false where it pins none. Who binds drivers must bind one that declares
// it, or none: see executor.Defined.
func (p *Policy) Definition(tool string) (contracts.Digest, bool) {
	t := p.tool(tool)
	if t == nil || t.pinned == (contracts.Digest{}) {
		return contracts.Digest{}, false
	}
	return t.pinned, true
}

// HasOutput tells whether the tool pins the schema of its output.
func (p *Policy) HasOutput(tool string) bool {
	t := p.tool(tool)
	return t != nil && t.output != nil
}

// CheckOutput tells whether an output is as the tool pins it, and if not, why. Without a pinned schema every output is; of a tool that is
// not declared none is.
func (p *Policy) CheckOutput(tool string, output crypto.Value) (Why, bool) {
	t := p.tool(tool)
	switch {
	case t == nil:
		return Why{What: "the tool is not declared"}, false
	case t.output == nil:
		return Why{}, true
	}
	if v := t.output.Validate(output); v != nil {
		return Why{Pointer: v.Pointer, What: v.Constraint}, false
	}
	return Why{}, true
}

package guardian

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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

// Compile makes a policy of P1 bundles, whatever order they come in. The error is a *[LoadError], the first in stack and document order.
// Compile keeps copies.
func Compile(docs ...contracts.Document) (*Policy, error) {
	if len(docs) == 0 || len(docs) > contracts.MaxDocuments {
		return nil, &LoadError{What: "a stack of " + strconv.Itoa(len(docs)) + " documents", Remedy: "hand in 1 to " + strconv.Itoa(contracts.MaxDocuments)}
	}
	loaders := make([]*loader, len(docs))
	for i, doc := range docs {
		loaders[i] = load(cloned(doc))
	}
	slices.SortFunc(loaders, stackOrder)
	p := &Policy{tools: map[string]*tool{}}
	owner := map[string]*loader{}
	for i, l := range loaders {
		if i > 0 && l.bundle != "" && loaders[i-1].bundle == l.bundle {
			l.refuse("/bundle/name", "a second bundle "+quote(l.bundle), "a stack holds one version of a bundle")
		}
		for _, name := range l.names {
			if o := owner[name]; o != nil {
				l.refuse("/tools/"+escapeSegment(name), "the tool is in the bundle "+o.bundle+", too", "a tool belongs to one bundle")
			}
			owner[name] = l
			p.tools[name] = l.tools[name]
		}
		if err := l.first(); err != nil {
			return nil, err
		}
		p.add(l)
	}
	for _, t := range p.tools {
		t.slots, t.declared = nil, nil
	}
	p.record.Engine = Engine()
	p.hash = p.record.Hash()
	p.record.Policy = p.hash
	return p, nil
}

func (p *Policy) add(l *loader) {
	p.documents = append(p.documents, l.doc)
	p.record.Documents = append(p.record.Documents, l.record)
	if l.expires > 0 {
		p.expiring = append(p.expiring, expiring{l.expires, LoadError{
			Document: l.doc.Name, Pos: l.pos("/expires"), Pointer: "/expires",
			What: "the bundle " + l.bundle + " expired at " + l.expires.String(), Remedy: "publish a later version",
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

// Expired gives a *[LoadError] for the first document that has expired at t. Such a policy still judges, and denies the document's tools,
// but none should be taken into use.
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

// Limits gives those of a declared tool.
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

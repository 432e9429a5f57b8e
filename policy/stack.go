package policy

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
)

// A stack is the documents of a policy, read again for what people are told of it. That they are
// right is known: they were compiled.
type stack struct {
	docs  []*document
	tools []*declared // in the order of their names
	named map[string]*declared
	rules []statement // rules, requirements and budgets, in stack order
}

type document struct {
	contracts.Document
	root        crypto.Value
	layer, name string // name is that of the bundle, if it is one
	tree        crypto.Tree
}

// A declared tool is one as its bundle has it.
type declared struct {
	guardian.Tool
	doc    *document
	v      crypto.Value
	at     string
	egress bool
}

// A statement is a rule, a requirement or a budget.
type statement struct {
	doc   *document
	kind  string // rules, requires or budgets
	v     crypto.Value
	at    string
	tools []*declared
}

func (s *statement) id() string { return s.v.Get("id").Text() }

func (s *statement) allows() bool { return s.v.Get("allow").Exists() }

func (s *statement) conditional() bool { return s.v.Get("when").Exists() || s.v.Get("unless").Exists() }

func readStack(p *guardian.Policy) *stack {
	s := &stack{named: map[string]*declared{}}
	for _, doc := range p.Documents() {
		d := &document{Document: doc}
		limits := crypto.Limits{Bytes: len(doc.Canonical), Depth: contracts.MaxRecordDepth}
		if d.tree.Parse(doc.Canonical, limits) != nil {
			continue // cannot be: it was compiled
		}
		d.root = d.tree.Root()
		d.layer, d.name = d.root.Get("layer").Text(), d.root.Get("name").Text()
		if d.layer == grammar.Bundle {
			d.name = d.root.Get("bundle").Get("name").Text()
		}
		s.docs = append(s.docs, d)
	}
	for _, t := range p.Tools() {
		for _, d := range s.docs {
			v := d.root.Get("tools").Get(t.Name)
			if !v.Exists() {
				continue
			}
			x := &declared{Tool: t, doc: d, v: v, at: "/tools/" + escapeSegment.Replace(t.Name)}
			x.egress = t.Effect != contracts.Read
			if e := v.Get("egress"); e.Exists() {
				x.egress = e.Bool()
			}
			s.tools, s.named[t.Name] = append(s.tools, x), x
		}
	}
	for _, d := range s.docs {
		for _, kind := range []string{"rules", "requires", "budgets"} {
			i := 0
			for v := range d.root.Get(kind).Elements() {
				x := statement{doc: d, kind: kind, v: v, at: "/" + kind + "/" + strconv.Itoa(i)}
				for _, key := range []string{"allow", "deny", "tools"} {
					x.tools = append(x.tools, s.selected(d, v.Get(key))...)
				}
				s.rules = append(s.rules, x)
				i++
			}
		}
	}
	return s
}

// selected returns the tools that a document names, by name, pattern or class.
func (s *stack) selected(d *document, sel crypto.Value) (list []*declared) {
	if !sel.Exists() {
		return nil
	}
	for _, t := range s.tools {
		if (d.layer != grammar.Bundle || t.doc == d) && selects(sel, t) {
			list = append(list, t)
		}
	}
	return list
}

func selects(sel crypto.Value, t *declared) bool {
	switch sel.Kind() {
	case crypto.Object:
		effects, egress := sel.Get("effects"), sel.Get("egress")
		return (!effects.Exists() || has(effects, string(t.Effect))) && (!egress.Exists() || t.egress)
	case crypto.Array:
		for e := range sel.Elements() {
			if selects(e, t) {
				return true
			}
		}
		return false
	}
	name := sel.Text()
	prefix, pattern := strings.CutSuffix(name, "*")
	return name == t.Name || pattern && strings.HasPrefix(t.Name, prefix)
}

// has reports whether a list has a string.
func has(list crypto.Value, s string) bool {
	for e := range list.Elements() {
		if e.Text() == s {
			return true
		}
	}
	return false
}

// line returns the line of a value or, if it has none, of the nearest one around it that has; 0 if
// the document has no lines.
func (d *document) line(at string) int {
	for {
		if pos, ok := d.Lines[at]; ok || at == "" {
			return pos.Line
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
}

// forAll reports whether a document is for every call.
func (d *document) forAll() bool { return !d.root.Get("for").Exists() }

package policy

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
)

// A Finding is something in a policy that loads, and that its author may not have meant.
type Finding struct {
	ID       string `json:"id"`             // one of the list in docs/TESTING.md
	Severity string `json:"severity"`       // warning or note
	Document string `json:"document"`       // its Name
	Pointer  string `json:"pointer"`        // JSON Pointer into the document
	Line     int    `json:"line,omitempty"` // 0 if the document has no lines
	What     string `json:"what"`           // is the case
	Remedy   string `json:"remedy"`         // what to write instead, if it is not meant
}

// String returns document, line, id, what is the case, and the remedy.
func (f Finding) String() string {
	at := f.Document
	if f.Line > 0 {
		at += ":" + strconv.Itoa(f.Line)
	}
	return at + ": " + f.Pointer + ": " + f.ID + ": " + f.What + "; " + f.Remedy
}

// Lint returns what may not be meant in a policy, in the order of documents and of their lines. It
// judges no call: a policy without findings may still allow what it should not. The ids are a
// closed list; each is in docs/TESTING.md, with the shortest policy that has it. A nil Policy has
// no findings.
func Lint(p *guardian.Policy) []Finding {
	if p == nil {
		return nil
	}
	l := &linter{stack: readStack(p), order: map[*document]int{}}
	for i, d := range l.docs {
		l.order[d] = i
	}
	l.allowed = map[*declared]bool{}
	for i := range l.rules {
		if r := &l.rules[i]; r.allows() {
			for _, t := range r.tools {
				l.allowed[t] = true
			}
		}
	}
	l.callable()
	l.allows()
	l.guards()
	l.labels()
	l.conditions()
	l.budgets()
	l.lists()
	l.sandboxes()
	l.schemas()
	l.condense()
	slices.SortStableFunc(l.found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(l.order[a.doc], l.order[b.doc]), cmp.Compare(a.Line, b.Line))
	})
	var list []Finding
	for _, f := range l.found {
		list = append(list, f.Finding)
	}
	return list
}

const (
	warning = "warning"
	note    = "note"
)

// severities are the ids, each with how much it matters.
var severities = map[string]string{
	"wide-allow": warning, "destructive-unguarded": warning, "egress-label": warning, "every-empty": warning,
	"pattern-unanchored": warning, "budget-idle": warning, "sandbox-clash": warning, "never-callable": warning,
	"list-of-one": note, "schema-open": note, "sandbox-missing": note, "definition-unpinned": note,
	"condense-idle": note,
}

type linter struct {
	*stack
	order   map[*document]int
	allowed map[*declared]bool // some rule allows it, and no floor or overlay excludes it
	found   []placed
}

type placed struct {
	Finding
	doc *document
}

func (l *linter) find(id string, d *document, at, what, remedy string) {
	f := Finding{id, severities[id], d.Document.Name, at, d.line(at), what, remedy}
	l.found = append(l.found, placed{f, d})
}

// allows finds rules that let any caller change something.
func (l *linter) allows() {
	required := map[*declared]bool{} // of every call of it something is required
	for i := range l.rules {
		if r := &l.rules[i]; r.kind == "requires" && !r.conditional() && r.doc.forAll() {
			for _, t := range r.tools {
				required[t] = true
			}
		}
	}
	for i := range l.rules {
		r := &l.rules[i]
		if !r.allows() || r.conditional() {
			continue
		}
		for _, t := range r.tools {
			if t.Effect != contracts.Read && !required[t] {
				l.find("wide-allow", r.doc, r.at,
					t.Name+" is "+string(t.Effect)+", and the rule allows every call of it",
					"write when or unless: who may, or with which arguments; or require something")
				break
			}
		}
	}
}

// guards finds destructive tools that nothing stands before.
func (l *linter) guards() {
	guarded := map[*declared]bool{}
	for i := range l.rules {
		r := &l.rules[i]
		if r.kind == "budgets" || r.v.Get("deny").Exists() || r.kind == "requires" && asksPeople(r.v) {
			for _, t := range r.tools {
				guarded[t] = true
			}
		}
	}
	for _, t := range l.tools {
		if t.Effect == contracts.Destructive && l.allowed[t] && !guarded[t] {
			l.find("destructive-unguarded", t.doc, t.at,
				"what it does cannot be undone, and no rule denies it, no approval is required and no budget counts it",
				"require an approval, or write a deny or a budget")
		}
	}
}

func asksPeople(requirement crypto.Value) bool {
	for _, key := range []string{"all", "any"} {
		for need := range requirement.Get(key).Elements() {
			if need.Get("approval").Exists() {
				return true
			}
		}
	}
	return false
}

// labels finds labels that tools bring to a session, and with which data may leave.
func (l *linter) labels() {
	brought := map[string]bool{}
	bring := func(entry crypto.Value) {
		for e := range entry.Get("labels").Elements() {
			brought[e.Text()] = true
		}
		for it := entry.Get("threat").Get("outputs").Iter(); it.Next(); {
			brought[string(it.Key())] = true
		}
	}
	for _, t := range l.tools {
		bring(t.v)
	}
	for _, d := range l.docs {
		for it := d.root.Get("threat").Get("outputs").Iter(); it.Next(); {
			brought[string(it.Key())] = true
		}
	}
	stopped := map[string]map[*declared]bool{} // by label: tools about which some rule asks for it
	for i := range l.rules {
		r := &l.rules[i]
		if r.allows() || r.kind == "budgets" {
			continue
		}
		for label := range brought {
			if asksLabel(r.v.Get("when"), label) || asksLabel(r.v.Get("unless"), label) {
				if stopped[label] == nil {
					stopped[label] = map[*declared]bool{}
				}
				for _, t := range r.tools {
					stopped[label][t] = true
				}
			}
		}
	}
	for _, d := range l.docs {
		i := 0
		for e := range d.root.Get("labels").Elements() {
			label, at := e.Text(), "/labels/"+strconv.Itoa(i)
			i++
			for _, t := range l.tools {
				if brought[label] && t.egress && l.allowed[t] && !stopped[label][t] {
					l.find("egress-label", d, at, "data of a session with this label may leave by "+t.Name,
						"deny {egress: true} when {session: labels, has: "+label+"}, in a floor")
					break
				}
			}
		}
	}
}

// asksLabel reports whether a predicate, or one in it, asks whether the session has a label.
func asksLabel(p crypto.Value, label string) bool {
	if p.Get("session").Text() == "labels" && p.Get("has").Text() == label {
		return true
	}
	for it := p.Iter(); it.Next(); {
		if asksLabel(it.Value(), label) {
			return true
		}
	}
	return false
}

// conditions finds every that is true of an empty array, and so relaxes.
func (l *linter) conditions() {
	for i := range l.rules {
		r := &l.rules[i]
		relaxes := r.allows()
		l.every(r, r.v.Get("when"), r.at+"/when", relaxes)
		l.every(r, r.v.Get("unless"), r.at+"/unless", !relaxes)
	}
}

func (l *linter) every(r *statement, p crypto.Value, at string, relaxes bool) {
	for _, key := range []string{"all", "any"} {
		i := 0
		for kid := range p.Get(key).Elements() {
			l.every(r, kid, at+"/"+key+"/"+strconv.Itoa(i), relaxes)
			i++
		}
	}
	if kid := p.Get("not"); kid.Exists() {
		l.every(r, kid, at+"/not", !relaxes)
	}
	if kid := p.Get("that"); kid.Exists() && p.Get("receipt").Exists() {
		l.every(r, kid, at+"/that", relaxes)
	}
	over := p.Get("every")
	if !relaxes || !over.Exists() {
		return
	}
	segments := strings.Split(over.Text(), "/")[1:]
	for i := range segments {
		segments[i] = unescapeSegment.Replace(segments[i])
	}
	for _, t := range r.tools {
		input := t.v.Get("input")
		if !(lengths{input, 0}).some(input, segments) {
			l.find("every-empty", r.doc, at+"/every",
				"every is true of an array that is empty, and a call of "+t.Name+" may have one",
				"write minItems: 1 (of a map minProperties: 1) in the schema")
			return
		}
	}
}

// lengths finds out whether arrays and maps have elements.
type lengths struct {
	root  crypto.Value
	depth int
}

// some reports whether each array or map that a pointer leads to or through has an element, by the
// schema s.
func (x lengths) some(s crypto.Value, segments []string) bool {
	const most = 64 // a schema is nested no deeper
	if x.depth++; x.depth > most {
		return false
	}
	if r := s.Get("$ref"); r.Exists() && x.some(x.resolve(r.Text()), segments) {
		return true
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		all := s.Get(key).Len() > 0
		for branch := range s.Get(key).Elements() {
			all = all && x.some(branch, segments)
		}
		if all {
			return true
		}
	}
	switch {
	case len(segments) == 0:
		return s.Get("minItems").Float() >= 1 || s.Get("minProperties").Float() >= 1 || s.Get("required").Len() > 0
	case segments[0] != "*":
		return x.some(s.Get("properties").Get(segments[0]), segments[1:])
	case !x.some(s, nil):
		return false
	case s.Get("items").Exists():
		return x.some(s.Get("items"), segments[1:])
	}
	return x.some(s.Get("additionalProperties"), segments[1:])
}

func (x lengths) resolve(ref string) crypto.Value {
	v := x.root
	for _, segment := range strings.Split(ref, "/")[1:] {
		if name := unescapeSegment.Replace(segment); v.Kind() == crypto.Array {
			i, _ := strconv.Atoi(name)
			v = v.At(i)
		} else {
			v = v.Get(name)
		}
	}
	return v
}

// lists finds lists of one member.
func (l *linter) lists() {
	for _, d := range l.docs {
		for it := d.root.Get("lists").Iter(); it.Next(); {
			if name := string(it.Key()); it.Value().Len() == 1 {
				l.find("list-of-one", d, "/lists/"+escapeSegment.Replace(name), "a list with one member",
					"write eq with the member, unless more will come")
			}
		}
	}
}

// schemas finds what of schemas and declarations lets more in than it seems to.
func (l *linter) schemas() {
	for _, t := range l.tools {
		l.patterns(t, t.v.Get("input"), t.at+"/input")
		i := 0
		for e := range t.v.Get("open").Elements() {
			l.find("schema-open", t.doc, t.at+"/open/"+strconv.Itoa(i),
				"what is at "+strconv.Quote(e.Text())+" of a call may be anything, and no rule can look below",
				"describe it in the schema")
			i++
		}
		if t.Definition == (contracts.Digest{}) && (describes(t.v.Get("input")) || describes(t.v.Get("output"))) {
			l.find("definition-unpinned", t.doc, t.at,
				"it has descriptions that models read, and no definition: they may change unnoticed",
				"pin the definition, if the tool is not your own")
		}
	}
}

// patterns finds those that are a search.
func (l *linter) patterns(t *declared, s crypto.Value, at string) {
	if p := s.Get("pattern"); p.Kind() == crypto.String {
		re, err := syntax.Parse(p.Text(), syntax.Perl)
		if err == nil && (!ends(re, syntax.OpBeginText, true) || !ends(re, syntax.OpEndText, false)) {
			l.find("pattern-unanchored", t.doc, at+"/pattern",
				"a pattern is a search: any text around what it finds is taken", "write ^(?:…)$")
		}
	}
	for it := s.Iter(); it.Next(); {
		key := string(it.Key())
		below := at + "/" + escapeSegment.Replace(key)
		switch key {
		case "items", "additionalProperties", "propertyNames":
			l.patterns(t, it.Value(), below)
		case "properties", "$defs":
			for kid := it.Value().Iter(); kid.Next(); {
				l.patterns(t, kid.Value(), below+"/"+escapeSegment.Replace(string(kid.Key())))
			}
		case "anyOf", "oneOf":
			i := 0
			for kid := range it.Value().Elements() {
				l.patterns(t, kid, below+"/"+strconv.Itoa(i))
				i++
			}
		}
	}
}

// ends reports whether every match begins, or ends, with an assertion.
func ends(re *syntax.Regexp, op syntax.Op, first bool) bool {
	switch re.Op {
	case op:
		return true
	case syntax.OpCapture:
		return ends(re.Sub[0], op, first)
	case syntax.OpConcat:
		i := 0
		if !first {
			i = len(re.Sub) - 1
		}
		return ends(re.Sub[i], op, first)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !ends(s, op, first) })
	}
	return false
}

// describes reports whether a schema has descriptions.
func describes(s crypto.Value) bool {
	if s.Get("description").Kind() == crypto.String || s.Get("title").Kind() == crypto.String {
		return true
	}
	for it := s.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "items", "additionalProperties":
			if describes(it.Value()) {
				return true
			}
		case "properties", "$defs", "anyOf", "oneOf":
			for kid := it.Value().Iter(); kid.Next(); {
				if describes(kid.Value()) {
					return true
				}
			}
		}
	}
	return false
}

// callable finds tools that no call can be allowed of.
func (l *linter) callable() {
	reason, by := map[*declared]string{}, map[*document]int{}
	for _, d := range l.docs {
		profile, only := d.root.Get("profile"), d.root.Get("only")
		risk, excluded := d.root.Get("ceilings").Get("risk").Text(), 0
		for _, t := range l.tools {
			name, effects, connectors := d.layer+":"+d.name, profile.Get("effects"), profile.Get("connectors")
			switch {
			case effects.Exists() && !has(effects, string(t.Effect)):
				reason[t] = "the profile of " + name + " permits no tool of effect " + string(t.Effect)
				excluded++
			case connectors.Exists() && !has(connectors, t.Connector):
				reason[t] = "the profile of " + name + " permits no tool of connector " + t.Connector
				excluded++
			case only.Exists() && d.forAll() && !selects(only, t):
				reason[t] = "only of " + name + " does not name it"
			case risk != "" && slices.Index(grammar.Risks, string(t.Risk)) > slices.Index(grammar.Risks, risk):
				reason[t] = "its risk is over the ceiling of " + name
			}
		}
		by[d] = excluded
	}
	for _, d := range l.docs {
		if n := by[d]; n > 0 && n == len(l.tools) {
			l.find("never-callable", d, "/profile", "the profile leaves no tool callable", "permit the effects of some")
			clear(l.allowed)
			return
		}
	}
	for _, t := range l.tools {
		why := reason[t]
		if why == "" && !l.allowed[t] {
			why = "no rule allows it"
		}
		if why != "" {
			l.allowed[t] = false
			l.find("never-callable", t.doc, t.at, "no call of it can be allowed: "+why,
				"allow it, or take it out of the bundle")
		}
	}
}

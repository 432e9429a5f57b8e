package policy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/grammar"
)

// A Change is one difference between two policies.
type Change struct {
	Kind     string `json:"kind"`           // tool, rule, requirement, budget, or a key of documents
	What     string `json:"what"`           // added, removed, changed or moved
	Name     string `json:"name"`           // of a tool, layer:document:id, or layer:document
	Document string `json:"document"`       // Name of the document; of what was removed, the old one
	Pointer  string `json:"pointer"`        // JSON Pointer into it
	Line     int    `json:"line,omitempty"` // 0 if the document has no lines
	Widens   string `json:"widens"`         // may a call be allowed that was not? yes, no or unknown
}

// String returns document, line, what was changed, and whether it widens.
func (c Change) String() string {
	at := c.Document
	if c.Line > 0 {
		at += ":" + strconv.Itoa(c.Line)
	}
	return at + ": " + c.Pointer + ": " + c.Kind + " " + c.Name + " " + c.What + "; widens: " + c.Widens
}

const (
	added   = "added"
	removed = "removed"
	changed = "changed"
	moved   = "moved"

	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// Diff returns the changes from one policy to another: what was added, changed and moved in the
// order of the new documents, then what was removed. Versions of documents are no changes, and a
// list is a change of what names it.
//
// Widens says whether the change may allow a call that was not. If all changes say no, the new
// policy allows no call that the old one denies, with the same inputs and trust state; apart from
// calls that the old one denies because judging them takes too many visits. It is decided without a
// call, by the implications of docs/POLICY.md. So unknown is frequent: of a schema that changed,
// for example. A change that says yes widens unless something else denies the calls.
func Diff(from, to *guardian.Policy) []Change {
	d := differ{from: readStack(from), to: readStack(to)}
	d.statements()
	d.tools()
	d.documents()
	return append(d.list, d.gone...)
}

type differ struct {
	from, to   *stack
	list, gone []Change
}

func (d *differ) note(kind, what, name string, of *document, at, widens string) {
	c := Change{kind, what, name, of.Document.Name, at, of.line(at), widens}
	if what == removed {
		d.gone = append(d.gone, c)
	} else {
		d.list = append(d.list, c)
	}
}

// tools notes changes of declarations, key by key.
func (d *differ) tools() {
	for _, t := range d.to.tools {
		old := d.from.named[t.Name]
		if old == nil {
			d.note("tool", added, t.Name, t.doc, t.at, no) // a rule that allows it is a change of its own
			continue
		}
		if t.Effect != old.Effect || t.Connector != old.Connector || t.egress != old.egress {
			d.note("tool", changed, t.Name, t.doc, t.at, unknown)
		}
		if r, q := slices.Index(grammar.Risks, string(t.Risk)), slices.Index(grammar.Risks, string(old.Risk)); r != q {
			d.note("tool", changed, t.Name, t.doc, t.at, either(r > q, no, yes))
		}
		for _, key := range grammar.Tool {
			v, was := inlined(t.doc, t.v.Get(key)), inlined(old.doc, old.v.Get(key))
			if bytes.Equal(v.text, was.text) {
				continue
			}
			what, widens := kindOf(was.v, v.v), unknown
			switch key {
			case "effect", "risk", "connector", "egress":
				continue // seen above, with their defaults
			case "limits":
				widens = limitsWiden(was.v, v.v)
			case "scope":
				widens = scopeWidens(was, v)
			case "sandbox", "definition":
				widens = map[string]string{added: no, removed: yes, changed: unknown}[what]
			}
			at := t.at
			if what != removed {
				at += "/" + key
			}
			d.note("tool", changed, t.Name, t.doc, at, widens)
		}
	}
	for _, t := range d.from.tools {
		if d.to.named[t.Name] == nil {
			d.note("tool", removed, t.Name, t.doc, t.at, no)
		}
	}
}

func either(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

// kindOf returns what became of a value.
func kindOf(old, now crypto.Value) string {
	switch {
	case !old.Exists():
		return added
	case !now.Exists():
		return removed
	}
	return changed
}

// An inline is a value with the members of lists in place of their names.
type inline struct {
	v    crypto.Value
	text []byte // canonical
}

// inlined returns a value of a document.
func inlined(d *document, v crypto.Value) inline {
	if v.Kind() == crypto.Missing {
		return inline{}
	}
	n := nodeOf(v, "")
	putLists(n, d.root.Get("lists"))
	return parsed(n.json(nil))
}

func parsed(text []byte) inline {
	var t crypto.Tree
	if t.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}) != nil {
		return inline{text: text} // cannot be: it was read from a document
	}
	return inline{t.Root(), t.Root().Append(nil)}
}

// putLists puts the members of lists, sorted, in place of their names.
func putLists(n *node, lists crypto.Value) {
	for _, k := range n.kids {
		if (k.name == "in" || k.name == "not_in") && k.kind == crypto.Object && len(k.kids) == 1 && k.has("list") {
			*k.node = *nodeOf(lists.Get(k.get("list").text()), "")
			slices.SortFunc(k.kids, func(a, b kid) int { return bytes.Compare(a.scalar, b.scalar) })
			continue
		}
		putLists(k.node, lists)
	}
}

// limitsWiden says whether one of the limits of a tool is higher.
func limitsWiden(old, now crypto.Value) string {
	for _, key := range grammar.Limits {
		usual := map[string]string{"timeout": "30s", "output": "1MiB", "args": "1MiB"}[key]
		is, was := amount(now.Get(key), usual), amount(old.Get(key), usual)
		if is > was {
			return yes
		}
	}
	return no
}

// amount returns the amount of a duration, a size or a number.
func amount(v crypto.Value, usual string) float64 {
	s := usual
	switch v.Kind() {
	case crypto.Number:
		return v.Float()
	case crypto.String:
		s = v.Text()
	}
	for _, unit := range []struct {
		suffix string
		times  float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}} {
		if digits, ok := strings.CutSuffix(s, unit.suffix); ok {
			n, _ := strconv.ParseFloat(digits, 64)
			return n * unit.times
		}
	}
	return 0
}

// scopeWidens says whether an entry of scope was removed, or is implied by none that is there now.
func scopeWidens(old, now inline) string {
	for e := range old.v.Elements() {
		found := false
		for x := range now.v.Elements() {
			found = found || bytes.Equal(e.Append(nil), x.Append(nil)) || narrows(e, x)
		}
		if !found {
			return either(now.v.Len() < old.v.Len(), yes, unknown)
		}
	}
	return no
}

// narrows reports whether one entry of scope takes only what another one takes. What errs by one
// errs by the other: they have one operator.
func narrows(wide, narrow crypto.Value) bool {
	for _, op := range []string{"in", "within", "cidr"} {
		if wide.Get(op).Exists() && narrow.Get(op).Exists() && !strings.Contains(wide.Get("arg").Text(), "*") {
			p := append(append([]byte(`{"when":`), narrow.Append(nil)...), '}')
			q := append(append([]byte(`{"when":`), wide.Append(nil)...), '}')
			return guardian.Implies(parsed(p).v, parsed(q).v)
		}
	}
	return false
}

// documents notes changes of what a document says of all tools.
func (d *differ) documents() {
	for _, doc := range d.to.docs {
		old := d.from.document(doc)
		if old == nil {
			old = &document{layer: doc.layer}
		}
		for it := doc.root.Iter(); it.Next(); {
			d.key(string(it.Key()), old, doc)
		}
	}
	for _, old := range d.from.docs {
		doc := d.to.document(old)
		if doc == nil {
			doc = &document{layer: old.layer}
		}
		for it := old.root.Iter(); it.Next(); {
			if key := string(it.Key()); !doc.root.Get(key).Exists() {
				d.key(key, old, doc)
			}
		}
	}
}

func (s *stack) document(like *document) *document {
	for _, d := range s.docs {
		if d.layer == like.layer && d.name == like.name {
			return d
		}
	}
	return nil
}

// key notes a change of one key. One of the documents may be empty.
func (d *differ) key(key string, old, doc *document) {
	was, now := inlined(old, old.root.Get(key)), inlined(doc, doc.root.Get(key))
	if bytes.Equal(was.text, now.text) {
		return
	}
	what, of := kindOf(was.v, now.v), doc
	if what == removed {
		of = old
	}
	name := of.layer + ":" + of.name
	switch key {
	case "helm", "layer", "name", "version", "bundle", "lists", "tools", "rules", "requires", "budgets":
		return
	case "ceilings", "profile", "condense":
		for _, part := range slices.Concat(grammar.Ceilings, grammar.Profile, grammar.Condense) {
			was, now := was.v.Get(part), now.v.Get(part)
			if bytes.Equal(was.Append(nil), now.Append(nil)) {
				continue
			}
			widens := partWidens(part, was, now)
			if what := kindOf(was, now); what == removed {
				d.note(key, removed, name, old, "/"+key+"/"+part, widens)
			} else {
				d.note(key, what, name, doc, "/"+key+"/"+part, widens)
			}
		}
		return
	}
	widens := unknown
	switch {
	case key == "labels" || what == added && key != "threat":
		widens = no
	case what == removed && key != "threat":
		widens = yes
	case key == "only":
		widens = no
		for _, t := range d.to.tools {
			if was := d.from.named[t.Name]; was != nil && selects(now.v, t) && !selects(old.root.Get(key), was) {
				widens = yes
			}
		}
	case key == "expires":
		before, err := time.Parse(time.RFC3339, was.v.Text())
		after, err2 := time.Parse(time.RFC3339, now.v.Text())
		widens = either(err == nil && err2 == nil && !after.After(before), no, yes)
	}
	if key == "for" { // without it the document is for every call; what else it says is listed by itself
		widens = either(what == removed || d.from.document(doc) == nil, no, unknown)
	}
	d.note(key, what, name, of, "/"+key, widens)
}

// partWidens says whether a part of a profile, or a ceiling, permits more. Parts of condense change
// no verdict.
func partWidens(part string, old, now crypto.Value) string {
	if slices.Contains(grammar.Condense, part) {
		return no
	}
	switch kindOf(old, now) {
	case added:
		return no
	case removed:
		return yes
	}
	switch part {
	case "effects", "connectors":
		for e := range now.Elements() {
			if !has(old, e.Text()) {
				return yes
			}
		}
		return no
	case "sandbox":
		for it := old.Iter(); it.Next(); {
			if x := now.Get(string(it.Key())); !x.Exists() {
				return yes
			} else if !x.Equal(it.Value()) {
				return unknown
			}
		}
		return no
	case "risk":
		return either(slices.Index(grammar.Risks, now.Text()) > slices.Index(grammar.Risks, old.Text()), yes, no)
	}
	return either(amount(now, "") > amount(old, ""), yes, no)
}

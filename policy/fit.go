package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A fitter makes of a published schema one of the subset that policies have. What the subset lacks
// is found by compiling: the compiler of the policy is the only judge of it.
type fitter struct {
	tool   string
	closed bool // of an input
	notes  []Note
	root   *node
}

// note notes what was done with what stood at a place, and writes it above a node that stays.
func (f *fitter) note(above *node, at, what string) {
	f.notes = append(f.notes, Note{f.tool, at, what})
	above.comments = append(above.comments, comment(what+" ("+at+")"))
}

// comment returns a text on one line of printable characters.
func comment(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// fit returns the schema in the subset.
func (f *fitter) fit(schema *node) *node {
	f.root = schema
	if schema.kind == crypto.Object {
		renameDefinitions(schema, schema)
	}
	for i := 0; ; i++ {
		f.prepare(f.root)
		e := f.compile()
		switch {
		case e == nil:
			return f.root
		case i < maxMended:
			f.mend(e)
		default:
			f.takeOut(found{schema: f.root}, "more than 200 places that policies cannot say")
		}
	}
}

// maxMended bounds the time: the whole schema is compiled again after each place.
const maxMended = 200

func (f *fitter) compile() *jsonschema.Error {
	var t crypto.Tree
	text := f.root.json(nil)
	if err := t.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}); err != nil {
		return &jsonschema.Error{What: err.Error()}
	}
	_, err := jsonschema.Compile(t.Root(), f.closed)
	var e *jsonschema.Error
	if errors.As(err, &e) || err == nil {
		return e
	}
	return &jsonschema.Error{What: err.Error()}
}

// prepare writes the schema, and those in it, in the words of the subset, and
// closes the objects of an input.
func (f *fitter) prepare(n *node) {
	if n.kind != crypto.Object {
		return
	}
	n.kids = slices.DeleteFunc(n.kids, func(k kid) bool { return strings.HasPrefix(k.name, "x-") })
	f.merge(n)
	if t := n.get("type"); n.get("nullable").isTrue() && t != nil && t.kind == crypto.String {
		n.set("type", listNode(t, textNode("null")))
		n.remove("nullable")
	}
	if f.closed {
		f.closeObject(n)
	}
	for _, s := range schemasIn(n) {
		f.prepare(s)
	}
}

// merge merges the only schema of an allOf into the schema that it is in, unless they have a
// keyword in common.
func (f *fitter) merge(n *node) {
	all := n.get("allOf")
	if all == nil || all.kind != crypto.Array || len(all.kids) != 1 || all.kids[0].kind != crypto.Object {
		return
	}
	only := all.kids[0].node
	if slices.ContainsFunc(only.kids, func(k kid) bool { return n.has(k.name) && !isAnnotation(k.name) }) {
		return
	}
	n.remove("allOf")
	for _, k := range only.kids {
		if !n.has(k.name) {
			n.set(k.name, k.node)
		}
	}
}

func isAnnotation(keyword string) bool {
	return keyword == "title" || keyword == "description" || keyword == "examples" || keyword == "$comment"
}

// closeObject closes an object that names its members, and one at the root that has none.
func (f *fitter) closeObject(n *node) {
	more := n.get("additionalProperties")
	switch {
	case more == nil && n.has("properties"), more == nil && n == f.root && n.get("type").text() == "object" &&
		!n.has("$ref") && !n.has("anyOf") && !n.has("oneOf"):
		n.set("additionalProperties", falseNode)
		f.note(n, n.at, "closed: members that it does not name are refused")
	case more != nil && (more.isTrue() || more.kind == crypto.Object && len(more.kids) == 0):
		n.set("additionalProperties", falseNode)
		f.note(n, more.at, "closed: members that it does not name are refused")
	}
}

// schemasIn returns the schemas that stand in a schema.
func schemasIn(n *node) (list []*node) {
	for _, k := range n.kids {
		switch k.name {
		case "items", "additionalProperties":
			list = append(list, k.node)
		case "properties", "$defs", "anyOf", "oneOf", "allOf":
			for _, s := range k.kids {
				list = append(list, s.node)
			}
		}
	}
	return list
}

// renameDefinitions renames definitions of draft 7, and what refers to them.
func renameDefinitions(n, root *node) {
	if defs := n.get("definitions"); n == root && defs != nil && !n.has("$defs") {
		n.remove("definitions")
		n.set("$defs", defs)
	}
	if rest, ok := strings.CutPrefix(n.get("$ref").text(), "#/definitions/"); ok && root.has("$defs") {
		ref := textNode("#/$defs/" + rest)
		ref.at = n.get("$ref").at
		n.set("$ref", ref)
	}
	for _, s := range schemasIn(n) {
		if s.kind == crypto.Object {
			renameDefinitions(s, root)
		}
	}
}

// mend takes out, or closes, what the subset does not have.
func (f *fitter) mend(e *jsonschema.Error) {
	p := f.find(e.Pointer)
	switch {
	case p.keyword == "required" && f.dropRequired(p.schema):
	case p.keyword != "":
		f.note(p.schema, p.schema.get(p.keyword).at, "left out: "+e.What)
		p.schema.remove(p.keyword)
	case f.closed && f.describe(p.schema):
	case !f.closed && p.schema.isTrue():
		*p.schema = node{kind: crypto.Object, at: p.schema.at}
	default:
		f.takeOut(p, e.What)
	}
}

// dropRequired takes names that the schema does not have out of required. It reports whether there
// were some.
func (f *fitter) dropRequired(n *node) bool {
	list, seen := n.get("required"), map[string]bool{}
	kept := slices.DeleteFunc(slices.Clone(list.kids), func(k kid) bool {
		name := k.text()
		twice := seen[name]
		seen[name] = true
		return twice || k.kind != crypto.String || !n.get("properties").has(name)
	})
	if list.kind != crypto.Array || len(kept) == len(list.kids) {
		return false
	}
	f.note(n, list.at, "left out: names that are required and not in properties, or twice")
	list.kids = kept
	return true
}

// anyScalar returns the schema of values that are neither objects nor arrays.
func anyScalar() *node {
	n := &node{kind: crypto.Object}
	n.set("type", listNode(textNode("string"), textNode("number"), textNode("boolean"), textNode("null")))
	return n
}

// anything returns the schema in place of one that cannot be kept.
func (f *fitter) anything() *node {
	if f.closed {
		return anyScalar()
	}
	return &node{kind: crypto.Object}
}

// nothing returns the schema of {} alone.
func nothing(at string) *node {
	n := &node{kind: crypto.Object, at: at}
	n.set("type", textNode("object"))
	n.set("additionalProperties", falseNode)
	return n
}

// describe closes a schema that lets anything in. It reports whether it did something.
func (f *fitter) describe(n *node) bool {
	const scalars = "closed: it may be anything; only a string, number, boolean or null is taken"
	if n.isTrue() {
		at := n.at
		*n = *anyScalar()
		n.at = at
		f.note(n, at, scalars)
		return true
	}
	if n.kind != crypto.Object {
		return false
	}
	named := func(keywords ...string) bool { return slices.ContainsFunc(keywords, n.has) }
	if !named("type", "$ref", "anyOf", "oneOf", "enum", "const") {
		switch {
		case n == f.root, named("properties", "additionalProperties", "required", "minProperties", "maxProperties"):
			n.set("type", textNode("object"))
			f.note(n, n.at, "closed: it has no type; only an object is taken")
		case named("items", "minItems", "maxItems", "uniqueItems"):
			n.set("type", textNode("array"))
			f.note(n, n.at, "closed: it has no type; only an array is taken")
		case named("pattern", "minLength", "maxLength", "format"):
			n.set("type", textNode("string"))
			f.note(n, n.at, "closed: it has no type; only a string is taken")
		default:
			n.set("type", anyScalar().get("type"))
			f.note(n, n.at, scalars)
		}
		return true
	}
	is := func(name string) bool {
		t := n.get("type")
		return t.text() == name ||
			t != nil && slices.ContainsFunc(t.kids, func(k kid) bool { return k.text() == name })
	}
	switch {
	case is("array") && !n.has("items"):
		n.set("items", anyScalar())
		f.note(n, n.at, "closed: its elements may be anything; only strings, numbers, booleans and null are taken")
	case is("object") && !named("properties", "additionalProperties"):
		n.set("additionalProperties", falseNode)
		f.note(n, n.at, "closed: it names no members; only {} is taken")
	default:
		return false
	}
	return true
}

// takeOut takes a schema out of what it stands in.
func (f *fitter) takeOut(p found, what string) {
	if p.in == nil { // nothing of it can be kept
		n := f.anything()
		if f.closed {
			n = nothing("")
		}
		n.at, f.root = f.root.at, n
		f.note(n, n.at, "left out: all of the schema: "+what)
		return
	}
	at, list := p.schema.at, p.in.get(p.under)
	switch p.under {
	case "properties", "$defs":
		list.kids = slices.DeleteFunc(list.kids, func(k kid) bool { return k.node == p.schema })
		if required := p.in.get("required"); required != nil && p.under == "properties" {
			required.kids = slices.DeleteFunc(required.kids, func(k kid) bool { return k.text() == p.name })
		}
	case "anyOf", "oneOf":
		list.kids = slices.DeleteFunc(list.kids, func(k kid) bool { return k.node == p.schema })
		if len(list.kids) == 0 {
			p.in.remove(p.under)
		}
	case "items":
		p.in.set("items", f.anything())
	default:
		p.in.remove(p.under)
	}
	f.note(p.in, at, "left out: "+what)
}

// A found place is a schema, or a keyword of it.
type found struct {
	schema  *node
	keyword string // "": the schema itself
	in      *node  // the schema that it is in; nil: it is the root
	under   string // the keyword there
	name    string // of the member there
}

// find goes to the place of an error.
func (f *fitter) find(pointer string) found {
	p := found{schema: f.root}
	segments := strings.Split(pointer, "/")[1:]
	if pointer == "" {
		segments = nil
	}
	for i := 0; i < len(segments); i++ {
		keyword := unescapeSegment.Replace(segments[i])
		next := p.schema.get(keyword)
		if next == nil {
			return p
		}
		name := ""
		switch keyword {
		case "items", "additionalProperties":
		case "properties", "$defs", "anyOf", "oneOf":
			if i++; i == len(segments) {
				return p.at(keyword)
			}
			name = unescapeSegment.Replace(segments[i])
			list := next
			next = list.get(name)
			if j, err := strconv.Atoi(name); list.kind == crypto.Array && err == nil && j < len(list.kids) {
				next = list.kids[j].node
			}
			if next == nil {
				return p.at(keyword)
			}
		default:
			return p.at(keyword)
		}
		if next.kind != crypto.Object && (keyword == "items" || keyword == "additionalProperties") &&
			!next.isTrue() {
			return p.at(keyword)
		}
		p = found{schema: next, in: p.schema, under: keyword, name: name}
	}
	return p
}

func (p found) at(keyword string) found {
	p.keyword = keyword
	return p
}

var unescapeSegment = strings.NewReplacer("~0", "~", "~1", "/")

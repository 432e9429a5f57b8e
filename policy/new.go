package policy

import (
	"fmt"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

// A Note is a place in a list of tools that [New] did not take over as it is.
type Note struct {
	Tool    string `json:"tool"`    // its name
	Pointer string `json:"pointer"` // JSON Pointer into the list
	What    string `json:"what"`    // begins with "closed: " or "left out: "
}

// String returns tool, pointer and what was done.
func (n Note) String() string { return n.Tool + ": " + n.Pointer + ": " + n.What }

// New returns the text of a bundle that declares the tools of a list, in the form in which a model
// or a client gets them: the result of tools/list of MCP, with or without the response around it,
// or an array of tools as MCP, OpenAI or Anthropic have them. A list that mixes the forms is
// refused.
//
// The bundle is a draft for a person. It allows nothing, and each tool is destructive until the
// person says less. It pins the definition of each tool, the SHA-256 of its canonical JSON: a
// driver that declares none is not used until that line is taken out.
//
// The input of a tool is closed: what the published schema leaves open is refused, and a value that
// may be anything is a string, number, boolean or null. Keywords that policies do not have are left
// out, and a keyword that is left out may have refused what the input takes now. Each such place is
// a note, and a comment in the text; an output has only notes of the second kind. Descriptions
// stay. A tool that cannot be declared is left out, with a note: one without a schema, which runs
// at the provider, or one with a name that no tool can have.
//
// The text loads, or New returns an error.
func New(tools []byte, bundle string) (yaml []byte, notes []Note, err error) {
	if !contracts.IsID(bundle) {
		return nil, nil, fmt.Errorf("policy: %s is no name of a bundle: use 1 to 64 of A-Z a-z 0-9 . _ -",
			strconv.QuoteToASCII(bundle))
	}
	var tree crypto.Tree
	if err := tree.Parse(tools, crypto.Limits{Bytes: maxJSON, Depth: maxDepth}); err != nil {
		return nil, nil, fmt.Errorf("policy: the list of tools is not strict JSON: %w", err)
	}
	list, err := readList(tree.Root())
	if err != nil {
		return nil, nil, err
	}
	d := drafter{declared: &node{kind: crypto.Object}}
	for _, t := range list {
		if err := d.declare(t); err != nil {
			return nil, nil, err
		}
	}
	if len(d.declared.kids) == 0 {
		return nil, nil, fmt.Errorf("policy: none of the %d tools of the list can be declared", len(list))
	}
	yaml = d.text(bundle)
	doc, err := Parse("tools.yaml", yaml)
	if err == nil {
		_, err = guardian.Compile(doc)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("policy: no bundle can be made of the list: %w", err)
	}
	return yaml, d.notes, nil
}

// A drafter collects the tools of a bundle.
type drafter struct {
	declared *node
	notes    []Note
}

func (d *drafter) leaveOut(t listed, what string) {
	d.notes = append(d.notes, Note{Tool: t.name, Pointer: t.at, What: "left out: " + what})
}

// declare adds a tool.
func (d *drafter) declare(t listed) error {
	switch {
	case !t.input.Exists() && !t.bare:
		d.leaveOut(t, "it has no schema: it runs at the provider, where no kernel stands before it")
		return nil
	case !contracts.IsTool(t.name):
		d.leaveOut(t, "its name is not 1 to 128 of A-Z a-z 0-9 . _ : @ / -")
		return nil
	case d.declared.get(t.name) != nil:
		return fmt.Errorf("policy: %s: a second tool %s: a tool has one declaration", t.at, t.name)
	}
	x := &node{kind: crypto.Object, at: t.at}
	x.set("effect", textNode("destructive"))
	x.set("definition", textNode(crypto.Sum(t.definition.Append(nil)).String()))
	schema := nothing(t.inputAt)
	if !t.bare {
		schema = nodeOf(t.input, t.inputAt)
	}
	input := fitter{tool: t.name, closed: true}
	x.set("input", input.fit(schema))
	d.notes = append(d.notes, input.notes...)
	if t.output.Kind() == crypto.Object {
		output := fitter{tool: t.name}
		x.set("output", output.fit(nodeOf(t.output, t.outputAt)))
		d.notes = append(d.notes, output.notes...)
	}
	d.declared.set(t.name, x)
	return nil
}

// text returns the bundle.
func (d *drafter) text(bundle string) []byte {
	w := writer{}
	w.line(0, "# A draft: it allows nothing yet. Say of each tool what it does, read or write where")
	w.line(0, "# destructive is too much, and write the rules. A definition binds the tool to drivers that")
	w.line(0, "# declare it; take the line out if yours are functions of your own.")
	w.line(0, "helm: policy/v1")
	w.line(0, "layer: P1")
	w.line(0, "bundle: {name: "+string(scalarText(bundle))+", version: 1}")
	w.line(0, "tools:")
	for _, t := range d.declared.kids {
		w.member(1, t.name, t.node)
	}
	w.line(0, "rules: []")
	return w.out
}

// A listed tool is one of a list, whatever its form.
type listed struct {
	name, at          string
	definition        crypto.Value // what its digest is of
	input, output     crypto.Value
	bare              bool // it takes no arguments
	inputAt, outputAt string
}

// A form of tools in a list.
type form string

const (
	ofMCP       form = "MCP"
	ofAnthropic form = "Anthropic"
	ofOpenAI    form = "OpenAI"
	ofNone      form = "" // of a tool that has no schema
)

// readList returns the tools of a list. They have one form.
func readList(root crypto.Value) ([]listed, error) {
	at := ""
	for _, key := range []string{"result", "tools"} {
		if x := root.Get(key); x.Exists() {
			root, at = x, at+"/"+key
		}
	}
	if root.Kind() != crypto.Array || root.Len() == 0 {
		return nil, fmt.Errorf("policy: no list of tools: hand in the result of tools/list, or an array of tools")
	}
	var list []listed
	of, first := ofNone, ""
	for e := range root.Elements() {
		t, is, err := readListed(e, at+"/"+strconv.Itoa(len(list)))
		switch {
		case err != nil:
			return nil, err
		case is != ofNone && of == ofNone:
			of, first = is, t.at
		case is != ofNone && is != of:
			return nil, fmt.Errorf("policy: %s: a tool as %s has it, and %s is as %s has it: hand in lists of one form",
				t.at, is, first, of)
		}
		list = append(list, t)
	}
	return list, nil
}

// readListed reads one tool, and returns the form that it has.
func readListed(v crypto.Value, at string) (listed, form, error) {
	t := listed{at: at, definition: v}
	if v.Kind() != crypto.Object {
		return t, ofNone, fmt.Errorf("policy: %s: a tool is an object", at)
	}
	is := ofNone
	mark := func(of form, has bool) error {
		if has && is != ofNone {
			return fmt.Errorf("policy: %s: a tool as %s and as %s has it", at, is, of)
		}
		if has {
			is = of
		}
		return nil
	}
	function := v.Get("function")
	for _, x := range []struct {
		of  form
		has bool
	}{
		{ofMCP, v.Get("inputSchema").Exists()}, {ofAnthropic, v.Get("input_schema").Exists()},
		{ofOpenAI, function.Exists() || v.Get("parameters").Exists() || v.Get("type").Text() == "function"},
	} {
		if err := mark(x.of, x.has); err != nil {
			return t, ofNone, err
		}
	}
	key := ""
	switch is {
	case ofMCP:
		key = "inputSchema"
		t.output, t.outputAt = v.Get("outputSchema"), at+"/outputSchema"
	case ofAnthropic:
		key = "input_schema"
	case ofOpenAI:
		key = "parameters"
		if function.Exists() {
			v, at = function, at+"/function"
			t.definition = v
		}
	}
	name := v.Get("name")
	t.name = name.Text()
	if key != "" && name.Kind() != crypto.String {
		return t, is, fmt.Errorf("policy: %s: the tool has no name", at)
	}
	if key != "" {
		t.input, t.inputAt = v.Get(key), at+"/"+key
		t.bare = !t.input.Exists() // a function without parameters takes no arguments
	}
	return t, is, nil
}

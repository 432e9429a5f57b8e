package policy

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

// readYAML has the library find the structure, and decides here what each node means: the library's
// own reading of scalars, tags, merge keys and duplicates is never used.
func readYAML(b []byte) (contracts.Document, *guardian.LoadError) {
	if len(b) > maxYAML {
		return contracts.Document{}, refuse(contracts.Pos{Line: 1, Column: 1}, "YAML of more than 1 MiB",
			"split the document, or write it as JSON")
	}
	if refused := checkYAML(b); refused != nil {
		return contracts.Document{}, refused
	}
	root, refused := compose(b)
	if refused != nil {
		return contracts.Document{}, refused
	}
	if root.Kind != yaml.MappingNode {
		return contracts.Document{}, refuse(place(root), "not a mapping", "expected a document: keys and values")
	}
	c := converter{places: newPlaces()}
	if refused := c.value(root, place(root), 1); refused != nil {
		return contracts.Document{}, refused
	}
	var t crypto.Tree
	if err := t.Parse(c.out, crypto.Limits{Bytes: math.MaxInt32, Depth: maxDepth, Object: true}); err != nil {
		// cannot be
		return contracts.Document{}, refuse(place(root), "not JSON when converted: "+err.Error(), "write it as JSON")
	}
	return contracts.Document{Canonical: t.Root().Append(nil), Lines: c.lines}, nil
}

// compose returns the root of the one document in a text.
func compose(b []byte) (root *yaml.Node, refused *guardian.LoadError) {
	defer func() {
		if recover() != nil { // a fault of the library is a refusal, not a crash of the host
			root, refused = nil, refuse(contracts.Pos{Line: 1, Column: 1}, "the YAML library fails on this text",
				"write it in plainer YAML, or as JSON")
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(b), yaml.WithStreamNodes())
	if err != nil {
		return nil, failure(b, err)
	}
	for {
		var n yaml.Node
		if err := loader.Load(&n); err == io.EOF {
			break
		} else if err != nil {
			return nil, failure(b, err)
		}
		switch {
		case n.Kind == yaml.StreamNode && (n.Stream.Version != nil || len(n.Stream.TagDirectives) > 0):
			return nil, refuse(place(&n), "a directive", "take the line that starts with % out")
		case n.Kind == yaml.StreamNode:
		case root != nil:
			return nil, refuse(place(&n), "a second document", "write one document a file")
		case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
			root = n.Content[0]
		}
	}
	if root == nil {
		return nil, refuse(contracts.Pos{Line: 1, Column: 1}, "no document", "expected keys and values")
	}
	return root, nil
}

// failure returns the library's error in our form.
func failure(b []byte, err error) *guardian.LoadError {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return refuse(contracts.Pos{Line: 1, Column: 1}, "not YAML: "+err.Error(), "")
	}
	if b, at := start(b), (contracts.Pos{Line: e.Mark.Line, Column: e.Mark.Column}); b.tabAt(at) {
		return refuse(at, "a tab", "indent with spaces")
	}
	mark, what := e.Mark, "not YAML: "+e.Message
	if e.ContextMsg != "" {
		what += " " + e.ContextMsg
		if e.ContextMark.Line > 0 && e.ContextMark.Line != mark.Line {
			what += " that starts on line " + strconv.Itoa(e.ContextMark.Line)
		}
	}
	return refuse(contracts.Pos{Line: max(mark.Line, 1), Column: max(mark.Column, 1)}, what,
		"check indentation, quotes and brackets")
}

func place(n *yaml.Node) contracts.Pos { return contracts.Pos{Line: n.Line, Column: n.Column} }

// A converter writes nodes as JSON text, with keys in the order of the source.
type converter struct {
	places
	out    []byte
	number crypto.Tree
}

func (c *converter) value(n *yaml.Node, key contracts.Pos, depth int) *guardian.LoadError {
	if refused := checkProperties(n); refused != nil {
		return refused
	}
	if !c.note(memberAt(key, place(n))) {
		return refuse(place(n), "keys too long above too many values", "shorten the keys, or split the document")
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return c.scalar(n)
	case yaml.SequenceNode, yaml.MappingNode:
		if depth > maxDepth {
			return refuse(place(n), "nested more than 128 deep", "flatten it")
		}
		if n.Kind == yaml.SequenceNode {
			return c.sequence(n, depth)
		}
		return c.mapping(n, depth)
	}
	// cannot happen: aliases are refused above
	return refuse(place(n), "neither a mapping, a sequence nor a scalar", "")
}

// checkProperties refuses properties that change the meaning of a node: anchors, tags, and aliases
// to another node.
func checkProperties(n *yaml.Node) *guardian.LoadError {
	switch {
	case n.Kind == yaml.AliasNode:
		return refuse(place(n), "an alias", "write the value out")
	case n.Anchor != "":
		return refuse(place(n), "an anchor", "take it out, and write the value out where it is needed")
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return refuse(place(n), "a tag", "take it out; quote the value to mean a string")
	}
	return nil
}

func (c *converter) sequence(n *yaml.Node, depth int) *guardian.LoadError {
	c.out = append(c.out, '[')
	for i, element := range n.Content {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		back := c.enter(strconv.Itoa(i))
		if refused := c.value(element, place(element), depth+1); refused != nil {
			return refused
		}
		c.leave(back)
	}
	c.out = append(c.out, ']')
	return nil
}

func (c *converter) mapping(n *yaml.Node, depth int) *guardian.LoadError {
	c.out = append(c.out, '{')
	first := make(map[string]contracts.Pos, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if refused := checkKey(key); refused != nil {
			return refused
		}
		if at, twice := first[key.Value]; twice {
			return refuse(place(key), "duplicate key; the first is on line "+strconv.Itoa(at.Line), "keep one")
		}
		first[key.Value] = place(key)
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(crypto.AppendString(c.out, key.Value), ':')
		back := c.enter(key.Value)
		if refused := c.value(value, place(key), depth+1); refused != nil {
			return refused
		}
		c.leave(back)
	}
	c.out = append(c.out, '}')
	return nil
}

func checkKey(n *yaml.Node) *guardian.LoadError {
	if refused := checkProperties(n); refused != nil {
		return refused
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		return refuse(place(n), "a key that is a mapping or a sequence", "expected a string")
	case n.Value == "<<":
		return refuse(place(n), "a merge key", "write the members out")
	case n.Value == "" && isPlain(n):
		return refuse(place(n), "a key that is not there", `write a key, or "" to mean the empty one`)
	}
	return nil
}

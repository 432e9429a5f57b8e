package jsonschema

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// naming is what propertyNames allows the names of members to be.
type naming struct {
	text *text           // nil if any
	enum *set            // nil if any
	of   map[string]bool // the strings of enum
}

// readNaming reads propertyNames, a schema for strings, of which only type, bounds, pattern and
// enum are supported. They are read as if they stood in a schema for a value.
func readNaming(c *compiler, p place) *naming {
	v, at := p.v.Get("propertyNames"), join(p.at, "propertyNames")
	if v.Kind() == crypto.Missing || c.err != nil || !c.want(v, crypto.Object, at) {
		return nil
	}
	n := &node{at: at, types: anyType}
	for it := v.Iter(); it.Next(); {
		switch keyword := string(it.Key()); keyword {
		case "type", "pattern", "minLength", "maxLength", "enum",
			"title", "description", "examples", "format", "$comment":
			c.keyword(n, place{v, at}, keyword, it.Value())
		default:
			c.fail(join(at, keyword), "keyword "+label(keyword)+" is not supported in propertyNames",
				"use type, pattern, minLength, maxLength or enum")
		}
	}
	if n.narrow(); c.err == nil && n.may&TypeString == 0 {
		c.fail(at, "names are strings", `write "type": "string"`)
	}
	x := &naming{text: n.text, enum: n.enum}
	if c.err != nil || n.enum == nil {
		return x
	}
	x.of = make(map[string]bool, len(n.enum.values))
	for _, v := range n.enum.values {
		if v.Kind() == crypto.String {
			x.of[v.Text()] = true
		}
	}
	return x
}

// allows reports whether a member may have the name.
func (x *naming) allows(name []byte, w *walk) bool {
	return (x.of == nil || x.of[string(name)]) && (x.text == nil || x.text.content(name, w) == "")
}

// list says what names there may be.
func (x *naming) list() string {
	var parts []string
	if t := x.text; t != nil {
		if t.pattern != nil {
			parts = append(parts, "of the pattern "+plain(t.pattern.re.String()))
		}
		if t.min > 0 {
			parts = append(parts, "of at least "+strconv.FormatUint(t.min, 10)+" characters")
		}
		if t.max != unlimited {
			parts = append(parts, "of at most "+strconv.FormatUint(t.max, 10)+" characters")
		}
	}
	if x.enum != nil {
		parts = append(parts, "one of "+x.enum.list())
	}
	return "each name " + strings.Join(parts, ", ")
}

package jsonschema

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// resolve returns the schema that a $ref leads to. It walks from schema to schema and never through
// enum, default or an annotation: their content is data, even if it looks like a schema.
func (c *compiler) resolve(ref crypto.Value, at string) (place, bool) {
	const remedy = "use # or a pointer to a schema here, such as #/$defs/name"
	if !c.want(ref, crypto.String, at) {
		return place{}, false
	}
	fragment, local := strings.CutPrefix(ref.Text(), "#")
	if !local || fragment != "" && fragment[0] != '/' {
		c.fail(at, "only a $ref into the same schema is supported", remedy)
		return place{}, false
	}
	pointer, ok := unpercent(fragment)
	if !ok {
		c.fail(at, "the fragment is not percent-encoded UTF-8", remedy)
		return place{}, false
	}
	p := place{c.doc, ""}
	for rest := pointer; rest != "" && ok; {
		p, rest, ok = p.step(rest)
	}
	if !ok {
		c.fail(at, "the $ref leads to no schema", remedy)
	}
	return p, ok
}

// step returns the schema within a schema that a pointer leads to first, and the rest of the
// pointer.
func (p place) step(pointer string) (next place, rest string, ok bool) {
	keyword, rest, ok := segment(pointer)
	v, at := p.v.Get(keyword), join(p.at, keyword)
	var name string
	switch {
	case !ok:
		return place{}, "", false
	case keyword == "items", keyword == "additionalProperties":
		return place{v, at}, rest, v.Kind() != crypto.Missing
	case keyword == "properties", keyword == "$defs":
		name, rest, ok = segment(rest)
		v = v.Get(name)
	case keyword == "anyOf", keyword == "oneOf":
		name, rest, ok = segment(rest)
		i, err := strconv.Atoi(name)
		ok = ok && err == nil && strconv.Itoa(i) == name
		v = v.At(i)
	default:
		return place{}, "", false
	}
	return place{v, join(at, name)}, rest, ok && v.Kind() != crypto.Missing
}

// segment cuts the first segment off a JSON Pointer. It reports false if there is none or it is
// malformed.
func segment(pointer string) (name, rest string, ok bool) {
	if pointer == "" {
		return "", "", false
	}
	text, _, _ := strings.Cut(pointer[1:], "/")
	name = pointerUnescapes.Replace(text)
	return name, pointer[1+len(text):], pointerEscapes.Replace(name) == text
}

var pointerUnescapes = strings.NewReplacer("~0", "~", "~1", "/")

// unpercent decodes a URI fragment, RFC 3986 section 2.1.
func unpercent(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		x, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(x))
		i += 2
	}
	return string(b), utf8.Valid(b)
}

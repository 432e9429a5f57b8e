package jsonschema

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/pattern"
)

// Keywords are those of the subset.
var Keywords = []string{
	"type", "const", "enum",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "pattern",
	"minItems", "maxItems", "uniqueItems", "items",
	"properties", "required", "dependentRequired", "propertyNames", "additionalProperties",
	"minProperties", "maxProperties",
	"anyOf", "oneOf", "$ref", "$defs", "default",
	"title", "description", "format", "$schema", "$comment", "examples", "deprecated", "readOnly", "writeOnly",
}

// keyword reads one keyword of the schema p, except those that hold schemas.
func (c *compiler) keyword(n *node, p place, name string, v crypto.Value) {
	at := join(p.at, name)
	if !slices.Contains(Keywords, name) {
		remedy := remedies[name]
		if remedy == "" {
			remedy = "remove it, or correct its spelling"
		}
		c.fail(at, "keyword "+label(name)+" is not supported", remedy)
		return
	}
	switch name {
	case "type":
		c.readType(n, v, at)
	case "const":
		if c.sets[at] == nil {
			c.sets[at] = newSet([]crypto.Value{v})
		}
		n.constant = c.sets[at]
	case "enum":
		n.enum = c.readEnum(v, at)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		if n.number == nil {
			n.number = &number{min: math.Inf(-1), max: math.Inf(1), above: math.Inf(-1), below: math.Inf(1)}
		}
		n.number.read(c, p.v, name, v, at)
	case "minLength", "maxLength", "pattern":
		if n.text == nil {
			n.text = &text{max: unlimited}
		}
		n.text.read(c, name, v, at)
	case "minItems", "maxItems", "uniqueItems":
		n.arrays().read(c, name, v, at)
	case "default":
		n.value = v
	case "minProperties", "maxProperties":
		if n.object == nil {
			n.object = &object{max: unlimited}
		}
		n.object.read(c, name, v, at)
	case "title", "description", "format", "$schema", "$comment":
		c.want(v, crypto.String, at)
	case "examples":
		c.want(v, crypto.Array, at)
	case "deprecated", "readOnly", "writeOnly":
		c.want(v, crypto.Bool, at)
	} // the others are read by applicators
}

// remedies says what to use instead of common keywords that are not supported.
var remedies = map[string]string{
	"$anchor":               "use $ref with a pointer, such as #/$defs/name",
	"$dynamicAnchor":        "write the levels out, as many as there may be",
	"$dynamicRef":           "use $ref with a pointer, such as #/$defs/name",
	"$recursiveAnchor":      "write the levels out, as many as there may be",
	"$recursiveRef":         "write the levels out, as many as there may be",
	"$id":                   "remove it; a $ref is always into this schema",
	"$vocabulary":           "remove it",
	"additionalItems":       "remove it, and use items for all elements",
	"allOf":                 "merge the schemas into one, or use $ref beside other keywords",
	"contains":              "constrain all elements with items",
	"contentEncoding":       "remove it, or use pattern",
	"contentMediaType":      "remove it",
	"contentSchema":         "remove it",
	"definitions":           "draft 7: rename it to $defs, also in each $ref",
	"disallow":              "say what is allowed, with type, enum, pattern or oneOf",
	"dependencies":          "draft 7: write dependentRequired, or use oneOf",
	"divisibleBy":           "draft 3: write multipleOf",
	"dependentSchemas":      "use oneOf",
	"else":                  "use oneOf",
	"extends":               "draft 3: merge the schemas into one, or use $ref beside other keywords",
	"id":                    "draft 4: remove it; a $ref is always into this schema",
	"if":                    "use oneOf",
	"maxContains":           "use maxItems",
	"minContains":           "use minItems",
	"not":                   "say what is allowed, with enum, pattern or oneOf",
	"nullable":              `OpenAPI: write "type": [type, "null"]`,
	"patternProperties":     "write propertyNames with the pattern, and the schema in additionalProperties",
	"prefixItems":           "use an object with named members",
	"then":                  "use oneOf",
	"unevaluatedItems":      "use items",
	"unevaluatedProperties": `use "additionalProperties": false`,
}

func (c *compiler) want(v crypto.Value, k crypto.Kind, at string) bool {
	if v.Kind() != k {
		c.fail(at, "expected "+k.String()+", not "+v.Kind().String(), "correct its type")
	}
	return v.Kind() == k
}

// length reads a bound of a length.
func (c *compiler) length(v crypto.Value, at string) uint64 {
	n, ok := v.Uint()
	if !ok {
		c.fail(at, "expected a whole number from 0 on", "correct it")
	}
	return n
}

// readType reads the keyword type.
func (c *compiler) readType(n *node, v crypto.Value, at string) {
	const remedy = "write one of string, number, integer, boolean, array, object, null, or a list of some"
	if v.Kind() == crypto.String {
		n.types = typeNamed(v.Bytes())
		if n.types == 0 {
			c.fail(at, "unknown type", remedy)
		}
		return
	}
	if v.Kind() != crypto.Array || v.Len() == 0 {
		c.fail(at, "type is one type, or a list of some", remedy)
		return
	}
	n.types = 0
	var names []string
	for e := range v.Elements() {
		t, name := typeNamed(e.Bytes()), string(e.Bytes())
		if t == 0 || slices.Contains(names, name) {
			c.fail(at, "unknown type, or the same twice", remedy)
			return
		}
		n.types, names = n.types|t, append(names, name)
	}
}

// readEnum reads the keyword enum. Its set is made once for each place, as for const, however many
// $ref lead there.
func (c *compiler) readEnum(v crypto.Value, at string) *set {
	if c.sets[at] != nil || !c.want(v, crypto.Array, at) {
		return c.sets[at]
	}
	switch n := v.Len(); {
	case n == 0:
		c.fail(at, "an empty enum allows nothing", "list the values")
		return nil
	case n > maxEnum:
		c.fail(at, fmt.Sprintf("more than %d values", maxEnum), "use pattern, or a list in the policy")
		return nil
	}
	values := make([]crypto.Value, 0, v.Len())
	seen := make(map[string]bool, v.Len())
	var text []byte
	for e := range v.Elements() {
		text = e.Append(text[:0])
		if seen[string(text)] {
			c.fail(at, "a value stands twice", "remove one")
			return nil
		}
		seen[string(text)] = true
		values = append(values, e)
	}
	c.sets[at] = newSet(values)
	return c.sets[at]
}

// pattern compiles a regular expression once, however often the schema contains it.
func (c *compiler) pattern(v crypto.Value, at string) *expression {
	if !c.want(v, crypto.String, at) {
		return nil
	}
	s := v.Text()
	if c.patterns[s] != nil {
		return c.patterns[s]
	}
	if len(s) > maxPattern {
		c.fail(at, "the pattern is longer than 1 KiB", "shorten it")
		return nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		c.fail(at, "the pattern is not RE2: "+err.Error(), "correct it; RE2 has no lookaround and no back-references")
		return nil
	}
	steps, err := pattern.Steps(s)
	if err != nil {
		c.fail(at, "of the pattern: "+err.Error(), pattern.Remedy)
		return nil
	}
	c.patterns[s] = &expression{re, runsOf(s), steps}
	return c.patterns[s]
}

// label returns a name for messages, quoted if it could mislead.
func label(name string) string {
	const enough = 64
	if len(name) > enough {
		return strconv.QuoteToASCII(name[:enough]) + "..."
	}
	if name == "" || strings.ContainsAny(name, ` ,"`) {
		return strconv.QuoteToASCII(name)
	}
	return plain(name)
}

// plain returns s, quoted if it contains bytes that are not printable ASCII.
func plain(s string) string {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7f {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}

package jsonschema

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// keyword reads one keyword, unless there are schemas in it.
func (c *compiler) keyword(n *node, name string, v crypto.Value, at string) {
	switch name {
	case "type":
		c.readType(n, v, at)
	case "const":
		n.constant = c.readConst(v, at)
	case "enum":
		n.enum = c.readEnum(v, at)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		c.readNumber(n, name, v, at)
	case "minLength", "maxLength", "pattern":
		c.readText(n, name, v, at)
	case "minItems", "maxItems", "uniqueItems":
		c.readArray(n, name, v, at)
	case "default":
		n.value = v
	case "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "$ref", "$defs":
		// applicators
	case "title", "description", "format", "$schema", "$comment":
		c.want(v, crypto.String, at)
	case "examples":
		c.want(v, crypto.Array, at)
	case "deprecated", "readOnly", "writeOnly":
		c.want(v, crypto.Bool, at)
	default:
		remedy := remedies[name]
		if remedy == "" {
			remedy = "remove it, or correct its spelling"
		}
		c.fail(at, "keyword "+label(name)+" is not supported", remedy)
	}
}

// remedies has what to do instead of the keywords that people write most.
var remedies = map[string]string{
	"$anchor":               "use $ref with a pointer, such as #/$defs/name",
	"$dynamicAnchor":        "write the levels out, as many as there may be",
	"$dynamicRef":           "use $ref with a pointer, such as #/$defs/name",
	"$id":                   "remove it; a $ref is always into this schema",
	"$vocabulary":           "remove it",
	"allOf":                 "merge the schemas into one, or use $ref beside other keywords",
	"contains":              "constrain all elements with items",
	"contentEncoding":       "remove it, or use pattern",
	"contentMediaType":      "remove it",
	"contentSchema":         "remove it",
	"definitions":           "rename it to $defs",
	"dependencies":          "use oneOf with required",
	"dependentRequired":     "use oneOf with required",
	"dependentSchemas":      "use oneOf",
	"else":                  "use oneOf",
	"if":                    "use oneOf",
	"maxContains":           "use maxItems",
	"maxProperties":         "name the members in properties",
	"minContains":           "use minItems",
	"minProperties":         "use required",
	"not":                   "say what is allowed, with enum, pattern or oneOf",
	"nullable":              `use "type": [type, "null"]`,
	"patternProperties":     "name the members in properties",
	"prefixItems":           "use an object with named members",
	"propertyNames":         "name the members in properties",
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

// length reads a bound on lengths.
func (c *compiler) length(v crypto.Value, at string) uint64 {
	n, ok := v.Uint()
	if !ok {
		c.fail(at, "expected a whole number from 0 on", "correct it")
	}
	return n
}

// label is a name as messages show it: as it is, or quoted where that could mislead.
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

// plain quotes what is not printable ASCII.
func plain(s string) string {
	for _, c := range []byte(s) {
		if c < ' ' || c >= 0x7f {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}

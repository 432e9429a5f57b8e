package jsonschema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// TestRefused: schemas that are not in the subset, mean nothing or allow no value are refused, with
// the place and a remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, pointer, what string }{
		// No schema at all.
		{`true`, "", "boolean schemas are not supported"},
		{`{"properties":{"a":false}}`, "/properties/a", "boolean schemas are not supported"},
		{`3`, "", "a schema is an object"},
		{`null`, "", "a schema is an object"},
		{`{"items":null}`, "/items", "a schema is an object"},
		{`{"items":[{}]}`, "/items", "items is one schema for all elements"},
		{`{"$defs":{"a":0}}`, "/$defs/a", "a schema is an object"},
		{`{"$defs":[]}`, "/$defs", "$defs is an object of schemas"},

		// Keywords.
		{`{"minProperties":1}`, "/minProperties", "keyword minProperties is not supported"},
		{`{"maxProperties":1}`, "/maxProperties", "keyword maxProperties is not supported"},
		{`{"not":{}}`, "/not", "keyword not is not supported"},
		{`{"propertes":{}}`, "/propertes", "keyword propertes is not supported"},
		{`{"Type":"string"}`, "/Type", "keyword Type is not supported"},
		{`{"":1}`, "/", `keyword "" is not supported`},
		{`{"a b":1}`, "/a b", `keyword "a b" is not supported`},
		{`{"definitions":{}}`, "/definitions", "keyword definitions is not supported"},
		{`{"nullable":true}`, "/nullable", "keyword nullable is not supported"},
		{`{"$id":"x"}`, "/$id", "keyword $id is not supported"},
		{`{"$defs":{"a":{"allOf":[]}}}`, "/$defs/a/allOf", "keyword allOf is not supported"},
		{`{"title":1}`, "/title", "expected string, not number"},
		{`{"$schema":null}`, "/$schema", "expected string, not null"},
		{`{"examples":"x"}`, "/examples", "expected array, not string"},
		{`{"readOnly":"yes"}`, "/readOnly", "expected boolean, not string"},

		// Types.
		{`{"type":"int"}`, "/type", "unknown type"},
		{`{"type":null}`, "/type", "type is one type, or one with null"},
		{`{"type":[]}`, "/type", "type is one type, or one with null"},
		{`{"type":["string"]}`, "/type", "type is one type, or one with null"},
		{`{"type":["string","number"]}`, "/type", "type is one type, or one with null"},
		{`{"type":["null","null"]}`, "/type", "unknown type, or the same twice"},
		{`{"type":["null",null]}`, "/type", "unknown type, or the same twice"},
		{`{"type":["integer","number"]}`, "/type", "unknown type, or the same twice"},

		// Values.
		{`{"enum":[]}`, "/enum", "an empty enum allows nothing"},
		{`{"enum":"a"}`, "/enum", "expected array, not string"},
		{`{"enum":[1,"a",1.0]}`, "/enum", "a value stands twice"},
		{`{"enum":[{"a":1,"b":2},{"b":2,"a":1}]}`, "/enum", "a value stands twice"},
		{`{"enum":[` + strings.Repeat("0,", 10_000) + `0]}`, "/enum", "more than 10000 values"},

		// Bounds.
		{`{"minLength":-1}`, "/minLength", "expected a whole number from 0 on"},
		{`{"maxLength":1.5}`, "/maxLength", "expected a whole number from 0 on"},
		{`{"minItems":"1"}`, "/minItems", "expected a whole number from 0 on"},
		{`{"maxItems":1e300}`, "/maxItems", "expected a whole number from 0 on"},
		{`{"minLength":2,"maxLength":1}`, "/minLength", "minLength is more than maxLength"},
		{`{"minItems":2,"maxItems":1}`, "/minItems", "minItems is more than maxItems"},
		{`{"minimum":"0"}`, "/minimum", "expected number, not string"},
		{`{"exclusiveMinimum":true}`, "/exclusiveMinimum", "expected number, not boolean"},
		{`{"minimum":2,"maximum":1}`, "/minimum", "no number is within the bounds"},
		{`{"minimum":1,"exclusiveMaximum":1}`, "/minimum", "no number is within the bounds"},
		{`{"exclusiveMinimum":1,"maximum":1}`, "/maximum", "no number is within the bounds"},
		{`{"exclusiveMinimum":1,"exclusiveMaximum":1}`, "/exclusiveMinimum", "no number is within the bounds"},
		{`{"multipleOf":0}`, "/multipleOf", "multipleOf is not above 0"},
		{`{"multipleOf":-2}`, "/multipleOf", "multipleOf is not above 0"},
		{`{"uniqueItems":1}`, "/uniqueItems", "expected boolean, not number"},

		// Patterns.
		{`{"pattern":3}`, "/pattern", "expected string, not number"},
		{`{"pattern":"("}`, "/pattern", "the pattern is not RE2: error parsing regexp: missing closing ): `(`"},
		{`{"pattern":"(?=a)"}`, "/pattern",
			"the pattern is not RE2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{`{"pattern":"(a{1000}){1000}"}`, "/pattern",
			"the pattern is not RE2: error parsing regexp: invalid repeat count: `{1000}`"},
		{`{"pattern":"` + strings.Repeat("a", 1025) + `"}`, "/pattern", "the pattern is longer than 1 KiB"},

		// Objects.
		{`{"properties":[]}`, "/properties", "expected object, not array"},
		{`{"required":"a"}`, "/required", "expected array, not string"},
		{`{"required":[1]}`, "/required", "expected string, not number"},
		{`{"required":["a","a"]}`, "/required", "a is required twice"},
		{`{"required":["a"],"additionalProperties":false}`, "/required",
			"a is required but not allowed: it is not in properties"},
		{`{"required":["a"],"properties":{"b":{}},"additionalProperties":false,"type":"string"}`, "/required",
			"a is required but not allowed: it is not in properties"},
		{`{"additionalProperties":true}`, "/additionalProperties", "additionalProperties can only be false"},
		{`{"additionalProperties":{}}`, "/additionalProperties", "additionalProperties can only be false"},
		{`{"additionalProperties":null}`, "/additionalProperties", "additionalProperties can only be false"},

		// References.
		{`{"anyOf":{}}`, "/anyOf", "anyOf is a list of schemas"},
		{`{"oneOf":[]}`, "/oneOf", "oneOf is a list of schemas"},
		{`{"$ref":1}`, "/$ref", "expected string, not number"},
		{`{"$ref":""}`, "/$ref", "only a $ref into the same schema is supported"},
		{`{"$ref":"other.json"}`, "/$ref", "only a $ref into the same schema is supported"},
		{`{"$ref":"https://example.com/s#/$defs/a"}`, "/$ref", "only a $ref into the same schema is supported"},
		{`{"$ref":"#anchor"}`, "/$ref", "only a $ref into the same schema is supported"},
		{`{"$ref":"#/$defs/a"}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/properties","properties":{"items":{}}}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/$defs/~2","$defs":{"~2":{}}}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/$defs/a/","$defs":{"a":{}}}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/anyOf/00","anyOf":[{}]}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/anyOf/-1","anyOf":[{}]}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/anyOf/1","anyOf":[{}]}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/const","const":{}}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/enum/0","enum":[{}]}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/examples/0","examples":[{"type":"string"}]}`, "/$ref", "the $ref leads to no schema"},
		{`{"$ref":"#/$defs/%zz","$defs":{}}`, "/$ref", "the fragment is not percent-encoded UTF-8"},
		{`{"$ref":"#/$defs/%f","$defs":{}}`, "/$ref", "the fragment is not percent-encoded UTF-8"},
		{`{"$ref":"#/$defs/%ff","$defs":{}}`, "/$ref", "the fragment is not percent-encoded UTF-8"},
		{`{"$ref":"#"}`, "/$ref", "the $ref leads back to a schema that it is in"},
		{`{"properties":{"a":{"items":{"$ref":"#"}}}}`, "/properties/a/items/$ref",
			"the $ref leads back to a schema that it is in"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"items":{"$ref":"#/$defs/a"}}}}`,
			"/$defs/b/items/$ref", "the $ref leads back to a schema that it is in"},
		{`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "/$defs/a/$ref", "the $ref leads back to a schema that it is in"},

		// Defaults.
		{`{"properties":{"a":{"type":"string","default":1}}}`, "/properties/a/default",
			"the schema does not allow this default (type: string)"},
		{`{"default":1,"type":"string"}`, "/default", "the schema does not allow this default (type: string)"},
		{`{"$defs":{"a":{"default":1,"type":"string"}}}`, "/$defs/a/default",
			"the schema does not allow this default (type: string)"},
		{`{"properties":{"a":{"default":{},"required":["b"]}}}`, "/properties/a/default",
			"the schema does not allow this default (required: b)"},
		{`{"properties":{"a":{"default":{"b":{"c":1}},"properties":{"b":{"properties":{"c":{"type":"string"}}}}}}}`,
			"/properties/a/default",
			"the schema does not allow this default, at /b/c (type: string)"},
		{`{"properties":{"a":{"$ref":"#/$defs/a","minimum":2}},"$defs":{"a":{"default":1}}}`, "/$defs/a/default",
			"the schema does not allow this default (minimum: 2)"},
		{`{"items":{"properties":{"a":{"type":"string"}}},"$ref":"#/$defs/a","$defs":{"a":{"items":{"properties":{"a":{"default":1}}}}}}`,
			"/$defs/a/items/properties/a/default", "the schema does not allow this default (type: string)"},
		{`{"properties":{"a":{"enum":[{}],"properties":{"b":{"default":1}},"default":{}}}}`, "/properties/a/default",
			"the schema does not allow this default (enum: one of {})"},
		{`{"anyOf":[{},{"default":1}]}`, "/anyOf/1/default", "no default is filled in below anyOf or oneOf"},
		{`{"oneOf":[{"items":{"properties":{"a":{"default":1}}}}]}`, "/oneOf/0/items/properties/a/default",
			"no default is filled in below anyOf or oneOf"},
		{`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"b":{"default":1}}}}}`,
			"/$defs/a/properties/b/default", "no default is filled in below anyOf or oneOf"},
	} {
		mustRefuse(t, c.schema, false, c.pointer, c.what)
	}
}

// TestRefusedClosed: schemas for arguments.
func TestRefusedClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, pointer, what string }{
		{`{}`, "", "the arguments of a tool are an object"},
		{`{"type":"array"}`, "", "the arguments of a tool are an object"},
		{`{"type":["object","null"]}`, "", "the arguments of a tool are an object"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, "", "the arguments of a tool are an object"},
		{`{"type":"object","required":["a"]}`, "/required", "a is required but not allowed: it is not in properties"},
		{`{"type":"object","properties":{"a":{"type":"object","required":["b"]}}}`, "/properties/a/required",
			"b is required but not allowed: it is not in properties"},
		{`{"type":"object","properties":{"Amount":{},"amount":{}}}`, "/properties/amount",
			"the name differs from another by letter case only"},
		{`{"type":"object","properties":{"mask":{},"ma` + "\u017f\u212a" + `":{}}}`, "/properties/ma\u017f\u212a",
			"the name differs from another by letter case only"},

		// In place, each schema is closed by itself.
		{`{"type":"object","properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`, "/anyOf/0",
			`it has b, which the schema around it, at "", does not allow`},
		{`{"type":"object","properties":{"a":{}},"anyOf":[{"required":["b"]}]}`, "/anyOf/0",
			`it has b, which the schema around it, at "", does not allow`},
		{`{"type":"object","properties":{"a":{}},"required":["a"],"oneOf":[{"properties":{}}]}`, "/oneOf/0",
			`it lacks a, which the schema around it, at "", requires`},
		{`{"type":"object","properties":{"x":{"properties":{"a":{}},"$ref":"#/$defs/d"}},"$defs":{"d":{"anyOf":[{"properties":{"b":{}}}]}}}`,
			"/$defs/d/anyOf/0", `it has b, which the schema around it, at /properties/x, does not allow`},
		{`{"type":"object","anyOf":[{"required":["a"]},{"properties":{"a":{}}}]}`, "/anyOf/0/required",
			"a is required but not allowed: it is not in properties"},
	} {
		mustRefuse(t, c.schema, true, c.pointer, c.what)
	}
}

func mustRefuse(t *testing.T, schema string, closed bool, pointer, what string) {
	t.Helper()
	s, err := Compile(parse(t, schema), closed)
	var e *Error
	if s != nil || !errors.As(err, &e) {
		t.Errorf("%.200s: not refused", schema)
		return
	}
	if e.Pointer != pointer || e.What != what || e.Remedy == "" {
		t.Errorf("%.200s:\ngot  %q %q, remedy %q\nwant %q %q", schema, e.Pointer, e.What, e.Remedy, pointer, what)
	}
}

// TestExploding: a few lines of $ref that expand to more than memory holds are refused, and schemas
// just within the limits are not.
func TestExploding(t *testing.T) {
	t.Parallel()
	// doubling has levels of which each refers to the next one twice.
	doubling := func(levels int, use string) string {
		defs := []string{`"d0":{"type":"string"}`}
		for i := 1; i <= levels; i++ {
			defs = append(defs, fmt.Sprintf(`"d%d":`+use, i, i-1, i-1))
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/d%d","$defs":{%s}}`, levels, strings.Join(defs, ","))
	}
	const (
		members  = `{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`
		branches = `{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`
		defaults = `{"properties":{"a":{"$ref":"#/$defs/d%d","default":{}},"b":{"$ref":"#/$defs/d%d","default":{}}}}`
	)
	for _, use := range []string{members, branches} {
		compile(t, doubling(11, use), false)
		for _, levels := range []int{12, 31} {
			_, err := Compile(parse(t, doubling(levels, use)), false)
			assert.True(t, err != nil && strings.Contains(err.Error(), "has more than 10,000 schemas"),
				"%d levels of %s: %v", levels, use, err)
		}
	}
	_, err := Compile(parse(t, doubling(64, members)), false)
	assert.True(t, err != nil && strings.Contains(err.Error(), "more than 64 deep"), "64 levels: %v", err)
	// The last level has no members to fill, so these defaults are small; a long text makes them
	// large.
	compile(t, strings.ReplaceAll(doubling(6, defaults), `{"type":"string"}`, `{"type":"object"}`), false)
	long := strings.ReplaceAll(doubling(9, defaults), `{"type":"string"}`,
		`{"properties":{"x":{"default":"`+strings.Repeat("x", 1000)+`"}}}`)
	_, err = Compile(parse(t, long), false)
	assert.True(t, err != nil && strings.Contains(err.Error(), "all together have 1 MiB"), "defaults in defaults: %v",
		err)

	chain := func(n int) string { return strings.Repeat(`{"items":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	compile(t, chain(64), false)
	mustRefuse(t, chain(65), false, strings.Repeat("/items", 64), "schemas are nested more than 64 deep")
	// Forty below forty, each within the limit.
	mustRefuse(t, `{"$defs":{"a":`+chain(40)+`,"b":`+strings.Replace(chain(40), "{}", `{"$ref":"#/$defs/a"}`,
		1)+`},"$ref":"#/$defs/b"}`, false,
		"/$defs/a"+strings.Repeat("/items", 23), "schemas are nested more than 64 deep")

	mustRefuse(t, `{"properties":{"a":`+chain(40)+`,"b":`+strings.Replace(chain(40), "{}", `{"$ref":"#/properties/a"}`,
		1)+`}}`, false,
		"/properties/b"+strings.Repeat("/items", 15), "with each $ref written out schemas are nested more than 64 deep")

	var required []string
	for i := range 101 {
		required = append(required, fmt.Sprintf("%q", fmt.Sprint("n", i)))
	}
	wide := `{"items":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/r"},`,
		99) + `{}]},"$defs":{"r":{"required":[` + strings.Join(required, ",") + `]}}}`
	mustRefuse(t, wide, false, "/items", "with each $ref written out it has more than 10,000 schemas")
}

// TestSchemaIndependent: a Schema holds nothing of the value it was compiled from.
func TestSchemaIndependent(t *testing.T) {
	t.Parallel()
	text := []byte(`{"type":"object","properties":{"a":{"enum":["x",["y"]],"default":"x"}}}`)
	var tree crypto.Tree
	require.NoError(t, tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: 8}))
	s, err := Compile(tree.Root(), true)
	require.NoError(t, err)
	for i := range text {
		text[i] = '0'
	}
	_ = tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: 8})
	for _, valid := range []string{`{"a":"x"}`, `{"a":["y"]}`} {
		v := s.Validate(parse(t, valid))
		assert.Nil(t, v, "%s", valid)
	}
	got, _ := s.AppendDefaults(nil, parse(t, `{}`))
	assert.Equal(t, `{"a":"x"}`, string(got), "got %s", got)
}

// TestZeroSchema: a Schema that was never compiled allows nothing.
func TestZeroSchema(t *testing.T) {
	t.Parallel()
	for _, s := range []*Schema{nil, {}} {
		assert.NotNil(t, s.Validate(parse(t, `{}`)), "a zero Schema allows something")
		_, ok := s.Lookup(nil)
		assert.False(t, ok, "a zero Schema has a place")
		_, filled := s.AppendDefaults(nil, parse(t, `{}`))
		assert.False(t, filled, "a zero Schema has defaults")
	}
	s, err := Compile(crypto.Value{}, false)
	assert.True(t, s == nil && err != nil, "a missing schema compiles")
	assert.NotNil(t, compile(t, `{}`, false).Validate(crypto.Value{}), "a missing value is valid")
}

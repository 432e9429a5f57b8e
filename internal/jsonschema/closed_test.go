package jsonschema

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// TestClosed: the meaning of the different ways to leave additionalProperties out.
func TestClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, schema   string
		valid, invalid []string
	}{
		{"properties close", `{"type":"object","properties":{"a":{}}}`, []string{`{}`, `{"a":1}`},
			[]string{`{"b":1}`, `{"a":1,"b":1}`, `{"A":1}`}},
		{"nothing said", `{"type":"object"}`, []string{`{}`}, []string{`{"a":1}`}},
		{"below a property", `{"type":"object","properties":{"a":{"properties":{"b":{}}}}}`,
			[]string{`{"a":{"b":1}}`, `{"a":7}`}, []string{`{"a":{"c":1}}`}},
		{"any value", `{"type":"object","properties":{"a":{}}}`, []string{`{"a":{}}`, `{"a":[{},[{}],1]}`},
			[]string{`{"a":{"x":1}}`, `{"a":[{"x":1}]}`, `{"a":[[[{"x":1}]]]}`}},
		{"an object", `{"type":"object","properties":{"a":{"type":"object"}}}`, []string{`{"a":{}}`},
			[]string{`{"a":{"x":1}}`}},
		{"elements", `{"type":"object","properties":{"a":{"items":{"properties":{"b":{}}}}}}`,
			[]string{`{"a":[{"b":1}]}`}, []string{`{"a":[{"c":1}]}`}},
		{"elements not described", `{"type":"object","properties":{"a":{"type":"array"}}}`, []string{`{"a":["x",{}]}`},
			[]string{`{"a":[{"x":1}]}`}},
		{"by $ref", `{"type":"object","$ref":"#/$defs/d","$defs":{"d":{"properties":{"a":{}}}}}`, []string{`{"a":1}`},
			[]string{`{"b":1}`}},
		{"by $ref to nothing", `{"type":"object","$ref":"#/$defs/d","$defs":{"d":{"type":"object"}}}`, []string{`{}`},
			[]string{`{"b":1}`}},
		{"by branches",
			`{"type":"object","oneOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`,
			[]string{`{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":1}`, `{"a":1,"c":1}`}},
		{"branches that only require",
			`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			[]string{`{"a":1}`, `{"b":1,"a":1}`}, []string{`{}`, `{"a":1,"c":1}`}},
		{"the same $ref inside and outside",
			`{"type":"object","properties":{"x":{"$ref":"#/$defs/d"},"y":{"properties":{"a":{}},"$ref":"#/$defs/d"}},"$defs":{"d":{"title":"no members of its own"}}}`,
			[]string{`{"x":{},"y":{"a":1}}`}, []string{`{"x":{"a":1}}`, `{"y":{"b":1}}`}},
		{"const and enum say it all",
			`{"type":"object","properties":{"a":{"const":{"x":{"y":1}}},"b":{"enum":[[{"z":1}],1]}}}`,
			[]string{`{"a":{"x":{"y":1}}}`, `{"b":[{"z":1}]}`}, []string{`{"a":{"x":{}}}`, `{"b":[{}]}`}},
		{"or null",
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"b":{}}},{"type":"null"}]}}}`,
			[]string{`{"a":null}`, `{"a":{"b":1}}`}, []string{`{"a":{"c":1}}`}},
		{"array branches", `{"type":"object","properties":{"a":{"anyOf":[{"type":"array"},{"type":"string"}]}}}`,
			[]string{`{"a":[1]}`, `{"a":"x"}`}, []string{`{"a":[{"c":1}]}`}},
		{"elements described around branches",
			`{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"b":{}}},"anyOf":[{"minItems":1}]}}}`,
			[]string{`{"a":[{"b":1}]}`}, []string{`{"a":[]}`, `{"a":[{"c":1}]}`}},
		{"$defs is read where it is used",
			`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"required":["a"]}}}`,
			[]string{`{"a":1}`}, []string{`{"b":1}`}},
	} {
		s := compile(t, c.schema, true)
		for _, value := range c.valid {
			v := s.Validate(parse(t, value))
			assert.Nil(t, v, "%s: %s", c.name, value)
		}
		for _, value := range c.invalid {
			assert.NotNil(t, s.Validate(parse(t, value)), "%s: %s is valid", c.name, value)
		}
	}
}

// TestOpen: an open schema is closed only if it says so.
func TestOpen(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","properties":{"a":{"properties":{"b":{}},"additionalProperties":false}}}`, false)
	v := s.Validate(parse(t, `{"a":{"b":1},"x":{"y":1},"z":[{"u":1}]}`))
	assert.Nil(t, v)
	assert.NotNil(t, s.Validate(parse(t, `{"a":{"c":1}}`)), "additionalProperties false allows a member")
}

// TestNoUndeclaredMember: whatever a closed schema leaves out, no valid value has a member whose
// name is not in the text of the schema.
func TestNoUndeclaredMember(t *testing.T) {
	t.Parallel()
	r := &random{Rand: rand.New(rand.NewPCG(9, 10))}
	compiled, tried, valid := 0, 0, 0
	for range 3000 {
		// Schemas for open use leave much out, which is the point.
		doc := r.document("object")
		doc["type"] = "object"
		strip(doc)
		s, err := Compile(parse(t, string(r.text(doc))), true)
		if err != nil {
			continue
		}
		compiled++
		for range 10 {
			value := r.value(doc, 4)
			if s.Validate(parse(t, string(r.text(value)))) != nil {
				continue
			}
			valid++
			for _, intruder := range plant(value) {
				tried++
				if text := r.text(intruder); s.Validate(parse(t, string(text))) == nil {
					t.Fatalf("schema %s\nallows %s", r.text(doc), text)
				}
			}
		}
	}
	if t.Logf("%d schemas, %d valid values, %d members planted", compiled, valid, tried); compiled < 500 ||
		valid < 1000 || tried < 2000 {
		t.Error("too little was tried")
	}
}

// strip takes defaults out, and additionalProperties.
func strip(v any) {
	switch v := v.(type) {
	case mapping:
		delete(v, "default")
		delete(v, "additionalProperties")
		for _, x := range v {
			strip(x)
		}
	case []any:
		for _, x := range v {
			strip(x)
		}
	}
}

// plant returns the value once for each object in it, with one more member there.
func plant(v any) (list []any) {
	switch v := v.(type) {
	case mapping:
		list = append(list, with(v, "intruder", 1))
		for _, k := range sortedKeys(v) {
			for _, x := range plant(v[k]) {
				list = append(list, with(v, k, x))
			}
		}
	case []any:
		for i, e := range v {
			for _, x := range plant(e) {
				out := append([]any{}, v...)
				out[i] = x
				list = append(list, out)
			}
		}
	}
	return list
}

func with(m mapping, k string, v any) mapping {
	out := mapping{k: v}
	for name, x := range m {
		if name != k {
			out[name] = x
		}
	}
	return out
}

// TestDefaults: values and the same with defaults filled in; "" if nothing is.
func TestDefaults(t *testing.T) {
	t.Parallel()
	const nested = `{"type":"object","properties":{
		"o":{"type":["object","null"],"default":{},"properties":{"a":{"default":1},"p":{"default":{"z":0},"properties":{"a":{"default":[{}],"items":{"properties":{"q":{"default":"\u20ac\n"}}}},"z":{}}}}},
		"list":{"type":"array","items":{"type":"object","properties":{"k":{"default":true},"m":{"properties":{"n":{"default":null}}}}}},
		"ref":{"$ref":"#/$defs/r"},"own":{"$ref":"#/$defs/r","default":"own"},
		"u":{"anyOf":[{"type":"object","properties":{"v":{}}},{"type":"string"}],"default":"either"}},
		"$defs":{"r":{"type":"string","default":"referred"}}}`
	const o = `"o":{"a":1,"p":{"a":[{"q":"€\n"}],"z":0}}`
	const rest = `"own":"own","ref":"referred","u":"either"`
	for _, c := range []struct{ schema, value, want string }{
		{nested, `{}`, `{` + o + `,` + rest + `}`},
		{nested, `{"u":"x","ref":"x","own":"x","o":null}`, ``},
		{nested, `{"u":{},"ref":"x","own":"x","o":{}}`, `{` + o + `,"own":"x","ref":"x","u":{}}`},
		{nested, `{"u":{},"ref":"x","own":"x","o":{"a":2,"p":{"a":[]}}}`, ``},
		{nested, `{` + rest + `,"o":null,"list":[{},{"k":false,"m":{}},{"m":{"n":1}}]}`,
			`{"list":[{"k":true},{"k":false,"m":{"n":null}},{"k":true,"m":{"n":1}}],"o":null,` + rest + `}`},
		{nested, `{` + rest + `,"o":null,"list":[{"m":1,"k":1}]}`, ``},
		{nested, `{` + rest + `,"o":null,"list":"x"}`, ``},
		{nested, `[]`, ``},

		// Defaults are filled in in canonical order, by UTF-16.
		{`{"properties":{"😀":{"default":1},"\ufb33":{"default":2},"b":{"default":3},"a\"":{"default":4}}}`,
			`{"c":0,"\uffff":0}`,
			`{"a\"":4,"b":3,"c":0,"😀":1,"` + "\ufb33" + `":2,"` + "\uffff" + `":0}`},

		// A default on the root or on elements has nothing to fill.
		{`{"default":{"a":1},"items":{"default":1}}`, `[{}]`, ``},

		// The schema and the target of its $ref both hold: the first default wins, and members of
		// both are filled in.
		{`{"$ref":"#/$defs/r","properties":{"a":{"default":1},"o":{"properties":{"x":{"default":1}}}},
			"$defs":{"r":{"properties":{"a":{"default":2},"b":{"default":3},"o":{"default":{},"properties":{"y":{"default":2}}}}}}}`, `{}`, `{"a":1,"b":3,"o":{"x":1,"y":2}}`},
	} {
		s := compile(t, c.schema, false)
		dst := []byte("before")
		got, filled := s.AppendDefaults(dst, parse(t, c.value))
		assert.True(t, filled == (c.want != "") && string(got) == "before"+c.want,
			"%.60s…: %s:\ngot  %s\nwant before%s", c.schema, c.value, got, c.want)
		if filled {
			_, again := s.AppendDefaults(nil, parse(t, c.want))
			assert.False(t, again, "%s is filled again", c.want)
		}
	}
}

// TestDefaultsBounded: a short text whose elements lack long defaults cannot become very long:
// filling stops a little after 1 MiB.
func TestDefaultsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	s := compile(t,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"l":{"default":"`+
			long+`"},"n":{}}}}}}`, true)
	for _, element := range []string{`{}`, `{"n":1}`} {
		v := parse(t, `{"a":[`+strings.Repeat(element+",", 100_000)+element+`]}`)
		got, filled := s.AppendDefaults(nil, v)
		assert.True(t, filled && len(got) > maxFilled && len(got) <= 2*maxFilled, "filled %v, %d bytes", filled,
			len(got))
		assert.False(t, json.Valid(got), "what stops short is JSON")
	}
	got, _ := s.AppendDefaults(nil, parse(t, `{"a":[{},{"l":""},{},{}]}`))
	assert.True(t, json.Valid(got) && len(got) >= 300_000, "%d bytes, which are few enough, are not JSON", len(got))
}

// TestLookup: places as "types optional nullable", or "" if there is none.
func TestLookup(t *testing.T) {
	t.Parallel()
	const defs = `,"$defs":{"money":{"type":"object","required":["units"],"properties":{"units":{"type":"integer"},"currency":{"enum":["EUR","USD"]}}},
		"in":{"required":["id"]},"req":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}}}`
	const closed = `{"type":"object","required":["to","amount","list","either","ref"],"properties":{
		"to":{"type":"string"},"note":{"type":["string","null"],"default":""},"amount":{"type":"number"},"any":{},"one":{"const":1.5},"mixed":{"enum":["a",1,null]},
		"list":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"tag":{"type":"string"}}}},
		"maybe":{"type":["object","null"],"required":["x"],"properties":{"x":{"type":"string"}}},"sure":{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}},
		"untyped":{"required":["x"],"properties":{"x":{"type":"string"}}},"bare":{"type":"array"},
		"either":{"anyOf":[{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"a":{"type":"string"}}},{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"b":{}}}]},
		"or":{"oneOf":[{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}},{"type":"string"}]},
		"ref":{"$ref":"#/$defs/money"},"both":{"type":"object","$ref":"#/$defs/money"},"strange":{"type":"string","properties":{"x":{}}},
		"split":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"number"}},"anyOf":[{"required":["id","n"]},{"required":["id"]}]},
		"narrow":{"type":"object","properties":{"v":{"type":"number"}},"oneOf":[{"properties":{"v":{"type":"integer"}}},{"properties":{"v":{"enum":[1.5]}}}]},
		"0":{"type":"string"}}` + defs
	const open = `{"type":"array","items":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"n":{"type":"integer"},"sub":{"type":"object","additionalProperties":false,
		"properties":{"p":{"type":"string"},"q":{"type":"string"}}}},"$ref":"#/$defs/in","anyOf":[{"required":["n"]},{"required":["n","x"]}]}` + defs
	for _, c := range []struct {
		schema, pointer, want string
	}{
		{closed, "", "object false false"},
		{closed, "/to", "string false false"},
		{closed, "/amount", "number false false"},
		{closed, "/note", "string true true"},
		{closed, "/nope", ""},
		{closed, "/to/x", ""},
		{closed, "/any", "string or number or boolean or array or object true true"},
		{closed, "/any/x", ""},
		{closed, "/any/0", "string or number or boolean or array or object true true"},
		{closed, "/one", "number true false"},
		{closed, "/mixed", "string or integer true true"},
		{closed, "/list", "array false false"},
		{closed, "/list/*", "object false false"},
		{closed, "/list/*/id", "integer false false"},
		{closed, "/list/*/tag", "string true false"},
		{closed, "/list/*/nope", ""},
		{closed, "/list/0", "object true false"},
		{closed, "/list/0/id", "integer true false"},
		{closed, "/list/00", ""},
		{closed, "/list/-", ""},
		{closed, "/list/id", ""},
		{closed, "/maybe/x", "string true false"},
		{closed, "/sure/x", "string true false"}, // sure itself may be missing
		{closed, "/untyped/x", "string true false"},
		{closed, "/bare/*", "string or number or boolean or array or object true true"},
		{closed, "/bare/*/x", ""},
		{closed, "/either", "object false false"},
		{closed, "/either/id", "string or integer false false"},
		{closed, "/either/a", "string true false"},
		{closed, "/either/c", ""},
		{closed, "/or", "string or object true false"},
		{closed, "/or/id", "string true false"},
		{closed, "/ref/units", "integer false false"},
		{closed, "/ref/currency", "string true false"},
		{closed, "/both/units", "integer true false"},
		{closed, "/strange/x", ""},
		{closed, "/split/id", "string true false"},
		{closed, "/narrow/v", "number true false"},
		{closed, "/0", "string true false"},
		{closed, "/*", "string or number or boolean or array or object false true"},
		{closed, "/sure/*", "string true false"},
		{closed, "/to/*", ""},

		{open, "", "array false false"},
		{open, "/*/to", "string false false"},
		{open, "/*/n", "integer false false"}, // each branch requires it
		{open, "/*/id", ""},                   // required, not declared
		{open, "/*/x", ""},
		{open, "/*/*", ""}, // members that are not declared may be anything
		{open, "/*/sub/*", "string true false"},

		{`{"properties":{"n":{"anyOf":[{"type":"integer"},{"type":"number"}]},"i":{"anyOf":[{"type":"integer"},{"const":3}]}}}`, "/n", "number true false"},
		{`{"properties":{"i":{"anyOf":[{"type":"integer"},{"const":3}]}}}`, "/i", "integer true false"},
		{`{"properties":{"i":{"type":"string","const":3}}}`, "/i", ""},
		{`{"type":"object","required":["a"],"$ref":"#/$defs/t","$defs":{"t":{"properties":{"a":{"type":["string","null"]}}}}}`, "/a", "string false true"},
		{`{"anyOf":[{"properties":{"a":{"type":"string"}}},{}]}`, "/a",
			"string or number or boolean or array or object true true"},
		{`{"properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"a":{"maxLength":3}}},{}]}`, "/a",
			"string true false"},
		{`{"properties":{"a":{}},"$ref":"#/$defs/t","$defs":{"t":{"additionalProperties":false}}}`, "/a", ""},
		{`{"type":"object","additionalProperties":false,"properties":{"*":{"type":"string"}}}`, "/*",
			"string false false"},
		{`{"properties":{"a":{}},"anyOf":[{"additionalProperties":false},{"type":"string","properties":{"a":{}}}]}`,
			"/a", ""},
		{`{"type":"null"}`, "", " false true"},
	} {
		s := compile(t, c.schema, c.schema == closed)
		got := ""
		var pointer []string
		if c.pointer != "" {
			pointer = strings.Split(c.pointer[1:], "/")
		}
		if p, ok := s.Lookup(pointer); ok {
			got = p.Types.String() + " " + strconv.FormatBool(p.Optional) + " " + strconv.FormatBool(p.Nullable)
		}
		assert.Equal(t, c.want, got, "%s: %q", c.schema, c.pointer)
	}
}

// TestLookupBelow: members that may be missing on the way to the base do not count.
func TestLookupBelow(t *testing.T) {
	t.Parallel()
	s := compile(t,
		`{"type":"object","properties":{"l":{"type":["array","null"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}},
		"m":{"type":"array","items":{"type":["object","null"],"required":["a"],"properties":{"a":{"type":"string"}}}}}}`, true)
	for _, c := range []struct {
		base, pointer      []string
		optional, nullable bool
	}{
		{nil, []string{"l"}, true, true},
		{nil, []string{"l", "*", "a"}, true, false},
		{[]string{"l"}, []string{"*"}, true, false},
		{[]string{"l", "*"}, nil, false, false},
		{[]string{"l", "*"}, []string{"a"}, false, false},
		{[]string{"l", "*"}, []string{"b"}, true, false},
		{[]string{"m", "*"}, nil, false, true},
		{[]string{"m", "*"}, []string{"a"}, true, false},
	} {
		p, ok := s.LookupBelow(c.base, c.pointer)
		assert.True(t, ok && p.Optional == c.optional && p.Nullable == c.nullable, "%q below %q: %+v, %v", c.pointer,
			c.base, p, ok)
	}
	_, ok := s.LookupBelow([]string{"l", "*"}, []string{"c"})
	assert.False(t, ok, "a member that is not declared is there")
}

// TestLookupFilled: places that a default always fills in, and some that only look so. Each is
// compared with AppendDefaults of the empty object.
func TestLookupFilled(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["req"],"$defs":{"d":{"type":"string","default":"x"}},
		"properties":{
			"req":{"type":"string"},
			"plain":{"type":"string"},
			"filled":{"type":"integer","default":1},
			"byRef":{"$ref":"#/$defs/d"},
			"nested":{"type":"object","default":{},"properties":{"in":{"type":"integer","default":2},"out":{"type":"integer"}}},
			"maybe":{"type":"object","properties":{"in":{"type":"integer","default":3}}}}}`
	s := compile(t, schema, true)
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(`{"req":"r"}`), crypto.Limits{Bytes: 99, Depth: 9}))
	text, _ := s.AppendDefaults(nil, tree.Root())
	var after crypto.Tree
	require.NoError(t, after.Parse(text, crypto.Limits{Bytes: 999, Depth: 9}))
	for _, c := range []struct {
		pointer          []string
		optional, filled bool
	}{
		{[]string{"req"}, false, false}, {[]string{"plain"}, true, false}, {[]string{"filled"}, true, true},
		{[]string{"byRef"}, true, true},
		{[]string{"nested"}, true, true}, {[]string{"nested", "in"}, true, true},
		{[]string{"nested", "out"}, true, false},
		{[]string{"maybe"}, true, false}, {[]string{"maybe", "in"}, true, false},
	} {
		p, ok := s.Lookup(c.pointer)
		assert.True(t, ok && p.Optional == c.optional && p.Filled == c.filled, "%v: %+v %v", c.pointer, p, ok)
		v := after.Root()
		for _, name := range c.pointer {
			v = v.Get(name)
		}
		assert.Equal(t, !c.optional || c.filled, v.Exists(), "%v: after defaults it is there", c.pointer)
	}
}

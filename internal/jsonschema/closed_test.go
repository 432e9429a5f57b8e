package jsonschema

import (
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

// TestClosed: the meaning of the different ways to leave additionalProperties out.
func TestClosed(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct {
		Name, Schema   string
		Valid, Invalid []string
	}](t, "closed", 18) {
		s := compile(t, c.Schema, true)
		for _, value := range c.Valid {
			v := s.Validate(parse(t, value))
			assert.Nil(t, v, "%s: %s", c.Name, value)
		}
		for _, value := range c.Invalid {
			assert.NotNil(t, s.Validate(parse(t, value)), "%s: %s is valid", c.Name, value)
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
	race.Alone(t)
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
	for _, c := range table.Read[struct{ Schema, Value, Want string }](t, "defaults", 11) {
		s := compile(t, c.Schema, false)
		dst := []byte("before")
		got, filled := s.AppendDefaults(dst, parse(t, c.Value))
		assert.True(t, filled == (c.Want != "") && string(got) == "before"+c.Want,
			"%.60s…: %s:\ngot  %s\nwant before%s", c.Schema, c.Value, got, c.Want)
		if filled {
			_, again := s.AppendDefaults(nil, parse(t, c.Want))
			assert.False(t, again, "%s is filled again", c.Want)
		}
	}
}

// TestDefaultsBounded: a short text whose elements lack long defaults cannot become very long:
// filling stops a little after 1 MiB.
func TestDefaultsBounded(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	long := strings.Repeat("x", 100_000)
	s := compile(t,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"l":{"type":"string","default":"`+
			long+`"},"n":{"type":"integer"}}}}}}`, true)
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
	for _, c := range table.Read[struct {
		Schema        string
		Closed        bool
		Pointer, Want string
	}](t, "lookup", 65) {
		s := compile(t, c.Schema, c.Closed)
		got := ""
		var pointer []string
		if c.Pointer != "" {
			pointer = strings.Split(c.Pointer[1:], "/")
		}
		if p, ok := s.Lookup(pointer); ok {
			got = p.Types.String() + " " + strconv.FormatBool(p.Optional) + " " + strconv.FormatBool(p.Nullable)
		}
		assert.Equal(t, c.Want, got, "%s: %q", c.Schema, c.Pointer)
	}
}

// TestLookupBelow: members that may be missing on the way to the base do not count.
func TestLookupBelow(t *testing.T) {
	t.Parallel()
	s := compile(t,
		`{"type":"object","properties":{"l":{"type":["array","null"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}},
		"m":{"type":"array","items":{"type":["object","null"],"required":["a"],"properties":{"a":{"type":"string"}}}}}}`, true)
	for _, c := range table.Read[struct {
		Base, Pointer      []string
		Optional, Nullable bool
	}](t, "lookup_below", 8) {
		p, ok := s.LookupBelow(c.Base, c.Pointer)
		assert.True(t, ok && p.Optional == c.Optional && p.Nullable == c.Nullable, "%q below %q: %+v, %v", c.Pointer,
			c.Base, p, ok)
	}
	_, ok := s.LookupBelow([]string{"l", "*"}, []string{"c"})
	assert.False(t, ok, "a member that is not declared is there")
}

//go:embed testdata/lookup_filled.json
var filledSchema string

// TestLookupFilled: places that a default always fills in, and some that only look so. Each is
// compared with AppendDefaults of the empty object.
func TestLookupFilled(t *testing.T) {
	t.Parallel()
	s := compile(t, filledSchema, true)
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(`{"req":"r"}`), crypto.Limits{Bytes: 99, Depth: 9}))
	text, _ := s.AppendDefaults(nil, tree.Root())
	var after crypto.Tree
	require.NoError(t, after.Parse(text, crypto.Limits{Bytes: 999, Depth: 9}))
	for _, c := range table.Read[struct {
		Pointer          []string
		Optional, Filled bool
	}](t, "lookup_filled", 9) {
		p, ok := s.Lookup(c.Pointer)
		assert.True(t, ok && p.Optional == c.Optional && p.Filled == c.Filled, "%v: %+v %v", c.Pointer, p, ok)
		v := after.Root()
		for _, name := range c.Pointer {
			v = v.Get(name)
		}
		assert.Equal(t, !c.Optional || c.Filled, v.Exists(), "%v: after defaults it is there", c.Pointer)
	}
}

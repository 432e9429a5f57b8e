package jsonschema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/table"
)

// TestOpenPointers: from an open pointer down a schema means what an open one means, and everywhere
// else it is closed.
func TestOpenPointers(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct {
		Name, Schema         string
		Open, Valid, Invalid []string
	}](t, "open", 11) {
		var open [][]string
		for _, p := range c.Open {
			open = append(open, strings.Split(p, "/")[1:]) // "root" is no segments
		}
		_, err := Compile(parse(t, c.Schema), true)
		require.Error(t, err, "%s: nothing needs to be open", c.Name)
		s, err := Compile(parse(t, c.Schema), true, open...)
		require.NoError(t, err, c.Name)
		for _, value := range c.Valid {
			assert.Nil(t, s.Validate(parse(t, value)), "%s: %s", c.Name, value)
		}
		for _, value := range c.Invalid {
			assert.NotNil(t, s.Validate(parse(t, value)), "%s: %s is valid", c.Name, value)
		}
		for i, p := range open {
			place, ok := s.Lookup(p)
			assert.True(t, ok && place.Open, "%s: %s: %+v", c.Name, c.Open[i], place)
			below, ok := s.Lookup(append(p[:len(p):len(p)], "a"))
			assert.True(t, !ok && below.Open, "%s: a pointer below %s", c.Name, c.Open[i])
		}
	}
}

// TestOpenNothing: pointers that lead nowhere open nothing; the caller sees it by Lookup.
func TestOpenNothing(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}},
		"l":{"type":"array","items":{"type":"string"}}}}`
	for _, p := range [][]string{{"x"}, {"a", "*"}, {"l", "0"}, {"a", "b", "c"}, {"*"}} {
		s, err := Compile(parse(t, schema), true, p)
		require.NoError(t, err)
		place, ok := s.Lookup(p)
		assert.False(t, ok && place.Open, "%q", p)
		assert.NotNil(t, s.Validate(parse(t, `{"a":{"x":1}}`)), "%q lets a member in", p)
	}
}

// TestMap: Lookup tells a map from other objects.
func TestMap(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","properties":{
		"m":{"type":["object","null"],"additionalProperties":{"type":"string"}},
		"o":{"type":"object","properties":{"a":{"type":"string"}}},
		"u":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"object","additionalProperties":{"type":"null"}}]},
		"x":{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","additionalProperties":{"type":"null"}}]}}}`,
		true)
	for name, want := range map[string]bool{"m": true, "o": false, "u": true, "x": false} {
		p, ok := s.Lookup([]string{name})
		assert.True(t, ok && p.Map == want, "%s: %+v", name, p)
	}
}

// TestValidateWithin: a test of a pattern costs bytes × steps / 8,192 visits, in a branch and for a
// name as well. Nothing is tested any more when they are spent, so the worst pattern on the longest
// text costs no time.
func TestValidateWithin(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 8192)
	for _, c := range []struct {
		schema, value string
		visits        int
	}{
		{`{"pattern":"^a+$"}`, `"` + long + `"`, 3},
		{`{"pattern":"^a{1,500}"}`, `"` + long + `"`, 501},
		{`{"pattern":"(?:ab|[^b]){10}"}`, `"` + long + `"`, 30},
		{`{"pattern":"a"}`, `"` + long[1:] + `"`, 0},
		{`{"pattern":"^[^b]+$"}`, `"` + strings.Repeat(`\n`, 8192) + `"`, 3},
		{`{"maxLength":9000}`, `"` + long + `"`, 0},
		{`{"items":{"pattern":"aa"}}`, `["` + long + `",3,"` + long + `"]`, 4},
		{`{"anyOf":[{"pattern":"^a"},{"pattern":"^b"}]}`, `"` + long + `"`, 2},
		{`{"oneOf":[{"pattern":"^a"},{"pattern":"^b"}]}`, `"` + long + `"`, 4},
		{`{"propertyNames":{"pattern":"^[a-z]"},"additionalProperties":{"pattern":"a"}}`,
			`{"` + long + `":"` + long + `"}`, 3},
	} {
		s, v := compile(t, c.schema, false), parse(t, c.value)
		visits := 7
		violation, ok := s.ValidateWithin(v, &visits, 1000)
		assert.True(t, violation == nil && ok, "%s: %v", c.schema, violation)
		assert.Equal(t, 7+c.visits, visits, c.schema)
		if c.visits > 0 {
			visits = 7
			violation, ok = s.ValidateWithin(v, &visits, 6+c.visits)
			assert.True(t, violation == nil && !ok && visits > 6+c.visits, "%s: %v, %d visits", c.schema, violation,
				visits)
		}
	}
	worst := compile(t, `{"items":{"pattern":"(?s).*[a-z ]{1,500}x.*"}}`, false)
	visits := 0
	_, ok := worst.ValidateWithin(parse(t, `["`+strings.Repeat(`a`, 1<<20)+strings.Repeat(`","`+long, 1000)+`"]`),
		&visits, 10_000)
	assert.False(t, ok, "%d visits", visits)
}

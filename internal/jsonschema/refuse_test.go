package jsonschema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

// TestRefused: schemas that are not in the subset, mean nothing or allow no value are refused, with
// the place and a remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	type row struct{ Schema, Pointer, What string }
	for _, c := range append(table.Read[row](t, "refused", 121), []row{
		{`{"enum":[` + strings.Repeat("0,", 10_000) + `0]}`, "/enum", "more than 10000 values"},
		{`{"pattern":"` + strings.Repeat("a", 1025) + `"}`, "/pattern", "the pattern is longer than 1 KiB"},
	}...) {
		mustRefuse(t, c.Schema, false, c.Pointer, c.What)
	}
}

// TestRefusedClosed: schemas for arguments.
func TestRefusedClosed(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct{ Schema, Pointer, What string }](t, "refused_closed", 35) {
		mustRefuse(t, c.Schema, true, c.Pointer, c.What)
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

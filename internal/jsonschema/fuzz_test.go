package jsonschema

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// FuzzSchema reads any text as a schema and any as a value: no panic, and every schema that
// compiles keeps the promises.
func FuzzSchema(f *testing.F) {
	for _, value := range []string{hotArgs, `{}`, `[{"a":1},{},"x\n"]`, `{"x":"é"}`, `4.35`, `"ab12"`, `null`} {
		f.Add([]byte(hotSchema), []byte(value), "a", true)
		f.Add([]byte(hotSchema), []byte(value), "*", false)
	}
	f.Fuzz(func(t *testing.T, schema, value []byte, name string, closed bool) {
		from, err := tryParse(schema)
		if err != nil {
			return
		}
		s, err := Compile(from, closed)
		if err != nil {
			mustName(t, string(schema), from, err)
			return
		}
		v, err := tryParse(value)
		if err != nil {
			return
		}
		first := s.Validate(v)
		if first != nil {
			mustPoint(t, v, first)
		}
		// The canonical form has the same result.
		canonical, err := tryParse(v.Append(nil))
		require.NoError(t, err)
		if again := s.Validate(canonical); (again == nil) != (first == nil) || again != nil && *again != *first {
			t.Errorf("%v, and for the canonical form %v", first, again)
		}
		for _, p := range [][]string{nil, {name}, {"*", name}, {name, "*"}, {name, name}, {"0"}} {
			if place, ok := s.Lookup(p); ok && place.Types == 0 && !place.Nullable {
				t.Errorf("%q is a place for nothing", p)
			}
		}
		filled, ok := s.AppendDefaults(nil, v)
		if !ok || len(filled) > maxFilled {
			return
		}
		var tree crypto.Tree
		if err := tree.Parse(filled, crypto.Limits{Bytes: len(filled), Depth: crypto.MaxDepth}); err != nil {
			return // the defaults nest a deep value deeper still
		}
		assert.True(t, bytes.Equal(tree.Root().Append(nil), filled), "%s is not canonical", filled)
		_, again := s.AppendDefaults(nil, tree.Root())
		assert.False(t, again, "%s is filled again", filled)
	})
}

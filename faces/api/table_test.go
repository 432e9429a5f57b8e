package api

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// TestMain requires, after a run of all tests, that each answer without an error that openapi.json
// has was seen, and found to be as it says.
func TestMain(m *testing.M) {
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" &&
		flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == ""
	if code == 0 && whole && !race.Enabled {
		for name, methods := range readSpec().Paths {
			for method, op := range methods {
				for status := range op.Responses {
					answer := strings.ToUpper(method) + " " + name + " " + status
					if status != "default" && !seen.of[answer] {
						fmt.Println("no test saw the answer", answer)
						code = 1
					}
				}
			}
		}
	}
	os.Exit(code)
}

// TestDocumentAndTable: openapi.json has each row of the table, with its scopes and parameters, and
// nothing else.
func TestDocumentAndTable(t *testing.T) {
	t.Parallel()
	s := readSpec()
	rows := map[string]bool{}
	for _, p := range paths {
		name := p.method + " " + p.path
		require.False(t, rows[name], "%s is there twice", name)
		rows[name] = true
		op, ok := s.Paths[p.path][strings.ToLower(p.method)]
		if !assert.True(t, ok, "openapi.json lacks %s", name) {
			continue
		}
		assert.ElementsMatch(t, p.scopes, op.Scopes, name)
		assert.Equal(t, p.acts, op.Acts, name)
		var query, inPath []string
		for _, x := range op.Parameters {
			if name, ok := strings.CutPrefix(x.Ref, "#/components/parameters/"); ok {
				x = s.Components.Parameters[name]
				assert.Equal(t, name, x.Name)
			}
			switch x.In {
			case "query":
				query = append(query, x.Name)
			case "path":
				assert.True(t, x.Required, name)
				inPath = append(inPath, "{"+x.Name+"}")
			default:
				t.Errorf("%s: a parameter in %s", name, x.In)
			}
			assert.NotNil(t, x.Schema, name)
		}
		assert.ElementsMatch(t, p.query, query, name)
		for part := range strings.SplitSeq(p.path, "/") {
			if strings.HasPrefix(part, "{") {
				i := slices.Index(inPath, part)
				require.GreaterOrEqual(t, i, 0, "%s: %s", name, part)
				inPath = slices.Delete(inPath, i, i+1)
			}
		}
		assert.Empty(t, inPath, name)
		assert.Contains(t, op.Responses, "default", name)
	}
	for name, methods := range s.Paths {
		for method := range methods {
			assert.True(t, rows[strings.ToUpper(method)+" "+name], "openapi.json has %s %s, and the table has not",
				method, name)
		}
	}
}

// TestSchemasAreUsed: each schema is used, and each that is used is there.
func TestSchemasAreUsed(t *testing.T) {
	t.Parallel()
	c := readSpec().Components
	for name := range c.Schemas {
		assert.Contains(t, string(document), `"#/components/schemas/`+name+`"`)
	}
	for name := range c.Parameters {
		assert.Contains(t, string(document), `"#/components/parameters/`+name+`"`)
	}
}

// TestCheckFinds: what is not as a schema says is found.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	c := check{&spec{}}
	for _, x := range []struct{ schema, v any }{
		{map[string]any{"type": "string"}, nil},
		{map[string]any{"type": []any{"string", "null"}}, true},
		{map[string]any{"const": "a"}, "b"},
		{map[string]any{"enum": []any{"a"}}, "b"},
		{map[string]any{"pattern": "^a$"}, "ab"},
		{map[string]any{"required": []any{"a"}}, map[string]any{}},
		{map[string]any{"properties": map[string]any{}}, map[string]any{"a": nil}},
		{map[string]any{"properties": map[string]any{"a": map[string]any{"type": "null"}}}, map[string]any{"a": "b"}},
		{map[string]any{"items": map[string]any{"type": "null"}}, []any{"b"}},
		{map[string]any{"oneOf": []any{map[string]any{}, map[string]any{}}}, "b"},
		{map[string]any{"$ref": "#/components/schemas/none"}, "b"},
		{map[string]any{"minItems": 1.0}, []any{}},
	} {
		assert.Error(t, c.value(x.schema, x.v, ""), "%v", x.schema)
	}
}

package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/shared"
)

var update = flag.Bool("update", false, "rewrite testdata/suite_out.txt")

// parse reads JSON that a test is sure of.
func parse(t testing.TB, text string) crypto.Value {
	t.Helper()
	v, err := tryParse([]byte(text))
	require.NoError(t, err, "%s", text)
	return v
}

func tryParse(text []byte) (crypto.Value, error) {
	tree := new(crypto.Tree)
	err := tree.Parse(text, crypto.Limits{Bytes: 1 << 26, Depth: crypto.MaxDepth})
	return tree.Root(), err
}

func compile(t testing.TB, schema string, closed bool) *Schema {
	t.Helper()
	s, err := Compile(parse(t, schema), closed)
	require.NoError(t, err, "%s", schema)
	return s
}

// TestSuite runs the JSON-Schema-Test-Suite, draft 2020-12. Each schema is either in the subset,
// and then every case must have the stated result, or it is refused and listed in
// testdata/suite_out.txt, which lists no others.
func TestSuite(t *testing.T) {
	files := suiteFiles(t)
	var out strings.Builder
	in, refused, cases := 0, 0, 0
	for _, file := range files {
		for _, g := range readGroups(t, file) {
			name := filepath.Base(file) + ": " + g.Description
			schema := parse(t, string(g.Schema))
			s, err := Compile(schema, false)
			if err != nil {
				refused++
				fmt.Fprintf(&out, "%s: %s\n", name, mustName(t, name, schema, err))
				continue
			}
			in++
			for _, c := range g.Tests {
				v, err := tryParse(c.Data)
				if err != nil {
					t.Errorf("%s: %s: %v", name, c.Description, err)
					continue
				}
				cases++
				if violation := s.Validate(v); (violation == nil) != c.Valid {
					t.Errorf("%s: %s: got %v, want valid %v", name, c.Description, violation, c.Valid)
				}
			}
		}
	}
	t.Logf("%d schemas within the subset, %d cases; %d schemas refused by name", in, cases, refused)
	assert.True(t, in != 0 && cases != 0 && refused != 0, "a run that checked nothing")
	const list = "testdata/suite_out.txt"
	if *update {
		require.NoError(t, os.WriteFile(list, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(list)
	require.NoError(t, err)
	if got := strings.Split(out.String(), "\n"); out.String() != string(want) {
		for i, line := range strings.Split(string(want), "\n") {
			require.True(t, i < len(got) && got[i] == line, "%s, line %d, is not what is refused:\n%s", list, i+1, line)
		}
		t.Fatalf("%s lacks what is refused beyond line %d", list, strings.Count(string(want), "\n"))
	}
}

type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func readGroups(t *testing.T, file string) (groups []group) {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	err = json.Unmarshal(b, &groups)
	require.True(t, err == nil && len(groups) != 0, "%s: no groups, %v", file, err)
	return groups
}

// mustName checks that a refusal has a place, a reason and a remedy, and that the place exists.
func mustName(t *testing.T, name string, schema crypto.Value, err error) string {
	var e *Error
	require.True(t, errors.As(err, &e) && e.What != "" && e.Remedy != "", "%s: refused without saying why: %v", name,
		err)
	assert.NotEqual(t, crypto.Missing, at(schema, e.Pointer).Kind(), "%s: refused for %s, where there is nothing", name,
		e.Pointer)
	return "#" + e.Pointer + " " + e.What
}

// at resolves a JSON Pointer.
func at(v crypto.Value, pointer string) crypto.Value {
	for _, s := range strings.Split(pointer, "/")[1:] {
		s = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		if v.Kind() == crypto.Array {
			var i int
			if _, err := fmt.Sscan(s, &i); err != nil {
				return crypto.Value{}
			}
			v = v.At(i)
			continue
		}
		v = v.Get(s)
	}
	return v
}

func suiteFiles(t *testing.T) []string {
	t.Helper()
	suite := shared.Path(t, "data/json-schema-test-suite", "the JSON Schema suite was not run")
	files, err := filepath.Glob(filepath.Join(suite, "*.json"))
	require.True(t, err == nil && len(files) != 0, "%s: no schemas: %v", suite, err)
	return files
}

// TestSuiteClosed compiles the same schemas closed, below a property, since arguments are an
// object. If that property is open each case is what it was. If it is not, a schema that leaves
// something open is refused, and the others may refuse a value that an open schema allows, never
// the other way round.
func TestSuiteClosed(t *testing.T) {
	t.Parallel()
	files := suiteFiles(t)
	open, same, refused := 0, 0, 0
	for _, file := range files {
		for _, g := range readGroups(t, file) {
			if bytes.Contains(g.Schema, []byte(`"$ref"`)) {
				continue // its pointers would lead elsewhere
			}
			if _, err := Compile(parse(t, string(g.Schema)), false); err != nil {
				continue
			}
			wrapped := parse(t, `{"type":"object","properties":{"x":`+string(g.Schema)+`}}`)
			opened, err := Compile(wrapped, true, []string{"x"})
			require.NoError(t, err, "%s: %s", file, g.Description)
			closed, err := Compile(wrapped, true)
			if err != nil {
				refused++
			}
			for _, c := range g.Tests {
				v := parse(t, `{"x":`+string(c.Data)+`}`)
				open++
				assert.Equal(t, c.Valid, opened.Validate(v) == nil, "%s: %s: %s: open", file, g.Description,
					c.Description)
				if closed == nil {
					continue
				}
				if valid := closed.Validate(v) == nil; valid && !c.Valid {
					t.Errorf("%s: %s: %s: closing made it valid", file, g.Description, c.Description)
				}
				same++
			}
		}
	}
	t.Logf("%d cases open, %d closed, %d schemas refused closed", open, same, refused)
	assert.True(t, open > 400 && same > 50 && refused > 50, "a run that checked little")
}

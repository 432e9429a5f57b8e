package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// A serverTool is one of a server's answer to tools/list.
type serverTool struct {
	Name         string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
}

// TestServers: of the tools of published servers at least 97 in a hundred load unchanged, or with
// open alone. No value that the server's own schema allows is refused, except for members that no
// schema describes, and none that it refuses is allowed.
func TestServers(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	files, err := filepath.Glob("testdata/servers/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10, "servers")
	tools, unchanged, opened, pinned, outputs := 0, 0, 0, 0, 0
	var seen comparison
	r := &random{Rand: rand.New(rand.NewPCG(17, 18)), closed: true}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []serverTool
		require.NoError(t, json.Unmarshal(text, &list))
		require.NotEmpty(t, list, file)
		for _, tool := range list {
			tools++
			at := filepath.Base(file) + ": " + tool.Name
			if tool.OutputSchema != nil {
				outputs++
				if _, err := Compile(parse(t, string(tool.OutputSchema)), false); err != nil {
					t.Logf("%s: output: %v", at, err)
				} else {
					pinned++
				}
			}
			s, open, err := withOpen(t, string(tool.InputSchema))
			switch {
			case err != nil:
				t.Logf("%s: %v", at, err)
				continue
			case open == nil:
				unchanged++
			default:
				opened++
			}
			seen.compare(t, r, at, s, tool.InputSchema)
		}
	}
	t.Logf("%d servers, %d tools: %d inputs load unchanged, %d with open, %d not; %d of %d outputs load", len(files),
		tools,
		unchanged, opened, tools-unchanged-opened, pinned, outputs)
	t.Logf("values: %d valid by both, %d by none, %d with a member that no schema describes", seen.valid, seen.invalid,
		seen.closed)
	assert.GreaterOrEqual(t, 100*(unchanged+opened), 97*tools, "inputs that load")
	assert.True(t, seen.valid > 5*tools && seen.invalid > tools && seen.closed > 10, "too little was compared")
}

var openRemedy = regexp.MustCompile(`list (\S+) under the tool's open$`)

// withOpen compiles the input of a tool, and opens what the remedies of refusals say.
func withOpen(t *testing.T, schema string) (*Schema, [][]string, error) {
	v := parse(t, schema)
	var open [][]string
	for range 100 {
		s, err := Compile(v, true, open...)
		var e *Error
		if !errors.As(err, &e) {
			return s, open, err
		}
		m := openRemedy.FindStringSubmatch(e.Remedy)
		if m == nil {
			return nil, nil, err
		}
		var segments []string
		for _, s := range strings.Split(strings.Trim(m[1], `"`), "/")[1:] {
			segments = append(segments, pointerUnescapes.Replace(s))
		}
		open = append(open, segments)
	}
	t.Fatalf("opening what the remedies say does not help: %q", open)
	return nil, nil, nil
}

// A comparison counts values that were compared.
type comparison struct{ valid, invalid, closed int }

func (x *comparison) compare(t *testing.T, r *random, at string, s *Schema, text []byte) {
	t.Helper()
	schema, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, at)
	delete(schema.(mapping), "$schema") // draft 7 may check format
	c := santhosh.NewCompiler()
	require.NoError(t, c.AddResource("mem:///s", schema), at)
	theirs, err := c.Compile("mem:///s")
	require.NoError(t, err, at)
	var doc mapping
	require.NoError(t, json.Unmarshal(text, &doc), at)
	for range 40 {
		value := r.text(r.value(doc, 6))
		instance, err := santhosh.UnmarshalJSON(bytes.NewReader(value))
		require.NoError(t, err, at)
		want, got := theirs.Validate(instance), s.Validate(parse(t, string(value)))
		switch {
		case want == nil && got == nil:
			x.valid++
		case want != nil && got != nil:
			x.invalid++
		case want != nil:
			t.Fatalf("%s allows %s, and the server does not: %v", at, value, want)
		case !strings.HasPrefix(got.Constraint, "additionalProperties: "):
			t.Fatalf("%s refuses %s, and the server does not: %v", at, value, got)
		default:
			x.closed++
		}
	}
}

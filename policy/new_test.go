package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// servers returns what published servers answered to tools/list, by name.
func servers(t *testing.T) map[string][]map[string]any {
	t.Helper()
	files, err := filepath.Glob("../internal/jsonschema/testdata/servers/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 16, "servers")
	lists := map[string][]map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []map[string]any
		require.NoError(t, json.Unmarshal(text, &list))
		require.NotEmpty(t, list, file)
		lists[strings.TrimSuffix(filepath.Base(file), ".json")] = list
	}
	return lists
}

// forms returns a list of tools as each client has it.
func forms(list []map[string]any) map[string]any {
	var chat, responses, anthropic []any
	for _, tool := range list {
		function := map[string]any{"name": tool["name"], "description": "d", "parameters": tool["inputSchema"]}
		chat = append(chat, map[string]any{"type": "function", "function": function})
		responses = append(responses, map[string]any{"type": "function", "name": tool["name"],
			"parameters": tool["inputSchema"], "strict": true})
		anthropic = append(anthropic, map[string]any{"name": tool["name"], "input_schema": tool["inputSchema"]})
	}
	return map[string]any{
		"MCP": map[string]any{"tools": list}, "MCP array": list,
		"MCP response": map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"tools": list}},
		"chat":         chat, "responses": responses, "Anthropic": anthropic,
	}
}

// TestNew: of every list of a published server, in every form, a bundle is made that loads, allows
// nothing, and has a note for each place of the schemas that is not as it was.
func TestNew(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	tools, noted := 0, 0
	for name, list := range servers(t) {
		for form, v := range forms(list) {
			if form != "MCP" && len(list) > 14 {
				continue // the schemas are the same, and reading them takes time
			}
			text, err := json.Marshal(v)
			require.NoError(t, err)
			yaml, notes, err := New(text, "tools")
			require.NoError(t, err, "%s, %s", name, form)
			doc, err := Parse("tools.yaml", yaml)
			require.NoError(t, err)
			pol, err := guardian.Compile(doc)
			require.NoError(t, err)
			require.Len(t, pol.Tools(), len(list), "%s, %s", name, form)
			assert.Empty(t, pol.Callable(contracts.Caller{ID: "root", Roles: []string{"admin"}}))
			require.Equal(t, bytes.Count(yaml, []byte("# closed: "))+bytes.Count(yaml, []byte("# left out: ")),
				len(notes), "notes and comments")
			original := root(t, text)
			for _, x := range notes {
				at, ok := follow(original, x.Pointer)
				require.True(t, ok, "%s, %s: %s", name, form, x)
				assert.True(t, strings.HasPrefix(x.What, "closed: ") || strings.HasPrefix(x.What, "left out: "), x)
				if strings.HasPrefix(x.What, "closed: members") && at.Kind() == crypto.Object {
					assert.NotEqual(t, "false", string(at.Get("additionalProperties").Raw()), "%s is closed as it is", x)
				}
			}
			for _, tool := range pol.Tools() {
				assert.Equal(t, contracts.Destructive, tool.Effect)
				assert.NotZero(t, tool.Definition)
			}
			tools, noted = tools+len(list), noted+len(notes)
			if len(notes) == 0 { // then the schemas are the published ones
				for i, tool := range list {
					declared := toolNamed(t, pol, list[i]["name"].(string))
					assert.JSONEq(t, encoded(t, tool["inputSchema"]), string(declared.Input))
				}
			}
		}
	}
	t.Logf("%d tools, %d notes", tools, noted)
	assert.True(t, tools > 400 && noted > tools/10, "too little was made")
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func toolNamed(t *testing.T, pol *guardian.Policy, name string) guardian.Tool {
	t.Helper()
	for _, x := range pol.Tools() {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no tool %s", name)
	return guardian.Tool{}
}

func root(t *testing.T, text []byte) crypto.Value {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}))
	return tree.Root()
}

// follow returns the value at a JSON Pointer.
func follow(v crypto.Value, pointer string) (crypto.Value, bool) {
	if pointer == "" {
		return v, true
	}
	for _, s := range strings.Split(pointer, "/")[1:] {
		if v.Kind() == crypto.Array {
			i, n := 0, 0
			for _, c := range s {
				i, n = 10*i+int(c-'0'), n+1
			}
			v = v.At(i)
			continue
		}
		v = v.Get(unescapeSegment.Replace(s))
	}
	return v, v.Kind() != crypto.Missing
}

// TestNewDraft: what becomes of each thing that the subset lacks. testdata/new.yaml is the text of
// the bundle; its comments are the notes.
func TestNewDraft(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/new.json")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/new.yaml")
	require.NoError(t, err)
	got, notes, err := New(list, "drafts")
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	again, _, err := New(list, "drafts")
	require.NoError(t, err)
	assert.Equal(t, string(got), string(again), "the same list, twice")
	require.Contains(t, notes, Note{"no arguments", "/1", "left out: its name is not 1 to 128 of A-Z a-z 0-9 . _ : @ / -"})
	require.Contains(t, notes, Note{"hosted", "/2",
		"left out: it has no schema: it runs at the provider, where no kernel stands before it"})
	assert.Equal(t, "hosted: /2: "+notes[len(notes)-2].What, notes[len(notes)-2].String())
}

// TestNewDocument: the list in docs/TESTING.md becomes the bundle below it.
func TestNewDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/TESTING.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "### A draft from a list of tools")
	_, rest, _ = strings.Cut(rest, "```json\n")
	list, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	want, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	got, _, err := New([]byte(list), "web")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(got), "helm: ")
	assert.Equal(t, want, "helm: "+text)
}

// TestNewMany: a schema with more places than are mended is not taken over, and soon.
func TestNewMany(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	var b strings.Builder
	for i := range 600 {
		b.WriteString(`,"p` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + `":{"not":{}}`)
	}
	list := `[{"name":"t","inputSchema":{"type":"object","properties":{` + b.String()[1:] + `}}}]`
	_, _, err := New([]byte(list), "x")
	require.ErrorContains(t, err, "not strict JSON", "or the names above differ")
	b.Reset()
	for i := range 600 {
		b.WriteString(`,"p` + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":{"not":{}}`)
	}
	list = `[{"name":"t","inputSchema":{"type":"object","properties":{` + b.String()[1:] + `}}}]`
	yaml, notes, err := New([]byte(list), "x")
	require.NoError(t, err)
	assert.Equal(t, "left out: all of the schema: more than 200 places that policies cannot say", notes[len(notes)-1].What)
	assert.Contains(t, string(yaml), "    input: {type: object, additionalProperties: false}\n")
}

func TestNewRefused(t *testing.T) {
	t.Parallel()
	const tool = `{"name":"t","inputSchema":{"type":"object"}}`
	for list, want := range map[string]string{
		``:                               "the list of tools is not strict JSON",
		`[{"name":"t","name":"u"}]`:      "the list of tools is not strict JSON",
		`{}`:                             "no list of tools",
		`[]`:                             "no list of tools",
		`{"tools":[]}`:                   "no list of tools",
		`{"result":{"content":[]}}`:      "no list of tools",
		`[1]`:                            "/0: a tool is an object",
		`[` + tool + `,` + tool + `]`:    "/1: a second tool t",
		`{"tools":[{"inputSchema":{}}]}`: "/tools/0: the tool has no name",
		`[{"name":1,"input_schema":{}}]`: "/0: the tool has no name",
		`[{"name":"t"}]`:                 "none of the 1 tools of the list can be declared",
		`[{"name":"` + "\u00e9" + `","input_schema":{}}]`: "none of the 1 tools of the list can be declared",
		`[` + tool + `,{"name":"u","input_schema":{}}]`:   "/1: a tool as Anthropic has it, and /0 is as MCP has it",
		`[{"name":"t","inputSchema":{},"parameters":{}}]`: "/0: a tool as MCP and as OpenAI has it",
	} {
		yaml, notes, err := New([]byte(list), "x")
		assert.ErrorContains(t, err, "policy: ", list)
		assert.ErrorContains(t, err, want, list)
		assert.Nil(t, yaml)
		assert.Nil(t, notes)
	}
	_, _, err := New([]byte(`[`+tool+`]`), "no name")
	assert.ErrorContains(t, err, `policy: "no name" is no name of a bundle`)
}

// FuzzNew: whatever the list, what New returns loads, has the same text each time, and allows
// nothing.
func FuzzNew(f *testing.F) {
	list, err := os.ReadFile("testdata/new.json")
	require.NoError(f, err)
	f.Add(list)
	f.Add([]byte(`{"tools":[{"name":"t","inputSchema":{"$defs":{"a":{"$ref":"#/$defs/a"}},"type":"object"}}]}`))
	f.Add([]byte(`[{"type":"function","function":{"name":"t"}},{"type":"web_search"}]`))
	f.Add([]byte(`[{"name":"t","input_schema":{"anyOf":[{"required":["a"]},{"properties":{"a":1}}],"type":"object"}}]`))
	f.Fuzz(func(t *testing.T, list []byte) {
		text, _, err := New(list, "x")
		if err != nil {
			return
		}
		doc, err := Parse("x.yaml", text)
		require.NoError(t, err)
		pol, err := guardian.Compile(doc)
		require.NoError(t, err)
		require.NotEmpty(t, pol.Tools())
		require.Empty(t, pol.Callable(contracts.Caller{ID: "x"}))
	})
}

// TestNewPrints: of what a server says nothing in the text turns it round, moves a cursor or is not
// seen; and it is the same string.
func TestNewPrints(t *testing.T) {
	t.Parallel()
	const hostile = "a\n  b: {}\r# \u202e\u2066\u200b\u2028\u00a0\x1b[2J\x7f\U000e0041\ufeff\u00fc"
	schema := map[string]any{"type": "object", "additionalProperties": false,
		"properties": map[string]any{hostile: map[string]any{"type": "string", "description": hostile, "not": map[string]any{}}}}
	list := encoded(t, []any{map[string]any{"name": "b", "inputSchema": schema}})
	text, _, err := New([]byte(list), "tools")
	require.NoError(t, err)
	for _, r := range string(text) {
		assert.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
	}
	doc, err := Parse("tools.yaml", text)
	require.NoError(t, err)
	pol, err := guardian.Compile(doc)
	require.NoError(t, err)
	var input struct {
		Properties map[string]struct{ Description string }
	}
	require.NoError(t, json.Unmarshal(toolNamed(t, pol, "b").Input, &input))
	assert.Equal(t, hostile, input.Properties[hostile].Description)
}

// TestNewNames: names that mean something else in YAML are quoted, and are the tools' still.
func TestNewNames(t *testing.T) {
	t.Parallel()
	names := []string{"on", "Off", "yes", "n", "null", "true", "12", "1e3", "0x1F", "0o7", "1:30", "1_000", ".inf", "2026-01-01",
		"a:b", "a:", ":", "-", "-x", "---", "...", "@x", "a/b", "files__read", "files__resources/read"}
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{%[1]q:{"enum":[%[1]q]}}}}`, name))
	}
	text, notes, err := New([]byte(`{"tools":[`+strings.Join(list, ",")+`]}`), "names")
	require.NoError(t, err)
	for _, n := range notes {
		assert.NotContains(t, n.What, "left out")
	}
	doc, err := Parse("names.yaml", text)
	require.NoError(t, err)
	var said struct {
		Tools map[string]struct {
			Input struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(doc.Canonical, &said))
	require.Len(t, said.Tools, len(names))
	for _, name := range names {
		require.Contains(t, said.Tools, name)
		assert.Equal(t, []string{name}, said.Tools[name].Input.Properties[name].Enum, name)
	}
}

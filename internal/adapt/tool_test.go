package adapt

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// The definition is that of an MCP server's entry with the same words, whatever the schema's type.
func TestPublished(t *testing.T) {
	t.Parallel()
	const want = `{"description":"Finds <it>.","inputSchema":{"properties":{"q":{"type":"string"}},"type":"object"},` +
		`"name":"find"}`
	for name, schema := range map[string]any{
		"raw": json.RawMessage(`{"type":"object", "properties":{"q":{"type":"string"}}}`),
		"map": map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}},
	} {
		entry, definition, err := Published("find", "Finds <it>.", schema)
		require.NoError(t, err, name)
		assert.Equal(t, want, string(entry), name)
		own, err := contracts.DefinitionOf([]byte(`{"name":"find","description":"Finds <it>.","inputSchema":` +
			`{"type":"object","properties":{"q":{"type":"string"}}}}`))
		require.NoError(t, err)
		assert.Equal(t, own, definition, name)
	}
	for _, none := range []any{nil, json.RawMessage("null"), (*struct{})(nil), map[string]any(nil)} {
		entry, _, err := Published("find", "", none)
		require.NoError(t, err)
		assert.Equal(t, `{"name":"find"}`, string(entry))
	}
}

// Each word that is published is in the definition.
func TestPublishedDiffer(t *testing.T) {
	t.Parallel()
	seen := map[contracts.Digest]string{}
	for _, c := range []struct {
		name, description string
		schema            any
	}{
		{"find", "Finds.", nil}, {"find", "", nil}, {"find", "", map[string]any{}}, {"Find", "Finds.", nil},
		{"find", "Finds", nil}, {"find", "Finds.", map[string]any{"type": "object"}},
		{"find", "Finds.", map[string]any{"type": "string"}},
	} {
		entry, d, err := Published(c.name, c.description, c.schema)
		require.NoError(t, err)
		assert.Empty(t, seen[d], "%s", entry)
		seen[d] = string(entry)
	}
}

func TestPublishedRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]any{
		"a list": []int{1}, "true": true, "a text": json.RawMessage(`"hunter2"`), "no JSON": json.RawMessage(`{"hunter2"`),
		"twice": json.RawMessage(`{"hunter2":1,"hunter2":2}`), "empty": json.RawMessage{}, "NaN": math.NaN(),
		"a number that is not itself": json.RawMessage(`{"maximum":9007199254740993}`), "hostile": hostile{},
		"not UTF-8": json.RawMessage("{\"a\":\"\xff\"}"), "a channel": make(chan int),
		"deep": json.RawMessage(strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)),
		"long": map[string]any{"a": strings.Repeat("x", maxDefinition)},
	} {
		entry, d, err := Published("find", "Finds.", schema)
		if name == "empty" { // as none
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, name)
		assert.Zero(t, d, name)
		assert.Empty(t, entry, name)
		assert.NotContains(t, err.Error(), "hunter2", name)
	}
	_, _, err := Published("fi\xffnd", "", nil)
	require.Error(t, err)
	_, _, err = Published("find", "\xff", nil)
	require.Error(t, err)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	m, err := Decode([]byte(`{"a":9007199254740991,"b":{"c":[1.5,null]},"d":"x"}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": json.Number("9007199254740991"), "d": "x",
		"b": map[string]any{"c": []any{json.Number("1.5"), nil}}}, m)
	b, err := json.Marshal(m)
	require.NoError(t, err)
	assert.Equal(t, `{"a":9007199254740991,"b":{"c":[1.5,null]},"d":"x"}`, string(b))
	for _, bad := range []string{"", "null", "[]", "1", `"x"`, `{"hunter2":1}}`, `{} {}`, `{"hunter2"`} {
		_, err := Decode([]byte(bad))
		require.Error(t, err, bad)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

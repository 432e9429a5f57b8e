package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A good bundle, of which each case below spoils one thing. Keys are in the order that is
// canonical, so that places can be told.
const good = `{
	"bundle": {"name": "b", "version": 1},
	"expires": "2099-01-01T00:00:00Z",
	"helm": "policy/v1",
	"layer": "P1",
	"lists": {"names": ["x", "y"], "sums": [1, 2]},
	"rules": [
		{"id": "one", "deny": "t", "when": {"arg": "/s", "eq": "a"}},
		{"id": "two", "allow": ["t", "u"]}
	],
	"tools": {
		"t": {
			"effect": "write", "risk": "high",
			"input": {"type": "object", "required": ["s", "n", "l", "path", "rows"], "properties": {
				"s": {"type": "string"}, "n": {"type": "number"}, "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "string"},
				"path": {"type": "string"}, "b": {"type": "boolean"}, "x": {"type": ["string", "null"]},
				"rows": {"type": "array", "items": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}, "cc": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}}}},
			"output": {"type": "object"},
			"scope": [{"arg": "/path", "within": "/srv"}, {"arg": "/rows/*/to", "email": "corp.com"}],
			"limits": {"timeout": "10s", "output": "64KiB", "args": "1MiB"}
		},
		"u": {"effect": "read", "input": {"type": "object", "properties": {}}}
	}
}`

const goodWhen = `{"arg": "/s", "eq": "a"}`

// when puts a predicate into a deny rule about t.
func when(pred, at, says string) refusal { return refusal{goodWhen, pred, "/rules/0/when" + at, says} }

// longRefusals are those that are too long for bundle_refusals.txt.
var longRefusals = []refusal{
	when(`{"any": [`+strings.Repeat(goodWhen+",", 64)+goodWhen+`]}`, "/any", "1 to 64"),
	when(strings.Repeat(`{"not": `, 8)+goodWhen+strings.Repeat(`}`, 8), strings.Repeat("/not", 8), "more than 8 deep"),
	when(`{"arg": "/s", "regex": "`+strings.Repeat("a", 1025)+`"}`, "/regex", "1024"),
}

// Keys of the format that are refused by name.
func unsupportedKeys() (list []refusal) {
	for key, in := range map[string]string{"for": "P2", "only": "P0 and P2", "profile": "P0", "ceilings": "P0",
		"threat": "P0", "condense": "P0", "name": "P0 and P2", "version": "P0 and P2"} {
		list = append(list, refusal{`"layer": "P1"`, `"layer": "P1", "` + key + `": {}`, "/" + key,
			"unknown key|remove it: " + key + " is a key of " + in})
	}
	return list
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, good) // or the refusals would prove nothing
	for _, c := range slices.Concat(readRefusals(t, "bundle_refusals", 247), longRefusals, unsupportedKeys()) {
		require.Equal(t, 1, strings.Count(good, c.old), "%q is not once in the good document", c.old)
		doc := document(t, "b.yaml", strings.Replace(good, c.old, c.new, 1))
		e := mustRefuse(t, doc)
		assert.True(t, e.Pointer == c.at && e.Document == "b.yaml", "%s\n\tgives %v\n\twant it at %q", c.new, e, c.at)
		for _, part := range strings.Split(c.says, "|") {
			assert.Contains(t, e.Error(), part, "%s\n\tgives %v\n\twhich does not say", c.new, e)
		}
		assert.NotEqual(t, "", e.Remedy, "%v has no remedy", e)
	}
}

// What is refused in a stack as a whole.
func TestStackRefusals(t *testing.T) {
	t.Parallel()
	a := document(t, "a.yaml", bundle("a", toolText("t", ``), ``))
	mustRefuse(t)
	var many []contracts.Document
	for i := range contracts.MaxDocuments + 1 {
		many = append(many, document(t, "", bundle(fmt.Sprint("b", i), toolText(fmt.Sprint("t", i), ``), ``)))
	}
	contains(t, mustRefuse(t, many...).Error(), "65 documents", "1 to 64")
	_, err := Compile(many[1:]...)
	assert.NoError(t, err)
	other := document(t, "b.yaml", bundle("b", toolText("t", ``), ``))
	for _, docs := range [][]contracts.Document{{a, other}, {other, a}} {
		contains(t, mustRefuse(t, docs...).Error(), "b.yaml: /tools/t: ", "bundle a", "one bundle")
	}
	again := document(t, "c.yaml", bundle("a", toolText("u", ``), ``))
	for _, docs := range [][]contracts.Document{{a, again}, {again, a}} {
		contains(t, mustRefuse(t, docs...).Error(), "c.yaml: /bundle/name: ", `second bundle "a"`)
	}
	names := document(t, "d.yaml", bundle("d", toolText("u", ``), `{"id":"x","allow":"t"}`))
	contains(t, mustRefuse(t, a, names).Error(), `no tool "t" in this bundle`)
	pattern := document(t, "e.yaml", bundle("e", toolText("u", ``), `{"id":"x","deny":"t*"}`))
	contains(t, mustRefuse(t, a, pattern).Error(), "covers no tool of this bundle")
}

// A document that is not canonical JSON is none.
func TestNotCanonical(t *testing.T) {
	t.Parallel()
	good := canonical(t, good)
	for name, text := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "cut": string(good[:len(good)-1]), "space": string(good) + "\n",
		"twice": string(good) + string(good),
		"order": `{"layer":"P1","helm":"policy/v1"}`, "number": `{"helm":1.0}`, "duplicate": `{"helm":1,"helm":1}`,
		"bom": "\ufeff" + string(good),
	} {
		if e := mustRefuse(t, contracts.Document{Name: name, Canonical: []byte(text)}); e.Pointer != "" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// Of several errors the first in the source is reported; without lines, the first in canonical
// order.
func TestFirstError(t *testing.T) {
	t.Parallel()
	text := `{"bundle":{"name":"b","version":1},"helm":"policy/v1","layer":"P1","rules":[{"id":"r","deny":"nope"}],"tools":{"t":{"effect":"bad","input":{"type":"object"}}}}`
	doc := document(t, "p.yaml", text)
	doc.Lines = map[string]contracts.Pos{"": at(1, 1), "/tools": at(4, 1), "/tools/t/effect": at(5, 11),
		"/rules": at(8, 1), "/rules/0/deny": at(9, 5)}
	if e := mustRefuse(t,
		doc); e.Error() !=
		`p.yaml:5:11: /tools/t/effect: "bad" is not one of read, write, destructive; write one of them` {
		t.Error(e)
	}
	doc.Lines["/rules/0/deny"] = contracts.Pos{Line: 2, Column: 5}
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:2:5: /rules/0/deny: ")
	delete(doc.Lines, "/rules/0/deny") // the nearest place around it
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:5:11: ")
	delete(doc.Lines, "/tools/t/effect")
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:4:1: /tools/t/effect: ")
}

func at(line, column int) contracts.Pos { return contracts.Pos{Line: line, Column: column} }

// What docs/POLICY.md says is not checked.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", `"to":{"type":"string","format":"email"}`, "to"),
		`{"id":"all","allow":"t"}`))
	want{contracts.ReasonAllow, 8, "P1:b:all"}.check(t, p, inputs(t, "t", `{"to":"no address"}`))

	p = mustCompile(t, bundle("b", toolText("t", `"v":{"type":"string","pattern":"b"}`, "v"),
		`{"id":"found","deny":"t","when":{"arg":"/v","finds":"a"}},{"id":"whole","allow":"t","when":{"arg":"/v","regex":"b"}}`))
	want{contracts.ReasonPolicyViolation, 5, "P1:b:found"}.check(t, p, inputs(t, "t", `{"v":"abc"}`))
	// the pattern of the schema is there, the regex is not all
	want{contracts.ReasonNoPolicyDefined, 5, ""}.check(t, p, inputs(t, "t", `{"v":"cbc"}`))
	want{contracts.ReasonAllow, 8, "P1:b:whole"}.check(t, p, inputs(t, "t", `{"v":"b"}`))
	want{contracts.ReasonSchemaViolation, 2, ""}.check(t, p, inputs(t, "t", `{"v":"c"}`))
}

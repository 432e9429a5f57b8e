package policytest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/policy"
)

// schemaOf is policy.Schema as another library reads it.
func schemaOf(t *testing.T) func(v any) error {
	t.Helper()
	text, err := santhosh.UnmarshalJSON(bytes.NewReader(policy.Schema()))
	require.NoError(t, err)
	c := santhosh.NewCompiler()
	require.NoError(t, c.AddResource("mem:///policy", text))
	schema, err := c.Compile("mem:///policy")
	require.NoError(t, err)
	return func(v any) error {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		x, err := santhosh.UnmarshalJSON(bytes.NewReader(b))
		require.NoError(t, err)
		return schema.Validate(x)
	}
}

// everyKey uses each key of a file of cases.
const everyKey = `helm: cases/v1
policy: [bank.yaml]
time: "2026-11-20T10:00:00.000Z"
callers: {ann: {id: ann, tenant: acme, roles: [clerk]}}
keys: {olga: {role: approver, roles: [owner]}, anna: {role: attestor}, dora: {role: delegator, roles: [clerk]}, root1: {role: root}}
tools: {list_payments: {output: []}, send_money: {error: down}}
cases:
  - name: first
    caller: ann
    session: s
    before: [{user: pay, session: s}, {name: looked, call: list_payments, ran: 1, caller: {id: ann, roles: [clerk]}, panic: true, want: DENY}, {after: 20m}, {call: list_payments, lost: true, session: x, want: DENY}]
    call: send_money
    args: {to: GB29NWBK60161331926819, amount: 5}
    after_refs: [looked]
    attest: [{by: anna, type: seen, claims: {a: 1}}]
    delegation: [{by: dora, to: ann, only: [send_money], depth: 2, when: {arg: /amount, lt: 5}}]
    approve: [olga]
    overlay: [task.yaml]
    idempotency: k
    driver: none
    definition: cc3eaac97d497cee55cadca8571901fb3d67dc589cec2164ecfd33ed5d9f67b4
    sandbox: pure
    want: DENY
    reason: APPROVAL_REQUIRED
    rule: P1:bank:stranger
    why: owner
    condition: 4
    pending: {roles: [owner], quorum: 1}
    charges: {P1:bank:payments: 1}
    ran: 0
    skip: it uses each key
  - {name: rows, caller: ann, call: list_payments, each: [{args: {last: 1}, want: ALLOW}, {name: raw, raw: "{}", refuse: [olga], want: DENY, freeze: true}]}
  - {call: list_payments, want: DENY, before: [{freeze: true}, {close: true, session: t}], close: true, output: 5}
  - {name: talk, transcript: talk.json, words: user, session: s, before: [{user: x}], overlay: task.yaml, sandbox: pure, skip: later, calls: {1: {want: DENY, why: x, condition: 4}}}
ignore:
  - {at: "bank.yaml#/rules/0", mutant: negated, why: because}
`

func everyKeyFiles(t *testing.T, cases []byte) fs.FS {
	t.Helper()
	files := fstest.MapFS{"c.yaml": {Data: cases}, "talk.json": {Data: []byte(story)}}
	for _, name := range []string{"bank.yaml", "task.yaml"} {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: b}
	}
	return files
}

// TestSchemaOfCases: each file of cases of the repository is valid by policy.Schema.
func TestSchemaOfCases(t *testing.T) {
	t.Parallel()
	valid, files := schemaOf(t), 0
	check := func(name string, b []byte) {
		doc, err := policy.Parse(name, b)
		require.NoError(t, err, name)
		var v any
		require.NoError(t, json.Unmarshal(doc.Canonical, &v))
		assert.NoError(t, valid(v), name)
		files++
	}
	_, err := Load(everyKeyFiles(t, []byte(everyKey)), "c.yaml")
	require.NoError(t, err)
	check("every key", []byte(everyKey))
	check("good cases", []byte(goodCases))
	require.NoError(t, filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(file, "_cases.yaml") {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			check(file, b)
		}
		return err
	}))
	assert.Greater(t, files, 2)
}

var unknown = regexp.MustCompile(`unknown key "([^"]+)"`)

// TestSchemaOfCasesMisspelt: what the loader refuses as a key that it does not know is not valid by
// policy.Schema.
func TestSchemaOfCasesMisspelt(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	valid := schemaOf(t)
	doc, err := policy.Parse("c.yaml", []byte(everyKey))
	require.NoError(t, err)
	var root any
	require.NoError(t, json.Unmarshal(doc.Canonical, &root))
	refused, known, ways := 0, 0, 3
	if testing.Short() {
		ways = 1
	}
	try := func(wrong string) {
		text, err := json.Marshal(root)
		require.NoError(t, err)
		_, err = Load(everyKeyFiles(t, text), "c.yaml")
		if err == nil {
			known++
			assert.NoError(t, valid(root), "%s: the loader takes it", wrong)
			return
		}
		for _, m := range unknown.FindAllStringSubmatch(err.Error(), -1) {
			if m[1] == wrong {
				refused++
				assert.Error(t, valid(root), "%s: the loader refuses it", wrong)
				return
			}
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, key := range keysOf(v) {
				for _, wrong := range []string{key + "s", key[1:], strings.ToUpper(key[:1]) + key[1:]}[:ways] {
					if _, there := v[wrong]; there || wrong == "" {
						continue
					}
					old := v[key]
					delete(v, key)
					v[wrong] = old
					try(wrong)
					delete(v, wrong)
					v[key] = old
				}
				walk(v[key])
			}
		}
	}
	walk(root)
	t.Log(refused, "refused,", known, "known")
	assert.Greater(t, refused, 70*ways)
}

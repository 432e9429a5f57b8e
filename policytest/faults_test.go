package policytest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/several"
)

// goodCases are without a fault; each of faults is one of them.
const goodCases = `helm: cases/v1
policy: [bank.yaml]
time: "2026-11-20T10:00:00.000Z"
callers:
  ann: {id: ann, tenant: acme, roles: [clerk]}
keys:
  olga: {role: approver, roles: [owner]}
  anna: {role: attestor}
  dora: {role: delegator, roles: [clerk]}
  root1: {role: root}
tools:
  list_payments: {output: []}
cases:
  - name: first
    caller: ann
    session: s
    before:
      - {user: "pay Ann"}
      - {name: looked, call: list_payments, ran: 1}
      - {after: 20m}
    call: send_money
    args: {to: GB29NWBK60161331926819, amount: 5}
    after_refs: [looked]
    attest: [{by: anna, type: seen, claims: {a: 1}}]
    delegation: [{by: dora, to: ann, only: [send_money], depth: 2}]
    approve: [olga]
    want: DENY
    reason: APPROVAL_REQUIRED
    rule: P1:bank:stranger
    condition: 4
    pending: {roles: [owner], quorum: 1}
    charges: {P1:bank:payments: 1}
    ran: 0
  - name: rows
    caller: ann
    call: list_payments
    each:
      - {args: {last: 1}, want: ALLOW}
      - {raw: "{}", want: ALLOW}
ignore:
  - {at: "bank.yaml#/rules/0", why: because}
`

// Each fault has the text of what is replaced, the text in its place, the line, and parts of what
// is said, the last of which is the remedy.
var faults = []struct {
	old, new string
	line     string
	says     string
}{
	{"helm: cases/v1", "helm: cases/v2", "1", "not cases/v1|write helm: cases/v1"},
	{"helm: cases/v1\n", "", "1", "no helm|write helm: cases/v1"},
	{"time: ", "tmie: ", "3", `unknown key "tmie"|did you mean time?`},
	{"time: ", "weather: ", "3", `unknown key "weather"|write one of helm, policy`},
	{`"2026-11-20T10:00:00.000Z"`, `noon`, "3", `"noon" is no time|write it like`},
	{`"2026-11-20T10:00:00.000Z"`, `5`, "3", `is number|write a string`},
	{"policy: [bank.yaml]\n", "", "1", "no policy|name the documents"},
	{"[bank.yaml]", "bank.yaml", "2", "is string|write a list"},
	{"[bank.yaml]", "[]", "2", "an empty list|write an element"},
	{"[bank.yaml]", "[bank.yaml, bank.yaml]", "2", `"bank.yaml" twice|name it once`},
	{"[bank.yaml]", "[../bank.yaml]", "2", `outside of the file's folder|in the folder`},
	{"[bank.yaml]", "[/etc/bank.yaml]", "2", `outside of the file's folder|in the folder`},
	{"[bank.yaml]", "[x/../../bank.yaml]", "2", `outside of the file's folder|in the folder`},
	{"[bank.yaml]", "[bnak.yaml]", "2", `no file "bnak.yaml"|correct the name`},
	{"ann: {id: ann, tenant", "ann: {id: ann, tenat", "5", `unknown key "tenat"|did you mean tenant?`},
	{"ann: {id: ann, tenant: acme, roles: [clerk]}", "ann: bob", "5", `is string|write an object`},
	{"roles: [clerk]}\nkeys", "roles: [clerk, clerk]}\nkeys", "5", `"clerk" twice|name it once`},
	{"{role: approver, roles: [owner]}", "{roles: [owner]}", "7", `no role|write one of approver`},
	{"{role: approver, roles: [owner]}", "{role: aprover, roles: [owner]}", "7", `no role of a key|write one of approver`},
	{"root1: {role: root}", "kernel: {role: root}", "10", `the name of a key of the kernel|choose another`},
	{"list_payments: {output: []}", "list_payment: {output: []}", "12", `no tool "list_payment"|did you mean list_payments?`},
	{"list_payments: {output: []}", "list_payments: {ouput: []}", "12", `unknown key "ouput"|did you mean output?`},
	{"list_payments: {output: []}", "list_payments: {}", "12", `says nothing of what the tool does|write output or error`},
	{"list_payments: {output: []}", "list_payments: {output: [], error: down}", "12", `several of output, error|write one of them`},
	{"- name: first\n", "- nmae: first\n", "14", `unknown key "nmae"|did you mean name?`},
	{"name: rows", "name: first", "34", `"first" twice|give each case a name`},
	{"    caller: ann\n    session", "    caller: anne\n    session", "15", `no caller "anne"|did you mean ann?`},
	{"    caller: ann\n    session", "    caller: {nid: x}\n    session", "15", `unknown key "nid"|did you mean id?`},
	{"    caller: ann\n    session", "    caller: [ann]\n    session", "15", `is array|write a string`},
	{"session: s", `session: ""`, "16", `an empty string|remove it`},
	{"{user: \"pay Ann\"}", "{user: 7}", "18", `is number|write a string`},
	{"{user: \"pay Ann\"}", "{user: x, after: 5m}", "18", `neither or several of call, user|write one of them`},
	{"{user: \"pay Ann\"}", "{session: x}", "18", `neither or several of call, user|write one of them`},
	{"{user: \"pay Ann\"}", "{user: x, args: {}}", "18", `unknown key "args"|write one of user, session`},
	{"{user: \"pay Ann\"}", "pay", "18", `is string|write an object`},
	{"call: list_payments, ran: 1", "call: list_payment, ran: 1", "19", `no tool "list_payment"|did you mean`},
	{"call: list_payments, ran: 1", "call: list_payments, ran: 2", "19", `no number that can be|from 0 to 1`},
	{"call: list_payments, ran: 1", "call: list_payments, lost: false", "19", `false, which holds without it|remove it`},
	{"after: 20m", "after: 20", "20", `is number|write it like`},
	{"after: 20m", "after: 20x", "20", `"20x" is no duration|write it like`},
	{"after: 20m", "after: 020m", "20", `no duration|write it like`},
	{"    call: send_money\n", "", "14", `no call|write call: TOOL`},
	{"    call: send_money\n", "    call: sendmoney\n", "21", `no tool "sendmoney"|did you mean send_money?`},
	{"    after_refs: [looked]", "    raw: '{}'\n    after_refs: [looked]", "23", `args and raw|write one of them`},
	{"[looked]", "[looking]", "23", `no earlier step "looking"|give the step that name`},
	{"{by: anna, type: seen", "{by: hanna, type: seen", "24", `no key "hanna"|did you mean anna?`},
	{"{by: anna, type: seen", "{by: olga, type: seen", "24", `has the role approver|of role attestor`},
	{"{by: anna, type: seen", "{by: anna", "24", `no type|write the type`},
	{"claims: {a: 1}", "claims: 1", "24", `is number|write an object`},
	{"{by: dora, to: ann", "{by: dorra, to: ann", "25", `no key "dorra"|did you mean dora?`},
	{"{by: dora, to: ann", "{by: dora, to: nobody", "25", `no caller "nobody"|name one of callers`},
	{"only: [send_money]", "only: [send]", "25", `no tool "send"|declare it`},
	{"depth: 2", "depth: 65", "25", `no number that can be|from 0 to 64`},
	{"approve: [olga]", "approve: [anna]", "26", `has the role attestor|of role approver`},
	{"approve: [olga]", "approve: [olga]\n    refuse: [olga]", "27", `olga approves and refuses|write one of them`},
	{"    want: DENY\n", "", "14", `no want|write want: ALLOW`},
	{"want: DENY", "want: deny", "27", `neither ALLOW nor DENY|write one of them`},
	{"APPROVAL_REQUIRED", "APROVAL_REQUIRED", "28", `no reason "APROVAL_REQUIRED"|did you mean APPROVAL_REQUIRED?`},
	{"P1:bank:stranger", "P1:bank:stanger", "29", `no rule "P1:bank:stanger"|did you mean P1:bank:stranger?`},
	{"condition: 4", "condition: 9", "30", `no number that can be|from 0 to 8`},
	{"quorum: 1}", "quorum: 1, ttl: 5m}", "31", `unknown key "ttl"|write one of roles, quorum`},
	{"P1:bank:payments: 1", "P1:bank:payment: 1", "32", `no rule "P1:bank:payment"|did you mean`},
	{"    each:\n      - {args: {last: 1}, want: ALLOW}\n      - {raw: \"{}\", want: ALLOW}\n", "    each: []\n", "37", `an empty list|write an element`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, each: [{want: DENY}]}`, "39", `each in a row of each|in one list`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}"}`, "39", `no want|write want: ALLOW`},
	{`{raw: "{}", want: ALLOW}`, `{raw: {}, want: ALLOW}`, "39", `is object|write a string`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, driver: three}`, "39", `neither none nor two|without it there is one`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, sandbox: tight}`, "39", `no tool of the stack demands the sandbox "tight"|write one of pure`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, overlay: none.yaml}`, "39", `no file "none.yaml"|correct the name`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, overlay: bank.yaml}`, "39", `the overlay does not load|correct the overlay`},
	{`{raw: "{}", want: ALLOW}`, `{raw: "{}", want: ALLOW, definition: abc}`, "39", `no digest|64 lower-case hex digits`},
	{", why: because", "", "41", `no why|nobody else can know`},
	{`at: "bank.yaml#/rules/0", `, "", "41", `no at|write the pointer`},
}

// Every fault of a file of cases is told with file, line and remedy.
func TestFaults(t *testing.T) {
	t.Parallel()
	bank, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(t, err)
	load := func(text string) (*Suite, error) {
		return Load(fstest.MapFS{"t/c.yaml": {Data: []byte(text)}, "t/bank.yaml": {Data: bank}}, "t/c.yaml")
	}
	_, err = load(goodCases)
	require.NoError(t, err, "or the faults would prove nothing")
	require.GreaterOrEqual(t, len(faults), 60)
	for _, f := range faults {
		require.Equal(t, 1, strings.Count(goodCases, f.old), "%q", f.old)
		_, err := load(strings.Replace(goodCases, f.old, f.new, 1))
		var e *guardian.LoadError
		if !assert.ErrorAs(t, err, &e, "%q in place of %q", f.new, f.old) {
			continue
		}
		assert.Regexp(t, `^t/c\.yaml:`+f.line+`:\d+: `, err.Error())
		parts := strings.Split(f.says, "|")
		assert.Contains(t, e.What, parts[0], "%v", err)
		for _, part := range parts {
			assert.Contains(t, err.Error(), part)
		}
		assert.Len(t, several.All(err), 1, "one fault is told once: %v", err)
	}
}

// All faults of a file are told at once, in its order.
func TestFaultsAtOnce(t *testing.T) {
	t.Parallel()
	text := goodCases
	for _, f := range []int{2, 14, 20, 25, 38, 57} {
		text = strings.Replace(text, faults[f].old, faults[f].new, 1)
	}
	bank, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(t, err)
	_, err = Load(fstest.MapFS{"c.yaml": {Data: []byte(text)}, "bank.yaml": {Data: bank}}, "c.yaml")
	all := several.All(err)
	require.Len(t, all, 6, "%v", err)
	line := 0
	for _, one := range all {
		var e *guardian.LoadError
		require.True(t, errors.As(one, &e))
		require.Greater(t, e.Pos.Line, line)
		line = e.Pos.Line
	}
	assert.Contains(t, err.Error(), "did you mean time?")
}

// The faults of documents are those of package policy, next to those of the cases.
func TestFaultsOfDocuments(t *testing.T) {
	t.Parallel()
	_, err := Load(fstest.MapFS{
		"c.yaml":    {Data: []byte(strings.Replace(goodCases, "want: DENY", "want: nothing", 1))},
		"bank.yaml": {Data: []byte("helm: policy/v1\nlayer: P1\nbundle: {name: bank, version: 1}\ntools: {}\nruels: []\nrules: []\n")},
	}, "c.yaml")
	assert.ErrorContains(t, err, "bank.yaml:5:8: /ruels: unknown key")
	assert.ErrorContains(t, err, "neither ALLOW nor DENY")
	_, err = Load(fstest.MapFS{}, "c.yaml")
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(nil, "c.yaml")
	assert.ErrorContains(t, err, "no file system")
}

package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// talk is a conversation in the form of chat: each call is a tool, its arguments and its result, of
// which "" is none.
func talk(calls ...[3]string) string {
	list := []any{map[string]any{"role": "user", "content": "pay SE4550000000058398257466"}}
	for i, c := range calls {
		id := fmt.Sprint("c", i+1)
		list = append(list, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"id": id, "type": "function", "function": map[string]any{"name": c[0], "arguments": c[1]}}}})
		if c[2] != "" {
			list = append(list, map[string]any{"role": "tool", "tool_call_id": id, "content": c[2]})
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const (
	paid  = `[{"to":"GB29NWBK60161331926819","amount":12}]`
	known = `{"to":"GB29NWBK60161331926819","amount":5}`
	odd   = `{"to":"SE4550000000058398257466","amount":5}`
)

// story has a call of each way to come out.
var story = talk(
	[3]string{"send_money", known, "sent"},                      // 1: nobody looked before
	[3]string{"list_payments", "", paid},                        // 2: allowed
	[3]string{"list_payments", `{"last":5}`, "x"},               // 3: the result breaks the pinned output
	[3]string{"send_money", known, ""},                          // 4: allowed, without a recorded result
	[3]string{"send_money", odd, "sent"},                        // 5: to a person
	[3]string{"send_money", `{"amount":1,"amount":2}`, ""},      // 6: a key twice
	[3]string{"rm\u202e\n" + strings.Repeat("x", 99), "{}", ""}, // 7: no name of a tool
)

// transcribed loads the bank with one case that is a transcript.
func transcribed(t testing.TB, transcript, more string) (*Suite, error) {
	t.Helper()
	bank, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(t, err)
	text := "helm: cases/v1\npolicy: [bank.yaml]\ncallers: {ann: {id: ann, roles: [clerk]}}\nkeys: {olga: {role: approver, roles: [owner]}}\ncases:\n" +
		"  - {name: talk, caller: ann, transcript: talk.json" + more + "}\n"
	return Load(fstest.MapFS{
		"c.yaml": {Data: []byte(text)}, "bank.yaml": {Data: bank}, "talk.json": {Data: []byte(transcript)},
	}, "c.yaml")
}

const storyWants = `, calls: {1: {want: DENY, rule: P1:bank:looked-first, ran: 0}, 3: {want: DENY, reason: ERR_CONNECTOR_CONTRACT_DRIFT, ran: 1},
    4: {want: ALLOW, charges: {P1:bank:payments: 1}}, 5: {want: DENY, rule: P1:bank:stranger, pending: {roles: [owner]}},
    6: {want: DENY, condition: 0, reason: ERR_TOOL_ARGS_CANONICALIZATION_FAILED}, 7: {want: DENY, reason: INTENT_MALFORMED}}`

// A transcript is a case: each call comes out as the case says, and is allowed if it says nothing.
func TestTranscriptCase(t *testing.T) {
	t.Parallel()
	s, err := transcribed(t, story, storyWants)
	require.NoError(t, err)
	r := mustRun(t, s, Options{})
	require.False(t, r.Cases[0].Failed(), "%s", &r.Cases[0])
	assert.False(t, r.Cases[0].Weak)
	v := r.Cases[0].Verdicts
	require.Len(t, v.Calls, 7)
	assert.Equal(t, []int{2, 4, 1, 1}, []int{v.Allow, v.Deny, v.Person, v.First})
	assert.Equal(t, `calls 7: allow 2, deny 4, to a person 1; the first that differs from the recording: #1 (it ran then)
#  turn  tool                                                  verdict  reason                                 rule                  why
1  1     send_money                                            DENY     MISSING_REQUIREMENT                    P1:bank:looked-first  P1:bank:looked-first: no receipt of list_payments in the session, as it is required; it ran then
2  3     list_payments                                         ALLOW    ALLOW                                  P1:bank:read          after a denial
3  5     list_payments                                         DENY     ERR_CONNECTOR_CONTRACT_DRIFT           P1:bank:read          type: array; its result was released then; after a denial
4  7     send_money                                            ALLOW    ALLOW                                  P1:bank:pay           no recorded result: null; after a denial
5  8     send_money                                            DENY     APPROVAL_REQUIRED                      P1:bank:stranger      P1:bank:stranger: /to: a person of the role owner must approve the call: not from user, list_payments#payee; a person is asked; it ran then; after a denial
6  10    send_money                                            DENY     ERR_TOOL_ARGS_CANONICALIZATION_FAILED                        args: duplicate key at byte 12; after a denial
7  11    "rm\u202e\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\u2026"  DENY     INTENT_MALFORMED                                             tool: not 1 to 128 letters, digits and . _ : @ / -; after a denial
`, v.String())
	touched := 0
	for i := range r.Coverage.Units {
		if len(r.Coverage.Units[i].Cases) > 0 {
			touched++
		}
	}
	assert.Greater(t, touched, 5, "what the calls of a transcript touch is covered")
}

// A call of a transcript that comes out otherwise than the case says fails it, and is named.
func TestTranscriptCaseFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, says string }{
		{"1: {want: DENY, rule: P1:bank:looked-first, ran: 0}", "1: {want: ALLOW}", "call 1, send_money: verdict: want ALLOW, got DENY"},
		{"1: {want: DENY, rule: P1:bank:looked-first, ran: 0}, ", "", "call 1, send_money: verdict: want ALLOW, got DENY"},
		{"rule: P1:bank:looked-first", "rule: P1:bank:pay", "call 1, send_money: rule: want P1:bank:pay, got P1:bank:looked-first"},
		{"ran: 0}", "ran: 1}", "call 1, send_money: ran: want 1, got 0"},
		{"ran: 1}", "ran: 0}", "call 3, list_payments: ran: want 0, got 1"},
		{"payments: 1}", "payments: 2}", "call 4, send_money: charge of P1:bank:payments: want 2, got 1"},
		{"[owner]", "[boss]", "call 5, send_money: pending.roles: want boss, got owner"},
		{"condition: 0", "condition: 5", "call 6, send_money: condition: want 5, got 0"},
		{"7: {want: DENY, reason: INTENT_MALFORMED}", "2: {want: DENY}", "call 2, list_payments: verdict: want DENY, got ALLOW"},
	} {
		require.Equal(t, 1, strings.Count(storyWants, c.old), c.old)
		s, err := transcribed(t, story, strings.Replace(storyWants, c.old, c.new, 1))
		require.NoError(t, err)
		r := mustRun(t, s, Options{})
		assert.False(t, r.OK())
		assert.Contains(t, r.String(), c.says)
		assert.Contains(t, r.String(), "calls 7: allow 2", "a failure has the table")
	}
}

// A text of a user turn is the user's only if the case says so: then a payee that it names needs no
// approval.
func TestTranscriptWords(t *testing.T) {
	t.Parallel()
	text := talk([3]string{"list_payments", "{}", paid}, [3]string{"send_money", odd, "sent"})
	for more, failed := range map[string]bool{
		"": true, ", words: user": false,
		", calls: {2: {want: DENY, reason: APPROVAL_REQUIRED}}":              false,
		", words: user, calls: {2: {want: DENY, reason: APPROVAL_REQUIRED}}": true,
	} {
		s, err := transcribed(t, text, more)
		require.NoError(t, err)
		r := mustRun(t, s, Options{})
		assert.Equal(t, failed, r.Cases[0].Failed(), "%q: %s", more, &r.Cases[0])
	}
	s, err := transcribed(t, text, ", calls: {2: {want: DENY}}")
	require.NoError(t, err)
	r := mustRun(t, s, Options{})
	assert.True(t, r.Cases[0].Weak, "a DENY for any reason")
}

// Steps come before a transcript as before a call; an overlay narrows it.
func TestTranscriptBefore(t *testing.T) {
	t.Parallel()
	text := talk([3]string{"list_payments", "{}", paid})
	s, err := transcribed(t, text, `, before: [{call: list_payments, output: []}, {close: true}], calls: {1: {want: DENY, reason: SESSION_CLOSED}}`)
	require.NoError(t, err)
	r := mustRun(t, s, Options{})
	assert.True(t, r.Cases[0].Failures == nil, "%s", &r.Cases[0])
}

// Each fault of a transcript and of what a case says of it is told with its line.
func TestTranscriptFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ transcript, more, says string }{
		{story, ", calls: {8: {want: DENY}}", `no call "8" in the transcript; write a number from 1 to 7`},
		{story, ", calls: {0: {want: DENY}}", `no call "0" in the transcript`},
		{story, `, calls: {"01": {want: DENY}}`, `no call "01" in the transcript`},
		{story, ", calls: {first: {want: DENY}}", `no call "first" in the transcript`},
		{story, ", calls: {1: {want: DENY, args: {}}}", `unknown key "args"`},
		{story, ", calls: {1: {want: deny}}", "neither ALLOW nor DENY"},
		{story, ", calls: {1: {rule: P1:bank:pya}}", "did you mean P1:bank:pay?"},
		{story, ", calls: {}, call: send_money", `unknown key "call"`},
		{story, ", want: DENY", `unknown key "want"`},
		{story, ", calls: [1]", "is array"},
		{story, ", words: model", "not user"},
		{story, ", sandbox: tight", "no tool of the stack demands the sandbox"},
		{"[]", "", "no transcript"},
		{`[{"role":"user","content":"a"}]`, "", "a transcript without calls"},
		{`[{"role":"robot"}]`, "", `message 0: no role "robot"`},
	} {
		_, err := transcribed(t, c.transcript, c.more)
		var e *guardian.LoadError
		if assert.ErrorAs(t, err, &e, c.says) {
			assert.GreaterOrEqual(t, e.Pos.Line, 6)
			assert.NotEmpty(t, e.Remedy)
			assert.Contains(t, err.Error(), c.says)
		}
	}
	_, err := Load(fstest.MapFS{"c.yaml": {Data: []byte("helm: cases/v1\npolicy: [c.yaml]\ncases: [{transcript: ../talk.json}]\n")}}, "c.yaml")
	assert.ErrorContains(t, err, "outside of the file's folder")
}

// Without Values a table has no argument and no result of a call, in text or JSON, also if a case
// fails.
func TestTranscriptHidesValues(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	rounds := 2500 // of four secrets
	if testing.Short() {
		rounds = 100
	}
	var calls [][3]string
	for i := range rounds {
		calls = append(calls,
			[3]string{"send_money", fmt.Sprintf(`{"to":"S3CR3T%d","amount":5,"note":"S3CR3T"}`, i), fmt.Sprint("S3CR3T", i)},
			[3]string{"list_payments", fmt.Sprintf(`{"last":"S3CR3T%d"}`, i), ""}, [3]string{"list_payments", "", `[{"S3CR3T":1}]`})
	}
	s, err := transcribed(t, talk(calls...), "")
	require.NoError(t, err)
	for _, values := range []bool{false, true} {
		r := mustRun(t, s, Options{Values: values})
		require.True(t, r.Cases[0].Failed())
		b, err := json.Marshal(r)
		require.NoError(t, err)
		assert.Equal(t, values, strings.Contains(string(b), "S3CR3T"), "in JSON")
		assert.Equal(t, values, strings.Contains(r.String(), "S3CR3T"), "in text")
	}
}

// The stories of the three forms, which have failed calls, no results and hosted tools, are judged
// alike wherever they say the same.
func TestReplayForms(t *testing.T) {
	t.Parallel()
	const stack = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{
		"pay":{"effect":"write","input":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"sum":{"type":"number"}}}},
		"list":{"effect":"read","input":{"type":"object"}}},"rules":[{"id":"all","allow":["pay","list"]}]}`
	want := map[string]string{
		"chat":      "pay ALLOW ALLOW, pay DENY ERR_TOOL_ARGS_CANONICALIZATION_FAILED, list ALLOW ALLOW, pay DENY ERR_TOOL_ARGS_CANONICALIZATION_FAILED, \"old\" DENY DENY_TOOL_NOT_FOUND",
		"responses": "pay ALLOW ALLOW, pay DENY ERR_TOOL_ARGS_CANONICALIZATION_FAILED, list ALLOW ALLOW, pay DENY ERR_TOOL_ARGS_CANONICALIZATION_FAILED, \"shell\" DENY ERR_TOOL_ARGS_CANONICALIZATION_FAILED",
		"anthropic": "pay ALLOW ALLOW, pay ALLOW ALLOW, list ALLOW TOOL_ERROR, pay DENY SCHEMA_VIOLATION",
	}
	for name, says := range want {
		text, err := os.ReadFile("testdata/transcripts/" + name + ".json")
		require.NoError(t, err)
		s, err := Load(fstest.MapFS{"talk.json": {Data: text}, "b.json": {Data: []byte(stack)},
			"c.json": {Data: []byte(`{"helm":"cases/v1","policy":["b.json"],"cases":[{"transcript":"talk.json"}]}`)}}, "c.json")
		require.NoError(t, err)
		var got []string
		for _, c := range mustRun(t, s, Options{}).Cases[0].Verdicts.Calls {
			got = append(got, c.Tool+" "+c.Verdict.String()+" "+string(c.Reason))
		}
		assert.Equal(t, says, strings.Join(got, ", "), name)
	}
}

// A tool that demands a sandbox runs in none under a transcript, until the case says which one the
// driver declares.
func TestReplaySandbox(t *testing.T) {
	t.Parallel()
	const stack = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{
		"list":{"effect":"read","sandbox":"pure","input":{"type":"object"}}},"rules":[{"id":"all","allow":"list"}]}`
	for more, verdict := range map[string]contracts.Verdict{"": contracts.Deny, `,"sandbox":"pure"`: contracts.Allow} {
		s, err := Load(fstest.MapFS{"talk.json": {Data: []byte(talk([3]string{"list", "{}", "[]"}))}, "b.json": {Data: []byte(stack)},
			"c.json": {Data: []byte(`{"helm":"cases/v1","policy":["b.json"],"cases":[{"transcript":"talk.json"` + more + `}]}`)}}, "c.json")
		require.NoError(t, err)
		v := mustRun(t, s, Options{}).Cases[0].Verdicts
		assert.Equal(t, verdict, v.Calls[0].Verdict, v)
	}
}

// A run ends with its context, and with a text that the kernel does not take.
func TestReplayEnds(t *testing.T) {
	t.Parallel()
	turns := []Turn{{Index: 3, Role: "user", Texts: []string{"a"}}}
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	r := Replay{Words: func(context.Context, string, string) error { return broken }}
	_, err := r.Run(ctx, turns)
	assert.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "message 3")
	cancel()
	_, err = r.Run(ctx, turns)
	assert.ErrorIs(t, err, context.Canceled)
}

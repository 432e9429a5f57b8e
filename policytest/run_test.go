package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

func bankSuite(t testing.TB) *Suite {
	t.Helper()
	s, err := Load(os.DirFS("testdata"), "bank_cases.yaml")
	require.NoError(t, err)
	return s
}

// suiteOf is the bank with these cases.
func suiteOf(t testing.TB, cases string) *Suite {
	t.Helper()
	bank, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(t, err)
	task, err := os.ReadFile("testdata/task.yaml")
	require.NoError(t, err)
	text := `helm: cases/v1
policy: [bank.yaml]
time: "2026-11-20T10:00:00.000Z"
callers: {ann: {id: ann, tenant: acme, roles: [clerk]}}
keys: {olga: {role: approver, roles: [owner]}, root1: {role: root}, dan: {role: delegator, roles: [clerk]}}
tools: {list_payments: {output: [{to: GB29NWBK60161331926819, amount: 12}]}}
cases:
` + cases
	s, err := Load(fstest.MapFS{"c.yaml": {Data: []byte(text)}, "bank.yaml": {Data: bank}, "task.yaml": {Data: task}}, "c.yaml")
	require.NoError(t, err)
	return s
}

func mustRun(t testing.TB, s *Suite, o Options) Report {
	t.Helper()
	r, err := s.Run(context.Background(), o)
	require.NoError(t, err)
	return r
}

func TestBank(t *testing.T) {
	t.Parallel()
	r := mustRun(t, bankSuite(t), Options{})
	for i := range r.Cases {
		assert.False(t, r.Cases[i].Failed(), "%s", &r.Cases[i])
	}
	assert.True(t, r.OK(), "%s", r)
}

// A case fails if it came out otherwise than it says, whatever else is right.
func TestFailures(t *testing.T) {
	t.Parallel()
	const small, paid = `call: list_payments, `, `before: [{call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5}, `
	for _, c := range []struct{ text, says string }{
		{small + `want: DENY, reason: NO_POLICY_DEFINED`, "verdict: want DENY, got ALLOW"},
		{small + `want: ALLOW, rule: P1:bank:pay`, "rule: want P1:bank:pay, got P1:bank:read"},
		{small + `want: ALLOW, condition: 5`, "condition: want 5, got 8"},
		{small + `want: ALLOW, ran: 0`, "ran: want 0, got 1"},
		{small + `want: ALLOW, why: nothing`, `why: want "nothing", got ""`},
		{small + `want: ALLOW, approve: [olga]`, "nobody was asked for an approval"},
		{small + `want: ALLOW, pending: {roles: [owner]}`, "pending: want a request, got none"},
		{small + `want: ALLOW, charges: {P1:bank:payments: 1}`, "charge of P1:bank:payments: want 1, got 0"},
		{paid + `want: ALLOW, charges: {P1:bank:payments: 2}`, "charge of P1:bank:payments: want 2, got 1"},
		{`call: send_money, args: {to: GB29NWBK60161331926819, amount: 5}, want: DENY, reason: BUDGET_EXCEEDED`,
			"reason: want BUDGET_EXCEEDED, got MISSING_REQUIREMENT"},
		{`call: send_money, args: {to: SE4550000000058398257466, amount: 5}, before: [{call: list_payments}], want: DENY, pending: {roles: [boss]}`,
			"pending.roles: want boss, got owner"},
		{`call: send_money, args: {to: SE4550000000058398257466, amount: 5}, before: [{call: list_payments}], want: DENY, pending: {roles: [owner], quorum: 2}`,
			"pending.quorum: want 2, got 1"},
		{`before: [{call: list_payments, want: DENY}], call: list_payments, want: ALLOW`, "before, line 8: verdict: want DENY, got ALLOW"},
		{`before: [{call: send_money}], call: list_payments, want: ALLOW`, "before, line 8: verdict: want ALLOW, got DENY"},
		{`before: [{call: list_payments, driver: none, want: DENY}], call: list_payments, output: 5, want: ALLOW`, "verdict: want ALLOW, got DENY"},
		{`call: list_payments, panic: true, want: ALLOW`, "TOOL_PANIC"},
		{`call: list_payments, error: down, want: DENY, reason: TOOL_ERROR`, "verdict: want DENY"},
	} {
		r := mustRun(t, suiteOf(t, "  - {caller: ann, "+c.text+"}\n"), Options{})
		require.Len(t, r.Cases, 1)
		assert.False(t, r.OK(), c.text)
		assert.Contains(t, strings.Join(r.Cases[0].Failures, "\n"), c.says, c.text)
		assert.Equal(t, 8, r.Cases[0].Line)
	}
}

// What a case may say of a call and what came before is done.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`call: list_payments, driver: none, want: DENY, reason: DRIVER_NOT_BOUND, ran: 0`,
		`call: list_payments, driver: two, want: DENY, reason: DRIVER_NOT_BOUND, ran: 0`,
		`before: [{call: list_payments, idempotency: k}], call: list_payments, idempotency: k, want: ALLOW, ran: 0`,
		`call: list_payments, error: down, want: ALLOW, reason: TOOL_ERROR, ran: 1`,
		`call: list_payments, panic: true, want: DENY, reason: TOOL_PANIC, ran: 1`,
		`call: list_payments, lost: true, want: DENY, reason: TOOL_CANCELED, ran: 1`,
		`call: list_payments, output: {}, want: DENY, reason: ERR_CONNECTOR_CONTRACT_DRIFT, ran: 1`,
		`call: list_payments, freeze: true, want: DENY, reason: SYSTEM_FROZEN, condition: 0`,
		`before: [{freeze: true}], call: list_payments, want: DENY, reason: SYSTEM_FROZEN`,
		`before: [{call: list_payments}], close: true, call: list_payments, want: DENY, reason: SESSION_CLOSED`,
		`before: [{call: list_payments}, {close: true}], call: list_payments, want: DENY, reason: SESSION_CLOSED`,
		`before: [{call: list_payments, session: a}, {close: true, session: a}], call: list_payments, want: ALLOW`,
		`before: [{name: x, call: list_payments, session: a}], call: list_payments, after_refs: [x], want: ALLOW`,
		`call: list_payments, raw: '{"last":1,"last":2}', want: DENY, reason: ERR_TOOL_ARGS_CANONICALIZATION_FAILED`,
		`caller: {id: bob}, call: list_payments, delegation: [{by: dan, to: {id: bob}, only: [list_payments]}], want: ALLOW`,
		`caller: {id: bob}, call: list_payments, delegation: [{by: dan, to: ann, only: [list_payments]}], want: DENY, reason: DELEGATION_INVALID`,
		`before: [{call: list_payments}, {after: 31m}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5}, want: DENY, rule: P1:bank:looked-first`,
		`before: [{user: "to SE4550000000058398257466"}, {call: list_payments}], call: send_money, args: {to: SE4550000000058398257466, amount: 5}, want: ALLOW`,
		`before: [{call: list_payments}], call: send_money, args: {to: SE4550000000058398257466, amount: 5}, refuse: [olga], want: DENY, reason: APPROVAL_REFUSED, ran: 0`,
		`overlay: [task.yaml], session: chat-4711, before: [{call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 51}, want: DENY, rule: P2:refund-4711:small`,
		`call: nothing, want: DENY, reason: DENY_TOOL_NOT_FOUND`,
		`call: list_payments, sandbox: pure, want: ALLOW, ran: 1`,
	} {
		if !strings.HasPrefix(text, "caller") {
			text = "caller: ann, " + text
		}
		r := mustRun(t, suiteOf(t, "  - {"+text+"}\n"), Options{})
		assert.False(t, r.Cases[0].Failed(), "%s", &r.Cases[0])
	}
}

// A failure says what decided, with file and line.
func TestFailureSaysWhere(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, `  - {name: dear, caller: ann, before: [{call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5000}, want: ALLOW}
`)
	r := mustRun(t, s, Options{})
	assert.Equal(t, `dear
	verdict: want ALLOW, got DENY
	send_money: DENY, POLICY_VIOLATION, P1:bank:too-much, P1:bank:too-much: the rule denies the call
		bank.yaml:22 /rules/1: true
		bank.yaml:22 /rules/1/when: true; /amount number`, r.Cases[0].String())
	assert.Contains(t, r.String(), "c.yaml:8: FAIL: dear\n")
	assert.True(t, strings.HasSuffix(r.String(), "cases 1: failed 1, skipped 0, weak 0\n"), r.String())
	r = mustRun(t, s, Options{Values: true})
	assert.Contains(t, r.Cases[0].String(), "/amount number 5000")
	assert.Contains(t, r.Cases[0].String(), `dear {"amount":5000`)
}

// A call that the kernel refused without asking a policy has no steps: those of a call before it
// did not decide it.
func TestFailureOfTheKernelsOwn(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, `  - {name: twice, caller: ann, before: [{call: list_payments}], call: list_payments, raw: '{"last":1,"last":2}', want: ALLOW}
  - {name: before, caller: ann, before: [{call: list_payments, want: DENY}], call: send_money, want: ALLOW}
`)
	r := mustRun(t, s, Options{})
	assert.True(t, r.Cases[0].Failed())
	assert.Empty(t, r.Cases[0].Steps, "%s", &r.Cases[0])
	assert.Equal(t, []string{"bank.yaml:21 /rules/0: true", "bank.yaml:21 /rules/0/when: true; caller roles array"}, r.Cases[1].Steps)
}

// A case that runs a tool of which it does not say what it returns, and whose output schema refuses
// null, fails and says so.
func TestUnsaidOutput(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, "  - {caller: ann, call: list_payments, want: DENY}\n")
	delete(s.stubs, "list_payments")
	r := mustRun(t, s, Options{})
	assert.Contains(t, r.String(), "list_payments has no output in the case, and the policy refuses null: write its output")
}

// A run that ran no case is no success.
func TestNoneRan(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, "  - {caller: ann, call: list_payments, want: ALLOW, skip: not now}\n")
	_, err := s.Run(t.Context(), Options{})
	assert.ErrorIs(t, err, errNone)
	_, err = bankSuite(t).Run(t.Context(), Options{Run: regexp.MustCompile("^nothing$")})
	assert.ErrorIs(t, err, errNone)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = bankSuite(t).Run(ended, Options{})
	assert.ErrorIs(t, err, context.Canceled)
}

// A case that does not say why a call is denied is weak, and is told.
func TestWeak(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, `  - {name: a, call: list_payments, want: DENY}
  - {name: b, call: list_payments, want: DENY, reason: NO_POLICY_DEFINED}
  - {name: c, call: list_payments, want: DENY, skip: later}
`)
	r := mustRun(t, s, Options{})
	assert.True(t, r.Cases[0].Weak)
	assert.False(t, r.Cases[1].Weak)
	assert.Contains(t, r.String(), "c.yaml:8: weak: a: a DENY for any reason: state reason or rule\n")
	assert.Contains(t, r.String(), "c.yaml:10: skipped: c: later\n")
	assert.Contains(t, r.String(), "cases 3: failed 0, skipped 1, weak 1\n")
}

// logs are those of all cases, by name.
func logs(t *testing.T, s *Suite) map[string]string {
	t.Helper()
	ctx, all := context.Background(), map[string]string{}
	for _, c := range s.cases {
		w, err := s.newWorld(s.policy, c)
		require.NoError(t, err)
		for i := range c.steps {
			_, failures := w.do(ctx, &c.steps[i])
			require.Empty(t, failures, c.name)
		}
		require.NoError(t, w.verified(ctx))
		size, err := w.store.Size(ctx)
		require.NoError(t, err)
		var b strings.Builder
		for e, err := range w.store.Entries(ctx, 0, size) {
			require.NoError(t, err)
			b.Write(e)
		}
		all[c.name] = b.String()
	}
	return all
}

// No case sees another, in whatever order they run, alone or at once: the report and the logs are
// the same, byte for byte.
func TestIsolation(t *testing.T) {
	t.Parallel()
	s := bankSuite(t)
	want, err := json.Marshal(mustRun(t, s, Options{Parallel: 1, Mutate: true}))
	require.NoError(t, err)
	for _, n := range []int{0, 1, 7} {
		got, err := json.Marshal(mustRun(t, bankSuite(t), Options{Parallel: n, Mutate: true}))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
		require.Equal(t, string(want), string(got))
	}
	of := logs(t, s)
	shuffled := *s
	shuffled.cases = append([]*scenario(nil), s.cases...)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(s.cases), func(i, j int) {
		shuffled.cases[i], shuffled.cases[j] = shuffled.cases[j], shuffled.cases[i]
	})
	require.Equal(t, of, logs(t, &shuffled))
	for _, c := range s.cases {
		alone := mustRun(t, s, Options{Run: regexp.MustCompile("^" + regexp.QuoteMeta(c.name) + "$")})
		require.Len(t, alone.Cases, 1)
		require.False(t, alone.Cases[0].Failed(), "%s", &alone.Cases[0])
	}
}

// Cases that spend one budget do not see each other.
func TestCasesShareNoBudget(t *testing.T) {
	t.Parallel()
	var cases strings.Builder
	for i := range 30 { // the budget is 20 a day
		fmt.Fprintf(&cases, "  - {name: c%d, caller: ann, before: [{call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5}, want: ALLOW}\n", i)
	}
	r := mustRun(t, suiteOf(t, cases.String()), Options{})
	assert.True(t, r.OK(), "%s", r)
}

// Without Values a report has no value of a call, in text or JSON, failures and mutants included.
func TestReportHidesValues(t *testing.T) {
	t.Parallel()
	var cases strings.Builder
	for i := range 100 {
		fmt.Fprintf(&cases, "  - {name: c%d, caller: ann, before: [{user: s3cr3t%d}, {call: list_payments}], call: send_money, args: {to: GB29NWBK60161331926819, amount: 5, note: s3cr3t%d}, error: s3cr3t%d, want: DENY}\n", i, i, i, i)
		fmt.Fprintf(&cases, "  - {name: d%d, caller: ann, before: [{call: list_payments}], call: send_money, args: {to: s3cr3t%d, amount: 5}, want: ALLOW}\n", i, i)
	}
	s := suiteOf(t, cases.String())
	for _, values := range []bool{false, true} {
		r := mustRun(t, s, Options{Values: values})
		b, err := json.Marshal(r)
		require.NoError(t, err)
		for i := range r.Cases {
			require.True(t, r.Cases[i].Failed())
		}
		assert.Equal(t, values, strings.Contains(string(b), "s3cr3t"), "in JSON")
		assert.Equal(t, values, strings.Contains(r.String(), "s3cr3t"), "in text")
	}
}

// A case whose log does not replay fails.
func TestLogMustReplay(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, "  - {name: a, caller: ann, call: list_payments, want: ALLOW}\n")
	w, err := s.newWorld(s.policy, s.cases[0])
	require.NoError(t, err)
	_, failures := w.do(t.Context(), &s.cases[0].steps[0])
	require.Empty(t, failures)
	erased := false
	size, err := w.store.Size(t.Context())
	require.NoError(t, err)
	var r contracts.Reader
	for e, err := range w.store.Entries(t.Context(), 0, size) {
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if d := st.Judgement(); d != nil {
			require.NoError(t, w.store.EraseBlob(t.Context(), d.InputsHash))
			erased = true
		}
	}
	require.True(t, erased)
	assert.ErrorContains(t, w.verified(t.Context()), "the log does not replay")
}

// The cases of the bank's floor, bundle and overlay cover all of them, and notice each change.
func TestStack(t *testing.T) {
	t.Parallel()
	s, err := Load(os.DirFS("testdata"), "stack_cases.yaml")
	require.NoError(t, err)
	r := mustRun(t, s, Options{Mutate: true, Min: 100})
	assert.True(t, r.OK(), "%s", r)
	assert.GreaterOrEqual(t, len(r.Mutants), 40)
}

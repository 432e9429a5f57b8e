package helmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/trust/registry"
)

const deskText = `helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  pay:
    effect: write
    input:
      type: object
      required: [amount]
      properties:
        amount: {type: integer, minimum: 0}
        currency: {type: string, default: EUR}
        to: {type: object, properties: {iban: {type: string}}}
  list:
    effect: read
    input: {type: object, properties: {}}
    output: {type: object, required: [count], properties: {count: {type: integer}}, additionalProperties: false}
  say: {effect: write, input: {type: object, required: [text], properties: {text: {type: string}}}}
  run: {effect: read, sandbox: pure, input: {type: object, properties: {}}}
rules:
  - {id: none, deny: pay, when: {arg: /amount, eq: 0}}
  - {id: clerks, allow: pay, when: {all: [{caller: roles, has: clerk}, {arg: /amount, le: 1000}]}}
  - {id: list, allow: list, when: {time: utc, in: ["Mon-Sun 06:00-20:00"]}}
  - {id: own, allow: say, when: {arg: /text, from: [user]}}
  - {id: run, allow: run}
requires:
  - {id: boss, tools: pay, when: {arg: /amount, gt: 100}, all: [{approval: {roles: [owner]}}]}
budgets:
  - {id: three, tools: list, limit: 3, per: session, window: session, cost: 1}
`

func compiled(t testing.TB, text string) *guardian.Policy {
	t.Helper()
	doc, err := policy.Parse("desk.yaml", []byte(text))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	return p
}

var clerk = helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}

func desk(t testing.TB) *World {
	t.Helper()
	return New(t, compiled(t, deskText), Key("olga", registry.Approver, "owner")).As(clerk)
}

func counted(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"count":1}`), nil
}

func TestWorld(t *testing.T) {
	t.Parallel()
	w := desk(t).Tool("list", counted)
	w.Call("pay", map[string]any{"amount": 5}).Allow().By("P1:desk:clerks").Ran(1).Output(" null ")
	w.As(helm.Caller{}).Call("pay", `{"amount": 5}`).Deny(contracts.ReasonNoPolicyDefined).By("").Ran(0)
	w.Call("pay", `{"amount": 0}`).Deny(contracts.ReasonPolicyViolation).By("P1:desk:none")
	w.Call("pay", `{"amount": 1, "amount": 2}`).Deny(contracts.ReasonArgsCanonicalization)
	w.Call("steal", nil).Deny(contracts.ReasonToolNotFound)
	w.Call("run", nil).Allow().By("P1:desk:run")

	dear := w.Call("pay", map[string]int{"amount": 101}).Deny(contracts.ReasonApprovalRequired).Ran(0)
	dear.Approve("olga").Allow().Ran(1)

	w.Call("list", nil).Deny(contracts.ReasonNoPolicyDefined)
	w.At(time.Date(2026, 1, 5, 12, 0, 0, 0, time.FixedZone("CET", 3600)))
	w.Call("list", nil).Allow().Output(`{"count": 1}`)
	w.Call("list", nil).Allow()
	w.Call("list", nil).Allow()
	w.Call("list", nil).Deny(contracts.ReasonBudgetExceeded).By("P1:desk:three")
	w.In("other").Call("list", nil).Allow()
	w.Tool("list", nil).In("third").Call("list", nil).Deny(contracts.ReasonContractDrift).Ran(1)
	w.Tool("list", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("down") })
	w.In("third").Call("list", nil).Allow().Ran(1)

	w.Call("say", `{"text": "hello"}`).Deny(contracts.ReasonNoPolicyDefined)
	w.User("please say hello").Call("say", `{"text": "hello"}`).Allow()
	w.In("other").Call("say", `{"text": "hello"}`).Deny(contracts.ReasonNoPolicyDefined)

	MinCoverage(t, 50, w)
}

// What runs gets the judged bytes: with defaults, in canonical form.
func TestStubGetsWhatWasJudged(t *testing.T) {
	t.Parallel()
	var got []string
	w := desk(t).Tool("pay", func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		got = append(got, string(args))
		return args, nil
	})
	w.Call("pay", "{\"to\": {},\n \"amount\": 5.0}").Allow().Output(`{"amount": 5, "currency": "EUR", "to": {}}`)
	assert.Equal(t, []string{`{"amount":5,"currency":"EUR","to":{}}`}, got)
}

func TestMisrun(t *testing.T) {
	t.Parallel()
	args := []byte(`{}`)
	d := helm.Decision{Verdict: contracts.Allow}
	d.Record.Verdict, d.Record.ArgsHash = contracts.Allow, crypto.Sum(args)
	assert.Empty(t, misrun(&d, [][]byte{args}), "or the refusals below would prove nothing")
	assert.Contains(t, misrun(&d, [][]byte{args, args}), "2 times")
	assert.Contains(t, misrun(&d, [][]byte{[]byte(`{"a":1}`)}), "other bytes")
	assert.Contains(t, misrun(&d, nil), "nothing ran")
	assert.Contains(t, misrun(&helm.Decision{}, [][]byte{args}), "not permitted")
}

// Two worlds of one test write the same log, whatever the machine's clock and random numbers.
func TestWorldsAreTheSame(t *testing.T) {
	t.Parallel()
	var logs [][]byte
	for range 2 {
		w := desk(t)
		w.User("pay 5").Call("pay", `{"amount": 5}`).Allow()
		w.Call("pay", `{"amount": 500}`).Approve("olga").Allow()
		b, err := w.payloads()
		require.NoError(t, err)
		logs = append(logs, b)
	}
	assert.Equal(t, string(logs[0]), string(logs[1]))
	assert.NotContains(t, string(logs[0]), `500`, "an argument")
}

// Keys are those of files of cases.
func TestKeyOfCases(t *testing.T) {
	t.Parallel()
	seed := crypto.Sum([]byte("helm test key v1\nolga"))
	want, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	assert.Equal(t, public(want), public(keyOf("olga")))
}

// toys are tests that are each wrong in one way. The line that is reported is the one marked HERE.
var toys = map[string]struct {
	test func(t *testing.T)
	says string // after the file and line
}{
	"allowed": {func(t *testing.T) {
		desk(t).Call("pay", map[string]int{"amount": 2000}).Allow() // HERE allowed
	}, `pay /amount number
\tverdict: want ALLOW, got DENY
\tit was DENY NO_POLICY_DEFINED at condition 5, no rule, ran 0 times
\twhy: .*
\t\tdesk\.yaml:22 /rules/1: false
\t\tdesk\.yaml:22 /rules/1/when: false
\t\tdesk\.yaml:22 /rules/1/when/all/0: true; caller roles array
\t\tdesk\.yaml:22 /rules/1/when/all/1: false; /amount number
`},
	"denied": {func(t *testing.T) {
		w := desk(t)
		w.Call("pay", `{"amount": 5}`).
			Deny(contracts.ReasonPolicyViolation) // HERE denied
	}, `pay /amount number\n\tverdict: want DENY POLICY_VIOLATION, got ALLOW ALLOW\n`},
	"reason": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 0}`).Deny(contracts.ReasonNoPolicyDefined) // HERE reason
	}, `pay .*\n\tverdict: want DENY NO_POLICY_DEFINED, got DENY POLICY_VIOLATION\n` +
		`(.*\n)+\t\tdesk.yaml:21 /rules/0: true\n`},
	"rule": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 5}`).Allow().By("P1:desk:none").Ran(0) // HERE rule
	}, `pay .*\n\trule: want P1:desk:none, got P1:desk:clerks\n`},
	"no rule": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 5000}`).By("P1:desk:clerks") // HERE no rule
	}, `pay .*\n\trule: want P1:desk:clerks, got none\n`},
	"ran": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 5}`).Allow().Ran(0) // HERE ran
	}, `pay .*\n\tran: want 0, got 1\n`},
	"output": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 5}`).Output(`{}`) // HERE output
	}, `pay .*\n\toutput: want 2 bytes, got another of 4 bytes`},
	"no output": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 0}`).Output(`null`) // HERE no output
	}, `pay .*\n\toutput: want 4 bytes, got none`},
	"nobody asked": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 5}`).Approve("olga") // HERE nobody asked
	}, `pay .*\n\tapproval: want a request, got none\n`},
	"unknown key": {func(t *testing.T) {
		desk(t).Call("pay", `{"amount": 500}`).Approve("oleg") // HERE unknown key
	}, `helmtest: no key oleg: pass helmtest.Key to New\n`},
	"stub": {func(t *testing.T) {
		w := desk(t).At(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC))
		w.Call("list", nil).Allow() // HERE stub
	}, `list object without members\n\tverdict: want ALLOW, got DENY\n` +
		`(.*\n)+\tits stub returns null, which the policy refuses: say what runs by World.Tool\n`},
	"no JSON": {func(t *testing.T) {
		desk(t).Call("pay", `{amount: hunter2}`).Allow() // HERE no JSON
	}, `pay with 17 bytes that are not strict JSON\n`},
	"unknown keys": {func(t *testing.T) {
		desk(t).Call("pay", `{"hunter2": 1, "to": {"iban": "hunter2", "hunter2": {}}}`).Allow() // HERE unknown keys
	}, `pay /to/iban string, 1 members of "/to" that the schema does not name, ` +
		`1 members of "" that the schema does not name\n`},
	"undeclared tool": {func(t *testing.T) {
		desk(t).Tool("steal", counted) // HERE undeclared tool
	}, `helmtest: the policy declares no tool steal\n`},
	"time back": {func(t *testing.T) {
		desk(t).At(time.Date(2025, 1, 5, 12, 0, 0, 0, time.UTC)) // HERE time back
	}, `helmtest: At 2025-01-05 12:00:00 \+0000 UTC: it is 2026-01-01 .* already\n`},
	"arguments": {func(t *testing.T) {
		desk(t).Call("pay", func() {}) // HERE arguments
	}, `helmtest: arguments of pay: json: unsupported type: func\(\)\n`},
	"user": {func(t *testing.T) {
		desk(t).User("") // HERE user
	}, `helmtest: helm: .*\n`},
	"no approver": {func(t *testing.T) {
		New(t, compiled(t, deskText)) // HERE no approver
	}, `helmtest: helm: (.*\n)*.*/requires/0.*\n`},
	"no policy": {func(t *testing.T) {
		New(t, nil) // HERE no policy
	}, `helmtest: helm: .*[pP]olicy.*\n`},
	"two keys": {func(t *testing.T) {
		p := compiled(t, deskText)
		New(t, p, Key("olga", registry.Approver, "owner"), Key("olga", registry.Root)) // HERE two keys
	}, `helmtest: two keys named olga\n`},
	"a role of no key": {func(t *testing.T) {
		New(t, compiled(t, deskText), Key("olga", "boss")) // HERE a role of no key
	}, `helmtest: registry: .*\n`},
	"coverage": {func(t *testing.T) {
		w := desk(t)
		w.Call("pay", `{"amount": 5}`)
		MinCoverage(t, 90, w, w.In("b")) // HERE coverage
	}, `helmtest: covered [0-9.]+ %, of at least 90.0 %\n(.*\n)*\s*desk.yaml:21 rule /rules/0: never true\n`},
	"coverage of none": {func(t *testing.T) {
		MinCoverage(t, 0) // HERE coverage of none
	}, `helmtest: coverage of no World\n`},
	"coverage of two": {func(t *testing.T) {
		two := New(t, compiled(t, strings.ReplaceAll(deskText, "le: 1000", "le: 999")),
			Key("olga", registry.Approver, "owner"))
		MinCoverage(t, 0, desk(t), two) // HERE coverage of two
	}, `helmtest: coverage of Worlds of two policies\n`},
	"no golden file": {func(t *testing.T) {
		desk(t).Golden("none") // HERE no golden file
	}, `helmtest: no testdata.none.receipts: run the test with HELMTEST_UPDATE=1, and read what it writes\n`},
	"golden name": {func(t *testing.T) {
		desk(t).Golden("../none") // HERE golden name
	}, `helmtest: "../none" is no name of a file\n`},
	"golden": {func(t *testing.T) {
		w := desk(t)
		w.Call("pay", `{"amount": 6}`)
		w.Golden("desk") // HERE golden
	}, `helmtest: testdata.desk.receipts:3: another entry\n(\s+.*/argsHash: want "[0-9a-f]+", got "[0-9a-f]+"\n)` +
		`(.*\n)+\s+if that is meant, run the test with HELMTEST_UPDATE=1\n`},
	"no transcript": {func(t *testing.T) {
		Transcript(t, desk(t), "testdata/none.json") // HERE no transcript
	}, `helmtest: open testdata.none.json: .*\n`},
	"a transcript of no form": {func(t *testing.T) {
		Transcript(t, desk(t), "testdata/shop.yaml") // HERE a transcript of no form
	}, `helmtest: policytest: .*\n`},
	"left open": {func(t *testing.T) {
		w := desk(t).At(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC))
		require.NoError(t, w.kernel.Close()) // HERE left open
	}, `helmtest: .*the kernel was closed\n`},
}

const toyVariable = "HELMTEST_TOY"

// TestToy is run by TestToys, in a process in which it may fail.
func TestToy(t *testing.T) {
	if toy, ok := toys[os.Getenv(toyVariable)]; ok {
		toy.test(t)
	}
}

// TestToys runs each toy as go test does, and compares what it prints: the toy must fail, at its
// line, with its one complaint.
func TestToys(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("world_test.go")
	require.NoError(t, err)
	lines := map[string]int{}
	for i, line := range strings.Split(string(source), "\n") {
		if _, name, ok := strings.Cut(line, "// HERE "); ok {
			lines[name] = i + 1
		}
	}
	for name, toy := range toys {
		require.NotZero(t, lines[name], "no line of %s", name)
		cmd := exec.Command(os.Args[0], "-test.run", "^TestToy$")
		cmd.Env = append(os.Environ(), toyVariable+"="+name, "HELMTEST_UPDATE=")
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s passes", name)
		text := string(out)
		at := regexp.MustCompile(`(?m)^    (\S+_test\.go|world\.go):([0-9]+): `).FindAllStringSubmatchIndex(text, -1)
		require.Len(t, at, 1, "%s: not one complaint:\n%s", name, text)
		where := text[at[0][2]:at[0][5]]
		if name != "left open" { // found when the test has ended
			assert.Equal(t, fmt.Sprintf("world_test.go:%d", lines[name]), where, "%s:\n%s", name, text)
		}
		said := strings.ReplaceAll(text[at[0][1]:], "\n        ", "\n")
		assert.Regexp(t, `^`+toy.says, said, name)
		assert.NotContains(t, text, "hunter2", "a value of the call")
	}
}

func TestGolden(t *testing.T) { // not parallel: the environment
	w := desk(t)
	w.Call("pay", `{"amount": 5}`).Allow()
	w.Golden("desk")

	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HELMTEST_UPDATE", "1")
	w.Golden("a/new")
	t.Setenv("HELMTEST_UPDATE", "")
	w.Golden("a/new")
	got, err := os.ReadFile("testdata/a/new.receipts")
	require.NoError(t, err)
	log, err := w.payloads()
	require.NoError(t, err)
	assert.Equal(t, string(log), string(got))
	assert.Contains(t, string(log), `genesis/v1`)
}

func TestUnlike(t *testing.T) {
	t.Parallel()
	log := []byte("{\"a\":{\"b\":1}}\n{\"a\":2}\n")
	assert.Empty(t, unlike(log, bytes.Clone(log)))
	for got, want := range map[string]string{
		"{\"a\":{\"b\":2}}\n{\"a\":2}\n":            "1: another entry\n\t/a/b: want 1, got 2",
		"{\"a\":{\"b\":1}}\n{\"b\":2}\n":            "2: another entry\n\t/a: want 2, got nothing\n\t/b: want nothing, got 2",
		"{\"a\":{\"b\":1}}\n":                       "2: the log has 1 entries fewer",
		"{\"a\":{\"b\":1}}\n{\"a\":2}\n{\"a\":3}\n": "3: the log has 1 entries more",
		"{\"a\":{\"b\":1}}\n{\"a\":\n":              "2: no payload of an entry",
	} {
		assert.Equal(t, want, unlike(log, []byte(got)))
	}
}

// A tool that still runs when the test ends is found.
func TestRunIsLeft(t *testing.T) {
	t.Parallel()
	p := compiled(t, strings.ReplaceAll(deskText, "effect: write, input", "effect: write, limits: {timeout: 1s}, input"))
	b, err := newBench(t, p, []Option{Key("olga", registry.Approver, "owner")})
	require.NoError(t, err)
	block := make(chan struct{})
	defer close(block)
	w := &World{bench: b, session: "s"}
	w.Tool("say", executor.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		<-block
		return nil, nil
	}))
	w.User("hello").Call("say", `{"text":"hello"}`).Deny(contracts.ReasonToolTimeout).Ran(1)
	assert.ErrorContains(t, b.settle(), "still run: say: 1")
}

// A log that does not replay fails the test.
func TestLogMustReplay(t *testing.T) {
	t.Parallel()
	b, err := newBench(t, compiled(t, deskText), []Option{Key("olga", registry.Approver, "owner")})
	require.NoError(t, err)
	w := (&World{bench: b, session: "s"}).As(clerk)
	r := w.Call("pay", `{"amount":5}`).Allow()
	require.NoError(t, b.store.EraseBlob(t.Context(), r.decision.Record.InputsHash))
	assert.ErrorContains(t, b.settle(), "the log does not replay")
}

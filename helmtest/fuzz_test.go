package helmtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// A planted hole is a policy that allows what its author's sentence does not. The sound policy is
// the one that the author meant.
type plantedHole struct {
	input, soundInput string // of the tool; without soundInput the same
	hole, sound       string // rules
	seed              string
	seedOf            helm.Caller
	sentence          func(args map[string]any, in helm.Intent) error
}

func text(args map[string]any, key string) string { s, _ := args[key].(string); return s }

func amount(args map[string]any, key string) float64 { f, _ := args[key].(float64); return f }

func unless(ok bool, format string, a ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, a...)
}

// below reports whether a path as a file system reads it is at or below a directory.
func below(dir, p string) bool {
	p = path.Clean(p)
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func objectOf(required, properties string) string {
	return `{type: object, required: [` + required + `], properties: {` + properties + `}}`
}

var plantedHoles = map[string]plantedHole{
	"prefix for within": {
		input: objectOf("path", "path: {type: string}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /path, prefix: /srv/data}}]`,
		sound: `rules: [{id: a, allow: t, when: {arg: /path, within: [/srv/data]}}]`,
		seed:  `{"path": "/srv/data/a.txt"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			return unless(below("/srv/data", text(args, "path")), "outside of /srv/data")
		},
	},
	"host by suffix": {
		input: objectOf("host", "host: {type: string}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /host, suffix: corp.example}}]`,
		sound: `rules: [{id: a, allow: t, when: {arg: /host, host: [corp.example, "*.corp.example"]}}]`,
		seed:  `{"host": "api.corp.example"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			h := strings.ToLower(strings.TrimSuffix(text(args, "host"), "."))
			if u, err := url.Parse(text(args, "host")); err == nil && u.Host != "" {
				h = strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
			}
			return unless(h == "corp.example" || strings.HasSuffix(h, ".corp.example"), "another host")
		},
	},
	"userinfo before the host": {
		input: objectOf("url", "url: {type: string}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /url, prefix: "https://corp.example"}}]`,
		sound: `rules: [{id: a, allow: t, when: {arg: /url, url: ["https://corp.example/?"]}}]`,
		seed:  `{"url": "https://corp.example/a"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			u, err := url.Parse(text(args, "url"))
			host := ""
			if err == nil {
				host = strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
			}
			return unless(host == "corp.example" && u.User == nil, "another host")
		},
	},
	"open query": {
		input: objectOf("url", "url: {type: string}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /url, url: ["https://corp.example/api?"]}}]`,
		sound: `rules: [{id: a, allow: t, when: {arg: /url, url: ["https://corp.example/api"]}}]`,
		seed:  `{"url": "https://corp.example/api/a"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			u, err := url.Parse(text(args, "url"))
			return unless(err == nil && u.RawQuery == "", "a query")
		},
	},
	"a key that reads the same": { // the kernel refuses one that differs in letter case alone
		input: `{type: object, required: [amount], properties: {amount: {type: integer, minimum: 0}}, ` +
			`additionalProperties: {type: integer}}`,
		soundInput: objectOf("amount", "amount: {type: integer, minimum: 0}"),
		hole:       `rules: [{id: a, allow: t, when: {arg: /amount, le: 50}}]`,
		sound:      `rules: [{id: a, allow: t, when: {arg: /amount, le: 50}}]`,
		seed:       `{"amount": 5}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			for key, x := range args { // a tool that trims
				if f, ok := x.(float64); ok && strings.EqualFold(strings.Trim(key, " \u200b"), "amount") && f > 50 {
					return errors.New("more than 50 under a key that reads the same")
				}
			}
			return nil
		},
	},
	"float for money": {
		input:      objectOf("amount", "amount: {type: number, minimum: 0}"),
		soundInput: objectOf("amount", "amount: {type: number, minimum: 0, multipleOf: 0.01}"),
		hole:       `rules: [{id: a, allow: t, when: {arg: /amount, le: 50}}]`,
		sound:      `rules: [{id: a, allow: t, when: {arg: /amount, le: 50}}]`,
		seed:       `{"amount": 5}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			cents := amount(args, "amount") * 100
			return unless(math.Abs(cents-math.Round(cents)) < 1e-6, "no whole cents")
		},
	},
	"optional argument": {
		input: objectOf("to", "to: {type: string}, cc: {type: string}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /to, eq: ann}}]`,
		sound: `rules: [{id: a, allow: t, when: {all: [{arg: /to, eq: ann}, {arg: /cc, in: [ann], absent: true}]}}]`,
		seed:  `{"to": "ann"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			cc, there := args["cc"]
			return unless(!there || cc == nil || cc == "ann", "a copy to another")
		},
	},
	"negative amount": {
		input: objectOf("amount", "amount: {type: integer}"),
		hole:  `rules: [{id: a, allow: t, when: {arg: /amount, le: 50}}]`,
		sound: `rules: [{id: a, allow: t, when: {all: [{arg: /amount, le: 50}, {arg: /amount, gt: 0}]}}]`,
		seed:  `{"amount": 5}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			return unless(amount(args, "amount") > 0, "nothing, or less")
		},
	},
	"pattern without anchors": {
		input: objectOf("number", `number: {type: string, pattern: "[0-9]{4}"}`),
		hole:  `rules: [{id: a, allow: t}]`,
		sound: `rules: [{id: a, allow: t, when: {arg: /number, regex: "[0-9]{4}"}}]`,
		seed:  `{"number": "4711"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			return unless(len(text(args, "number")) == 4, "no number of an order")
		},
	},
	"list of what is forbidden": {
		input: objectOf("path", "path: {type: string}"),
		hole:  `rules: [{id: d, deny: t, when: {arg: /path, in: [/etc/passwd, /etc/shadow]}}, {id: a, allow: t}]`,
		sound: `rules: [{id: d, deny: t, when: {arg: /path, within: [/etc]}},
			{id: a, allow: t, when: {arg: /path, within: [/]}}]`,
		seed: `{"path": "/srv/a/b"}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			p := path.Clean(text(args, "path"))
			return unless(p != "/etc/passwd" && p != "/etc/shadow", "a file of passwords")
		},
	},
	"every of nothing": {
		input: objectOf("to", "to: {type: array, items: {type: string}}"),
		hole:  `rules: [{id: a, allow: t, when: {every: /to, that: {in: [ann, ben]}}}]`,
		sound: `rules: [{id: a, allow: t, when: {all: [{count: /to, ge: 1}, {every: /to, that: {in: [ann, ben]}}]}}]`,
		seed:  `{"to": ["ann", "ben"]}`,
		sentence: func(args map[string]any, _ helm.Intent) error {
			list, _ := args["to"].([]any)
			return unless(len(list) > 0, "nobody: the tool sends to all")
		},
	},
	"nobody in particular": {
		input: objectOf("id", "id: {type: integer}"),
		hole:  `rules: [{id: a, allow: t, when: {caller: tenant, eq: acme, absent: false}}]`,
		sound: `rules: [{id: a, allow: t, when: {all: [
			{caller: tenant, eq: acme, absent: false}, {caller: roles, has: clerk}]}}]`,
		seed:   `{"id": 1}`,
		seedOf: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}},
		sentence: func(_ map[string]any, in helm.Intent) error {
			for _, r := range in.Caller.Roles {
				if r == "clerk" {
					return nil
				}
			}
			return errors.New("no clerk")
		},
	},
}

func (h *plantedHole) fuzzer(t *testing.T, input, rules string) (*fuzzer, error) {
	t.Helper()
	p := compiled(t, "helm: policy/v1\nlayer: P1\nbundle: {name: toy, version: 1}\ntools:\n"+
		"  t: {effect: write, input: "+input+"}\n"+rules+"\n")
	return newFuzzer(p, []helm.Intent{{Tool: "t", Args: json.RawMessage(h.seed), Caller: h.seedOf, Session: "s"}},
		func(in helm.Intent) error {
			var args map[string]any
			require.NoError(t, json.Unmarshal(in.Args, &args))
			return h.sentence(args, in)
		})
}

// search makes calls until one is wrong, or until there were enough.
func search(t *testing.T, z *fuzzer, most int) (calls int, fault error) {
	t.Helper()
	for i := 0; calls < most && fault == nil; i++ {
		n := 0
		n, fault = z.run(choicesOf(i), false)
		calls += n
	}
	return calls, fault
}

// Fuzz finds each hole, and nothing in what was meant.
func TestFuzzFindsHoles(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	require.Len(t, plantedHoles, 12)
	for name, h := range plantedHoles {
		z, err := h.fuzzer(t, h.input, h.hole)
		require.NoError(t, err, name)
		calls, fault := search(t, z, 96*callsOfRun) // as many as go test makes
		require.Error(t, fault, "%s: not found in %d calls", name, calls)
		assert.Contains(t, fault.Error(), "ran, and must not: ", name)
		t.Logf("%s: found at call %d: %v", name, calls, fault)
		z, err = h.fuzzer(t, cmp.Or(h.soundInput, h.input), h.sound)
		require.NoError(t, err, name)
		most := 500
		if testing.Short() {
			most = 100
		}
		calls, fault = search(t, z, most)
		require.NoError(t, fault, "%s: what was meant", name)
		assert.GreaterOrEqual(t, calls, most)
	}
}

// fuzzed is a fuzzer of the desk.
func fuzzed(t testing.TB, allowed func(helm.Intent) error) *fuzzer {
	t.Helper()
	z, err := newFuzzer(compiled(t, deskText), []helm.Intent{
		{Tool: "pay", Args: json.RawMessage(`{"amount": 5}`), Caller: clerk, Session: "s"},
		{Tool: "list", Args: json.RawMessage(`{}`), Session: "s"},
	}, allowed)
	require.NoError(t, err)
	return z
}

// What must hold of every policy is held of a kernel that breaks it.
func TestFuzzFindsBrokenKernels(t *testing.T) {
	t.Parallel()
	calls, fault := search(t, fuzzed(t, nil), 500)
	require.NoError(t, fault, "or the faults below would prove nothing")
	require.GreaterOrEqual(t, calls, 500)

	made := map[*bench]int{}
	again := func(b *bench, ctx context.Context, in helm.Intent) {
		_, _ = in.Driver.Run(ctx, contracts.Call{Tool: in.Tool, Args: in.Args})
	}
	for says, judge := range map[string]func(*bench, context.Context, helm.Intent) (helm.Decision, helm.Receipt){
		"one call ran 2 times": func(b *bench, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			if d.Allowed() {
				again(b, ctx, in)
			}
			return d, r
		},
		"a call ran that was not permitted": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			if !d.Allowed() {
				again(b, ctx, in)
			}
			return d, r
		},
		"what ran got other bytes than were judged": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			args, stub := in.Args, in.Driver
			in.Driver = helm.Func(func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				r, err := stub.Run(ctx, contracts.Call{Tool: in.Tool, Args: args})
				return r.Output, err
			})
			return b.kernel.Guard(ctx, in)
		},
		"a call was allowed, and nothing ran": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			in.Driver = helm.Func(counted)
			return b.kernel.Guard(ctx, in)
		},
		"24 calls left 23 receipts": func(b *bench, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
			if b.keys["one"] == (crypto.PrivateKey{}) {
				b.keys["one"] = keyOf("one")
				return helm.Decision{}, helm.Receipt{}
			}
			return b.kernel.Guard(ctx, in)
		},
		"a tool ran that the policy does not declare": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			if d.Reason == contracts.ReasonToolNotFound {
				again(b, ctx, in)
				d.Record.Verdict, d.Record.ArgsHash = contracts.Allow, crypto.Sum(in.Args)
			}
			return d, r
		},
		"what ran does not conform to the tool's schema": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			if d.Reason == contracts.ReasonSchemaViolation {
				again(b, ctx, in)
				d.Record.Verdict, d.Record.ArgsHash = contracts.Allow, crypto.Sum(in.Args)
			}
			return d, r
		},
		"the log is sealed: helm: the kernel was closed": func(
			b *bench, ctx context.Context, in helm.Intent,
		) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			if made[b]++; made[b] == callsOfRun {
				_ = b.kernel.Close() // then the log cannot be verified
			}
			return d, r
		},
		"no blob of that digest": func(b *bench, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
			d, r := b.kernel.Guard(ctx, in)
			_ = b.store.EraseBlob(ctx, d.Record.InputsHash)
			return d, r
		},
	} {
		z := fuzzed(t, nil)
		z.judge = judge
		_, fault := search(t, z, 2000)
		assert.ErrorContains(t, fault, says)
	}

	z := fuzzed(t, nil)
	kernels, others := z.policy, compiled(t, strings.ReplaceAll(deskText, "le: 1000", "le: 999"))
	z.judge = func(b *bench, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
		z.policy = others
		return b.kernel.Guard(ctx, in)
	}
	_, fault = z.run([]byte("a"), false)
	assert.ErrorContains(t, fault, "judged again, it has another record")
	assert.NotEqual(t, kernels.Hash(), others.Hash())

	z = fuzzed(t, nil)
	z.narrow = []*guardian.Policy{compiled(t, strings.ReplaceAll(deskText, "eq: 0", "eq: 7777"))}
	_, fault = search(t, z, 2000)
	assert.ErrorContains(t, fault, "with an overlay it is allowed, and without it is not")

	var l ledger
	three := contracts.Charge{Amount: 3, Budget: "P1:b:c", Limit: 5, Of: "ann", Window: "total"}
	assert.NoError(t, l.charge([]contracts.Charge{three}))
	other := three
	other.Of = "ben"
	assert.NoError(t, l.charge([]contracts.Charge{other}))
	assert.ErrorContains(t, l.charge([]contracts.Charge{three}), "budget P1:b:c: 6 of 5 are spent")
}

// The same choices make the same calls.
func TestFuzzIsDeterministic(t *testing.T) {
	t.Parallel()
	calls := func() (list []string) {
		z := fuzzed(t, func(in helm.Intent) error {
			list = append(list, fmt.Sprintf("%s %s %s %v", in.Tool, in.Args, in.Session, in.Caller))
			return nil
		})
		for _, choices := range []string{"", "a", "abcdefgh"} {
			_, err := z.run([]byte(choices), false)
			require.NoError(t, err)
		}
		return list
	}
	first := calls()
	assert.Greater(t, len(first), 5)
	assert.Equal(t, first, calls())
}

func TestFuzzRefuses(t *testing.T) {
	t.Parallel()
	p := compiled(t, deskText)
	pay := helm.Intent{Tool: "pay", Args: json.RawMessage(`{"amount": 5}`), Caller: clerk}
	for says, seeds := range map[string][]helm.Intent{
		"no seeds":                            {},
		"no seed is allowed":                  {{Tool: "pay", Args: json.RawMessage(`{"amount": 5}`)}},
		"seed 1: its arguments are no JSON o": {pay, {Tool: "pay", Args: json.RawMessage(`5`)}},
	} {
		_, err := newFuzzer(p, seeds, nil)
		assert.ErrorContains(t, err, says)
	}
	_, err := newFuzzer(p, []helm.Intent{pay}, func(helm.Intent) error { return errors.New("never") })
	assert.ErrorContains(t, err, "\n\tran, and must not: never\n")
}

// FuzzToy fails in a process of its own, and passes in this one.
func FuzzToy(f *testing.F) {
	most := 1000.0
	if os.Getenv(toyVariable) == "fuzz" {
		most = 50
	}
	Fuzz(f, compiled(f, deskText), []helm.Intent{
		{Tool: "pay", Args: json.RawMessage(`{"amount": 5}`), Caller: clerk, Session: "s"},
	}, func(in helm.Intent) error {
		var args map[string]any
		if err := json.Unmarshal(in.Args, &args); err != nil {
			return err
		}
		return unless(in.Tool != "pay" || amount(args, "amount") <= most, "more than %v", most)
	})
}

func TestFuzzFails(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^FuzzToy$")
	cmd.Env = append(os.Environ(), toyVariable+"=fuzz")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Regexp(t, `--- FAIL: FuzzToy/seed#[0-9]+ (.*\n)+.*helmtest: call [0-9]+: pay (.*\n)+`+
		`\s+ran, and must not: more than 50\n`, string(out))
}

package helmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/policytest"
)

// A notebook notes what Policy says of a file, by subtest.
type notebook struct {
	name               string
	failed, said, left *[]string
}

func (n notebook) Helper()                  {}
func (n notebook) Context() context.Context { return context.Background() }
func (n notebook) Log(args ...any)          { *n.said = append(*n.said, n.name+": "+fmt.Sprint(args...)) }
func (n notebook) Errorf(format string, args ...any) {
	*n.failed = append(*n.failed, n.name+": "+fmt.Sprintf(format, args...))
}

func (n notebook) Fatalf(format string, args ...any) {
	n.Errorf(format, args...)
	runtime.Goexit()
}

func (n notebook) Skip(args ...any) {
	*n.left = append(*n.left, n.name+": "+fmt.Sprint(args...))
	runtime.Goexit()
}

func (n notebook) Run(name string, f func(caseT)) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(notebook{n.name + "/" + name, n.failed, n.said, n.left})
	}()
	<-done
	return true
}

// noted runs the files of a pattern.
func noted(pattern string, o policytest.Options) (failed, said, left []string) {
	notebook{"", &failed, &said, &left}.Run("T", func(t caseT) { runFiles(t, pattern, o) })
	return failed, said, left
}

const shopText = `helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  refund:
    effect: write
    input: {type: object, required: [amount], properties: {amount: {type: integer}, note: {type: string}}}
  find: {effect: read, input: {type: object, properties: {}}}
rules:
  - {id: find, allow: find}
  - {id: small, allow: refund, when: {arg: /amount, le: 50}}
`

// casesIn writes the shop and a file of cases about it.
func casesIn(t *testing.T, cases string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(shopText), 0o600))
	text := "helm: cases/v1\npolicy: [shop.yaml]\n" + cases
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop_cases.yaml"), []byte(text), 0o600))
	return filepath.Join(dir, "*_cases.yaml")
}

func TestPolicyFailures(t *testing.T) {
	t.Parallel()
	const good = "cases:\n  - {name: all, call: refund, want: ALLOW, " +
		"each: [{args: {amount: 50}}, {args: {amount: 51}, want: DENY, reason: NO_POLICY_DEFINED}]}\n"
	for name, c := range map[string]struct {
		cases string
		o     policytest.Options
		says  []string // of each complaint; none: it passes
	}{
		"right": {cases: good},
		"a wrong row": {
			cases: "cases:\n  - {name: all, call: refund, want: ALLOW, " +
				"each: [{args: {amount: 50}}, {args: {amount: 51}}]}\n",
			says: []string{`shop_cases.yaml:4: all/2\n\tverdict: want ALLOW, got DENY\n` +
				`(.*\n)*.*shop.yaml:11 /rules/1: false\n.*shop.yaml:11 /rules/1/when: false; /amount number$`},
		},
		"values under -v": {
			cases: "cases:\n  - {name: all, call: refund, args: {amount: 51}, want: ALLOW}\n",
			o:     policytest.Options{Values: true},
			says:  []string{`shop_cases.yaml:4: all \{"amount":51\}\n(.*\n)*.*/amount number 51$`},
		},
		"another reason": {
			cases: "cases:\n  - {name: one, call: refund, args: {amount: 51}, want: DENY, reason: POLICY_VIOLATION}\n",
			says:  []string{`shop_cases.yaml:4: one\n\treason: want POLICY_VIOLATION, got NO_POLICY_DEFINED`},
		},
		"coverage": {
			cases: good, o: policytest.Options{Min: 100}, says: []string{`covered [0-9.]+ %, of at least 100\.0 %$`},
		},
		"a mutant": {cases: good, o: policytest.Options{Mutate: true}, says: []string{
			`shop_cases.yaml: survived, and 0 cases touched it: shop.yaml:10 /rules/0: rule dropped$`, `allow and deny swapped$`,
		}},
		"a fault": {
			cases: "cases:\n  - {name: one, call: refnud, want: ALLOW}\n",
			says:  []string{`shop_cases.yaml:4:.*no tool "refnud"`},
		},
		"no case ran": {
			cases: "cases:\n  - {name: one, call: find, want: ALLOW, skip: not yet}\n",
			says:  []string{`no case ran`},
		},
		"an idle rule": {cases: good + "ignore: [{at: shop.yaml#/rules/7, why: none}]\n", says: []string{`ignores no unit`}},
	} {
		failed, said, _ := noted(casesIn(t, c.cases), c.o)
		require.Len(t, failed, len(c.says), "%s: %q", name, failed)
		for i, want := range c.says {
			assert.Regexp(t, want, failed[i], name)
		}
		if c.says == nil {
			require.Len(t, said, 1, name)
			assert.Regexp(t, `shop_cases.yaml\n(.*never.*\n)+covered [0-9]+ of [0-9]+ \(`, said[0], "coverage is not told")
		}
	}
	failed, _, _ := noted(filepath.Join(t.TempDir(), "*_cases.yaml"), policytest.Options{})
	require.Len(t, failed, 1)
	assert.Contains(t, failed[0], "no file matches")
	failed, _, _ = noted("[", policytest.Options{})
	require.Len(t, failed, 1)
	assert.Contains(t, failed[0], "syntax error in pattern")
}

func TestPolicySkipsAndWeakCases(t *testing.T) {
	t.Parallel()
	failed, said, left := noted(casesIn(t, "cases:\n  - {name: later, call: find, want: DENY, skip: not yet}\n"+
		"  - {name: any, call: refund, args: {amount: 51}, want: DENY}\n"), policytest.Options{})
	assert.Empty(t, failed)
	require.Len(t, left, 1)
	assert.Regexp(t, `/later: not yet$`, left[0])
	require.NotEmpty(t, said)
	assert.Regexp(t, `/any: weak: `, said[0])
}

// The table of a transcript is logged, and is part of a failure.
func TestPolicyTranscripts(t *testing.T) {
	t.Parallel()
	const found = `[{"role": "user", "content": "find it"}, {"role": "assistant", "tool_calls": [
		{"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "a", "content": "there"}]`
	for want, logged := range map[string]bool{"ALLOW": true, "DENY": false} {
		pattern := casesIn(t, "cases:\n  - {name: chat, transcript: chat.json, calls: {1: {want: "+want+"}}}\n")
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(pattern), "chat.json"), []byte(found), 0o600))
		failed, said, _ := noted(pattern, policytest.Options{})
		all := append(failed, said...)
		assert.Equal(t, logged, len(failed) == 0, all)
		assert.Regexp(t, `/chat: (.*\n)+.*calls 1: allow 1, deny 0`, all[0])
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	pattern := casesIn(t, "cases:\n  - {name: one, call: find, want: ALLOW}\n")
	Policy(t, pattern)
	Policy(t, pattern, policytest.Options{Min: 20})
}

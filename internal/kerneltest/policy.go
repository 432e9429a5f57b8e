package kerneltest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

// A stack of all three layers, over the tools of policyText.
const (
	LayerFloor = `
helm: policy/v1
layer: P0
name: acme
version: 2
expires: "2099-01-01T00:00:00Z"
profile:
  effects: [read, write]
  connectors: [test]
  sandbox: {write: wasi}
ceilings: {args: 1KiB, depth: 4, output: 1MiB, timeout: 20s, risk: medium}
lists: {bad: [mars, venus]}
rules:
  - {id: planets, deny: echo, when: {arg: /text, in: {list: bad}, absent: false}}
  - {id: guests, deny: {effects: [read]}, when: {caller: roles, has: guest}}
only: [echo, slow, written, risky, scoped, closed]
`
	LayerTask = `
helm: policy/v1
layer: P2
name: task
for: {session: s, tenant: acme}
only: [echo, written, risky, scoped]
rules:
  - {id: few, deny: echo, when: {arg: /n, gt: 5}}
`
	LayerTools = `
  written:
    effect: write
    input: {type: object}
  risky:
    effect: read
    risk: high
    input: {type: object}
  elsewhere:
    effect: read
    connector: other
    input: {type: object}
rules:
  - {id: more, allow: [written, risky, elsewhere]}
`
)

func Compile(t testing.TB, texts ...string) *guardian.Policy {
	t.Helper()
	var docs []contracts.Document
	for _, text := range texts {
		doc, err := policy.Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	p, err := guardian.Compile(docs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustHold compares the policy entries of the log.
func (w *World) MustHavePolicies(want string) {
	w.T.Helper()
	var entries []string
	for _, st := range w.Statements() {
		if st.Policy == nil {
			continue
		}
		var docs []string
		for _, d := range st.Policy.Documents {
			docs = append(docs, d.Layer+":"+d.Name+":"+string(rune('0'+d.Version)))
		}
		entries = append(entries, strings.Join(docs, " "))
	}
	if got := strings.Join(entries, ", "); got != want {
		w.T.Errorf("policy entries %s, want %s", got, want)
	}
}

func Document(t testing.TB, text string) contracts.Document {
	t.Helper()
	doc, err := policy.Parse("overlay.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// few is an overlay that lets echo have numbers up to n. More keys may stand behind it.
func Overlay(t testing.TB, name string, version, n int, more ...string) contracts.Document {
	return Document(t, fmt.Sprintf("helm: policy/v1\nlayer: P2\nname: \"%s\"\nversion: %d\nrules: [{id: few, deny: echo, when: {arg: /n, gt: %d}}]\n%s",
		name, version, n, strings.Join(more, "\n")))
}

func (w *World) Narrow(k *helm.Kernel, overlay contracts.Document) *helm.Kernel {
	w.T.Helper()
	n, err := k.Narrow(overlay)
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// of calls echo with a number, as a call of that kernel.
func (w *World) Echo(k *helm.Kernel, n int, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return k.Guard(context.Background(), in)
}

// mustAllow and mustDeny hold a call of echo with that number to what the kernel must say; by is the rule that denies.
func (w *World) MustAllow(k *helm.Kernel, n int, change ...func(*helm.Intent)) {
	w.T.Helper()
	w.Runs.Store(0)
	d, r := w.Echo(k, n, change...)
	w.MustBe(d, r, Executed(fmt.Sprintf(`{"n":%d}`, n)))
}

func (w *World) MustDeny(k *helm.Kernel, n int, by string, change ...func(*helm.Intent)) {
	w.T.Helper()
	w.Runs.Store(0)
	d, r := w.Echo(k, n, change...)
	w.MustBe(d, r, Denied(contracts.ReasonPolicyViolation))
	if d.Record.Rule != by {
		w.T.Errorf("denied by %q, want %q", d.Record.Rule, by)
	}
}

// mustBeClosed shows that this kernel judges nothing, and writes nothing.
func (w *World) MustBeClosed(k *helm.Kernel) {
	w.T.Helper()
	w.Runs.Store(0)
	before := w.Size()
	d, r := w.Echo(k, 1)
	w.MustBe(d, r, Want{Reason: contracts.ReasonKernelSealed, Err: helm.ErrDenied})
	if n := w.Size() - before; n != 0 {
		w.T.Errorf("a closed kernel wrote %d entries", n)
	}
	if n, err := k.Narrow(Overlay(w.T, "late", 1, 1)); n != nil || err == nil {
		w.T.Errorf("a closed kernel was narrowed: %v", err)
	}
}

// policies counts the policy entries, and refuses a PolicyHash that has two, and a decision before that of its own.
func (w *World) PolicyEntries() int {
	w.T.Helper()
	seen := map[contracts.Digest]bool{}
	for i, st := range w.Statements() {
		var d *contracts.DecisionRecord
		switch {
		case st.Policy != nil && seen[st.Policy.Policy]:
			w.T.Errorf("entry %d: the policy was written before", i)
		case st.Policy != nil:
			seen[st.Policy.Policy] = true
		case st.Decision != nil:
			d = st.Decision
		case st.Receipt != nil:
			d = st.Receipt.Decision
		}
		if d != nil && !seen[d.PolicyHash] {
			w.T.Errorf("entry %d: judged by a policy that no earlier entry has", i)
		}
	}
	return len(seen)
}

// version is the policy of the tests with another version, and edits by pairs.
func PolicyVersion(t testing.TB, n int, edits ...string) *guardian.Policy {
	t.Helper()
	text := strings.Replace(Policy, "name: test, version: 1", fmt.Sprint("name: test, version: ", n), 1)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the policy has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return Compile(t, text)
}

func (w *World) Swap(p *guardian.Policy) {
	w.T.Helper()
	if err := w.Kernel.Swap(context.Background(), p); err != nil {
		w.T.Fatal(err)
	}
}

// noEcho is an edit of the policy that takes echo's permission away; two fills in another default.
var (
	NoEcho       = []string{"allow: [echo, ", "allow: ["}
	TwoByDefault = []string{"default: 1", "default: 2"}
)

// policyText is the policy of the tests: what may be echoed, and what may not.
const Policy = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, properties: {text: {type: string}, n: {type: number, default: 1}}}
    limits: {output: 1KiB}
  pinned:
    effect: write
    risk: high
    input: {type: object, properties: {text: {type: string}}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  slow:
    effect: read
    input: {type: object}
    limits: {timeout: 1s}
  unbound:
    effect: read
    input: {type: object}
  scoped:
    effect: read
    input: {type: object, required: [path], properties: {path: {type: string}}}
    scope: [{arg: /path, within: [/srv]}]
  closed:
    effect: destructive
    input: {type: object}
rules:
  - {id: no-secrets, deny: echo, when: {arg: /text, finds: secret, absent: false}}
  - {id: all, allow: [echo, pinned, slow, unbound, scoped]}
`

package kerneltest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Policy is the policy of a new world: texts may be echoed, secrets may not.
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

// Edits of [Policy], for [Version].
var (
	NoEcho       = []string{"allow: [echo, ", "allow: ["} // echo is not allowed
	TwoByDefault = []string{"default: 1", "default: 2"}   // the argument n of echo is 2 if it is left out
)

// A stack of all three layers over the tools of [Policy]: a floor, an overlay, and what the bundle
// has in place of its line "rules:".
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
sandboxes: {wasi: {output: 16MiB}}
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

// Edit replaces text by pairs, each once. A text that is not there ends the test.
func Edit(t testing.TB, text string, edits ...string) string {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		require.Contains(t, text, edits[i])
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

// Compile compiles policy documents of YAML.
func Compile(t testing.TB, texts ...string) *guardian.Policy {
	t.Helper()
	var docs []contracts.Document
	for _, text := range texts {
		doc, err := policy.Parse("test.yaml", []byte(text))
		require.NoError(t, err)
		docs = append(docs, doc)
	}
	p, err := guardian.Compile(docs...)
	require.NoError(t, err)
	return p
}

// Document reads an overlay of YAML.
func Document(t testing.TB, text string) contracts.Document {
	t.Helper()
	doc, err := policy.Parse("overlay.yaml", []byte(text))
	require.NoError(t, err)
	return doc
}

// Version is [Policy] as version n, with edits by pairs.
func Version(t testing.TB, n int, edits ...string) *guardian.Policy {
	t.Helper()
	named := Edit(t, Policy, "name: test, version: 1", fmt.Sprint("name: test, version: ", n))
	return Compile(t, Edit(t, named, edits...))
}

// Overlay is an overlay that lets echo have numbers up to n; its rule is called few. More keys may
// follow.
func Overlay(t testing.TB, name string, version, n int, more ...string) contracts.Document {
	return Document(t, fmt.Sprintf("helm: policy/v1\nlayer: P2\nname: %q\nversion: %d\n"+
		"rules: [{id: few, deny: echo, when: {arg: /n, gt: %d}}]\n%s", name, version, n, strings.Join(more, "\n")))
}

// Narrow narrows a kernel.
func (w *World) Narrow(k *helm.Kernel, overlay contracts.Document) *helm.Kernel {
	w.T.Helper()
	n, err := k.Narrow(overlay)
	require.NoError(w.T, err)
	return n
}

// Swap puts a policy into force.
func (w *World) Swap(p *guardian.Policy) {
	w.T.Helper()
	require.NoError(w.T, w.Kernel.Swap(context.Background(), p))
}

// Echo calls echo with a number, as a call of k.
func (w *World) Echo(k *helm.Kernel, n int, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Tool: "echo", Args: fmt.Appendf(nil, `{"n":%d}`, n), Session: "s"}
	for _, f := range change {
		f(&in)
	}
	return k.Guard(context.Background(), in)
}

// MustEcho calls echo with a number, as a call of k that must come to x.
func (w *World) MustEcho(
	x Want, k *helm.Kernel, n int, change ...func(*helm.Intent),
) (d helm.Decision, r helm.Receipt) {
	w.T.Helper()
	d, r = w.Echo(k, n, change...)
	w.MustBe(d, r, x)
	return d, r
}

// MustAllow calls echo with a number, which k must allow.
func (w *World) MustAllow(k *helm.Kernel, n int, change ...func(*helm.Intent)) {
	w.T.Helper()
	w.Runs.Store(0)
	w.MustEcho(Executed(fmt.Sprintf(`{"n":%d}`, n)), k, n, change...)
}

// MustDeny calls echo with a number, which a rule of k must deny.
func (w *World) MustDeny(k *helm.Kernel, n int, rule string, change ...func(*helm.Intent)) {
	w.T.Helper()
	w.Runs.Store(0)
	d, _ := w.MustEcho(Denied(contracts.ReasonPolicyViolation), k, n, change...)
	assert.Equal(w.T, rule, d.Record.Rule, "denied by")
}

// MustBeClosed shows that k judges nothing, writes nothing and cannot be narrowed.
func (w *World) MustBeClosed(k *helm.Kernel) {
	w.T.Helper()
	w.Runs.Store(0)
	before := w.Size()
	w.MustEcho(Sealed(), k, 1)
	assert.Equal(w.T, before, w.Size(), "a closed kernel wrote entries")
	n, err := k.Narrow(Overlay(w.T, "late", 1, 1))
	assert.Error(w.T, err, "a closed kernel was narrowed")
	assert.Nil(w.T, n)
}

// MustHavePolicies compares the policy entries of the log, with a comma between entries and
// documents as layer:name:version.
func (w *World) MustHavePolicies(want string) {
	w.T.Helper()
	var entries []string
	for _, st := range w.Statements() {
		if st.Policy == nil {
			continue
		}
		var docs []string
		for _, d := range st.Policy.Documents {
			docs = append(docs, fmt.Sprintf("%s:%s:%d", d.Layer, d.Name, d.Version))
		}
		entries = append(entries, strings.Join(docs, " "))
	}
	assert.Equal(w.T, want, strings.Join(entries, ", "), "policy entries")
}

// PolicyEntries counts the policy entries. No policy may have two, and none may judge before its
// own.
func (w *World) PolicyEntries() int {
	w.T.Helper()
	seen := map[contracts.Digest]bool{}
	for i, st := range w.Statements() {
		if st.Policy != nil {
			assert.False(w.T, seen[st.Policy.Policy], "entry %d: the policy was written before", i)
			seen[st.Policy.Policy] = true
		}
		if d := st.Judgement(); d != nil {
			assert.True(w.T, seen[d.PolicyHash], "entry %d: judged by a policy that no earlier entry has", i)
		}
	}
	return len(seen)
}

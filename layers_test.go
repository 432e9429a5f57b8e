package helm_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/helmkernel/helm/policy"
)

// A stack of all three layers, over the tools of policyText.
const (
	layerFloor = `
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
	layerTask = `
helm: policy/v1
layer: P2
name: task
for: {session: s, tenant: acme}
only: [echo, written, risky, scoped]
rules:
  - {id: few, deny: echo, when: {arg: /n, gt: 5}}
`
	layerTools = `
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

func compileAll(t testing.TB, texts ...string) *guardian.Policy {
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

// layered is the stack, its documents in no order.
func layered(t testing.TB) *guardian.Policy {
	return compileAll(t, layerTask, strings.Replace(policyText, "rules:\n", strings.TrimPrefix(layerTools, "\n"), 1), layerFloor)
}

// One kernel under a floor, a bundle and an overlay: calls are allowed and denied at each layer, each with its receipt, nothing runs that
// is denied; the pack verifies, replays, and the second implementation agrees; and so it is after a restart under later documents.
func TestLayers(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) { o.Policy = layered(t) })
	boxed := func(in *helm.Intent) { in.Driver = sandboxed{world: w} }
	open := func(in *helm.Intent) { in.Driver = w }
	who := func(tenant string, roles ...string) func(*helm.Intent) {
		return func(in *helm.Intent) { in.Caller = helm.Caller{ID: "ann", Tenant: tenant, Roles: roles} }
	}
	for _, c := range []struct {
		tool, args string
		change     []func(*helm.Intent)
		reason     contracts.ReasonCode
		condition  int
		rule       string
		output     string
	}{
		{"echo", `{"text":"hi"}`, nil, contracts.ReasonAllow, 8, "P1:test:all", `{"n":1,"text":"hi"}`},
		{"echo", `{"text":"hi","n":6}`, nil, contracts.ReasonAllow, 8, "P1:test:all", `{"n":6,"text":"hi"}`}, // the overlay is for a tenant
		{"written", `{}`, []func(*helm.Intent){boxed}, contracts.ReasonAllow, 8, "P1:test:more", `null`},
		{"nothing", `{}`, nil, contracts.ReasonToolNotFound, 1, "", ""},
		{"closed", `{}`, nil, contracts.ReasonSideEffectNotPermitted, 1, "", ""},
		{"elsewhere", `{}`, []func(*helm.Intent){open}, contracts.ReasonConnectorNotAllowed, 1, "", ""},
		{"written", `{}`, []func(*helm.Intent){open}, contracts.ReasonSandboxViolation, 1, "", ""},
		{"written", `{}`, nil, contracts.ReasonSandboxViolation, 1, "", ""},
		{"unbound", `{}`, nil, contracts.ReasonDriverNotBound, 1, "", ""},
		{"echo", `{"text":"` + strings.Repeat("x", 1024) + `"}`, nil, contracts.ReasonSchemaViolation, 2, "", ""},
		{"scoped", `{"path":"/etc"}`, nil, contracts.ReasonDestinationNotAllowed, 2, "P1:test:scope", ""},
		{"echo", `{"text":"a secret"}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5, "P1:test:no-secrets", ""},
		{"echo", `{"text":"hi","n":6}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5, "P2:task:few", ""},
		{"slow", `{}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5, "P2:task:only", ""},
		{"slow", `{}`, []func(*helm.Intent){who("umbrella")}, contracts.ReasonAllow, 8, "P1:test:all", `{}`},
		{"echo", `{"text":"mars"}`, []func(*helm.Intent){who("acme")}, contracts.ReasonCeilingViolation, 8, "P0:acme:planets", ""},
		{"echo", `{}`, []func(*helm.Intent){who("acme", "guest")}, contracts.ReasonCeilingViolation, 8, "P0:acme:guests", ""},
		{"risky", `{}`, []func(*helm.Intent){open}, contracts.ReasonCeilingViolation, 8, "P0:acme:ceilings", ""},
		{"pinned", `{}`, []func(*helm.Intent){who("umbrella")}, contracts.ReasonSandboxViolation, 1, "", ""},
	} {
		d, r := w.call(c.tool, c.args, c.change...)
		x := want{verdict: contracts.Deny, reason: c.reason, outcome: contracts.Denied, err: helm.ErrDenied}
		if c.reason == contracts.ReasonAllow {
			x = want{verdict: contracts.Allow, reason: c.reason, outcome: contracts.Executed, output: c.output, runs: 1}
		}
		w.mustBe(d, r, x)
		if d.Record.Condition != c.condition || d.Record.Rule != c.rule {
			t.Errorf("%s %s: condition %d by %q, want %d by %q", c.tool, c.args, d.Record.Condition, d.Record.Rule, c.condition, c.rule)
		}
		if t.Failed() {
			t.Fatalf("at %s %s", c.tool, c.args)
		}
	}
	report := w.mustVerify()
	if report.Replay.Replayed != 19 || report.Replay.NotReplayable != 0 {
		t.Errorf("replay: %+v", report.Replay)
	}
	w.mustAgree(report)
	w.mustHold("P0:acme:2 P1:test:1 P2:task:1")

	// Another floor, and the task gone on to its next version.
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = compileAll(t, strings.Replace(layerTask, "name: task", "name: task\nversion: 2", 1), strings.Replace(layerFloor, "version: 2", "version: 3", 1),
		strings.Replace(policyText, "rules:\n", strings.TrimPrefix(layerTools, "\n"), 1))
	w.open()
	d, r := w.call("echo", `{"text":"venus"}`)
	w.mustBe(d, r, want{reason: contracts.ReasonCeilingViolation, outcome: contracts.Denied, err: helm.ErrDenied})
	w.mustAgree(w.mustVerify())
	w.mustHold("P0:acme:2 P1:test:1 P2:task:1, P0:acme:3 P1:test:1 P2:task:2")
}

// mustHold compares the policy entries of the log.
func (w *world) mustHold(want string) {
	w.t.Helper()
	var entries []string
	for _, st := range w.statements() {
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
		w.t.Errorf("policy entries %s, want %s", got, want)
	}
}

// mustAgree has the second implementation verify the log.
func (w *world) mustAgree(report evidence.Report) {
	w.t.Helper()
	if !shared.Have(w.t, "oracle") {
		w.t.Log("no ../shared/oracle: the pack is not compared with the second implementation")
		return
	}
	program := shared.Oracle(w.t, "")
	dir := w.t.TempDir()
	var pack bytes.Buffer
	if err := evidence.Write(context.Background(), &pack, w.store.Store, w.key.PrivateKey); err != nil {
		w.t.Fatal(err)
	}
	for name, b := range map[string][]byte{"pack.tar": pack.Bytes(), "trust.json": w.k.Trust().Canonical()} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	verify := exec.CommandContext(w.t.Context(), program, "verify", "-trust", "trust.json", "-origin", origin, "pack.tar")
	verify.Dir = dir
	out, err := verify.CombinedOutput()
	if err != nil || !strings.Contains(string(out), report.MerkleRoot.String()) || !strings.Contains(string(out), `"LOGGED"`) {
		w.t.Errorf("the second implementation: %v\n%s", err, out)
	}
}

// A document that has expired is not taken into use, nor one whose version went back, in any layer.
func TestLayersRefusedByNew(t *testing.T) {
	bundle := strings.Replace(policyText, "rules:\n", strings.TrimPrefix(layerTools, "\n"), 1)
	w := newWorld(t, func(o *helm.Options) {
		o.Policy = compileAll(t, bundle, layerFloor, strings.Replace(layerTask, "name: task", "name: task\nversion: 7", 1))
	})
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ floor, task, says string }{
		{strings.Replace(layerFloor, "version: 2", "version: 1", 1), layerTask, "policy P0 acme: version 1 goes back: the log has had version 2"},
		{layerFloor, strings.Replace(layerTask, "name: task", "name: task\nversion: 6", 1), "policy P2 task: version 6 goes back: the log has had version 7"},
		{strings.Replace(layerFloor, "2099", "2001", 1), layerTask, "/expires: the document P0:acme expired at 2001-01-01T00:00:00.000Z"},
		{layerFloor, layerTask + "expires: \"2001-01-01T00:00:00Z\"\n", "/expires: the document P2:task expired at 2001-01-01T00:00:00.000Z"},
	} {
		w.o.Policy = compileAll(t, bundle, c.floor, c.task)
		if k, err := helm.New(w.o); k != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New gives %v, want %s", err, c.says)
		}
	}
}

// A document that expires while the kernel runs denies from then on.
func TestLayersExpire(t *testing.T) {
	for _, c := range []struct{ floor, task, rule string }{
		{strings.Replace(layerFloor, "2099-01-01T00", "2026-11-20T18", 1), layerTask, "P0:acme:expires"},
		{layerFloor, layerTask + "expires: \"2026-11-20T18:00:00Z\"\n", "P2:task:expires"},
	} {
		now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
		w := newWorld(t, func(o *helm.Options) {
			o.Policy = compileAll(t, strings.Replace(policyText, "rules:\n", strings.TrimPrefix(layerTools, "\n"), 1), c.floor, c.task)
			o.Now = func() time.Time { return now }
		})
		acme := func(in *helm.Intent) { in.Caller.Tenant = "acme" }
		d, r := w.call("echo", `{}`, acme)
		w.mustBe(d, r, want{verdict: contracts.Allow, reason: contracts.ReasonAllow, outcome: contracts.Executed, output: `{"n":1}`, runs: 1})
		if d.Record.Expires != contracts.TimeOf(now.Add(20*time.Second)) {
			t.Errorf("permitted until %v: not the ceiling's 20s", d.Record.Expires)
		}
		now = now.Add(time.Hour)
		if d, _ = w.call("echo", `{}`, acme); d.Verdict != contracts.Deny || d.Record.Rule != c.rule {
			t.Errorf("an hour later %v by %q, want %q", d.Reason, d.Record.Rule, c.rule)
		}
		w.mustVerify()
	}
}

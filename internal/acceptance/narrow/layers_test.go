package narrow

import (
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layered is the stack, its documents in no order.
func layered(t testing.TB) *guardian.Policy {
	return kerneltest.Compile(t, kerneltest.LayerTask, strings.Replace(kerneltest.Policy, "rules:\n",
		strings.TrimPrefix(kerneltest.LayerTools, "\n"), 1), kerneltest.LayerFloor)
}

// One kernel under a floor, a bundle and an overlay: calls are allowed and denied at each layer,
// each with its receipt, and nothing denied runs. The pack verifies and replays, the second
// implementation agrees, and all this holds after a restart under later documents.
func TestLayers(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Policy = layered(t) })
	boxed := kerneltest.WithDriver(w.Sandboxed(kerneltest.Boxed("wasi"), kerneltest.Returns("", nil)))
	open := kerneltest.WithDriver(w)
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
		// the overlay is for a tenant
		{"echo", `{"text":"hi","n":6}`, nil, contracts.ReasonAllow, 8, "P1:test:all", `{"n":6,"text":"hi"}`},
		{"written", `{}`, []func(*helm.Intent){boxed}, contracts.ReasonAllow, 8, "P1:test:more", `null`},
		{"nothing", `{}`, nil, contracts.ReasonToolNotFound, 1, "", ""},
		{"closed", `{}`, nil, contracts.ReasonSideEffectNotPermitted, 1, "", ""},
		{"elsewhere", `{}`, []func(*helm.Intent){open}, contracts.ReasonConnectorNotAllowed, 1, "", ""},
		{"written", `{}`, []func(*helm.Intent){open}, contracts.ReasonSandboxViolation, 1, "", ""},
		{"written", `{}`, nil, contracts.ReasonSandboxViolation, 1, "", ""},
		{"unbound", `{}`, nil, contracts.ReasonDriverNotBound, 1, "", ""},
		{"echo", `{"text":"` + strings.Repeat("x", 1024) + `"}`, nil, contracts.ReasonSchemaViolation, 2, "", ""},
		{"scoped", `{"path":"/etc"}`, nil, contracts.ReasonDestinationNotAllowed, 2, "P1:test:scope", ""},
		{"echo", `{"text":"a secret"}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5,
			"P1:test:no-secrets", ""},
		{"echo", `{"text":"hi","n":6}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5,
			"P2:task:few", ""},
		{"slow", `{}`, []func(*helm.Intent){who("acme")}, contracts.ReasonPolicyViolation, 5, "P2:task:only", ""},
		{"slow", `{}`, []func(*helm.Intent){who("umbrella")}, contracts.ReasonAllow, 8, "P1:test:all", `{}`},
		{"echo", `{"text":"mars"}`, []func(*helm.Intent){who("acme")}, contracts.ReasonCeilingViolation, 8,
			"P0:acme:planets", ""},
		{"echo", `{}`, []func(*helm.Intent){who("acme", "guest")}, contracts.ReasonCeilingViolation, 8,
			"P0:acme:guests", ""},
		{"risky", `{}`, []func(*helm.Intent){open}, contracts.ReasonCeilingViolation, 8, "P0:acme:ceilings", ""},
		{"pinned", `{}`, []func(*helm.Intent){who("umbrella")}, contracts.ReasonSandboxViolation, 1, "", ""},
	} {
		d, r := w.Call(c.tool, c.args, c.change...)
		x := kerneltest.Denied(c.reason)
		if c.reason == contracts.ReasonAllow {
			x = kerneltest.Want{Verdict: contracts.Allow, Reason: c.reason, Outcome: contracts.Executed,
				Output: c.output, Runs: 1}
		}
		w.MustBe(d, r, x)
		assert.Equal(t, c.condition, d.Record.Condition, "%s %s", c.tool, c.args)
		assert.Equal(t, c.rule, d.Record.Rule, "%s %s", c.tool, c.args)
		require.False(t, t.Failed(), "at %s %s", c.tool, c.args)
	}
	report := w.MustVerify()
	assert.Equal(t, uint64(19), report.Replay.Replayed, "replay")
	assert.Zero(t, report.Replay.NotReplayable)
	w.MustAgree(report)
	w.MustHavePolicies("P0:acme:2 P1:test:1 P2:task:1")

	// Another floor, and the next version of the task.
	w.Close()
	w.Options.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.LayerTask, "name: task",
		"name: task\nversion: 2", 1), strings.Replace(kerneltest.LayerFloor, "version: 2", "version: 3", 1),
		strings.Replace(kerneltest.Policy, "rules:\n", strings.TrimPrefix(kerneltest.LayerTools, "\n"), 1))
	w.Open()
	w.MustCall(kerneltest.Denied(contracts.ReasonCeilingViolation), "echo", `{"text":"venus"}`)
	w.MustAgree(w.MustVerify())
	w.MustHavePolicies("P0:acme:2 P1:test:1 P2:task:1, P0:acme:3 P1:test:1 P2:task:2")
}

// A document that has expired is not taken into use, nor one whose version goes back, in any layer.
func TestLayersRefusedByNew(t *testing.T) {
	t.Parallel()
	bundle := strings.Replace(kerneltest.Policy, "rules:\n", strings.TrimPrefix(kerneltest.LayerTools, "\n"), 1)
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, bundle, kerneltest.LayerFloor,
			strings.Replace(kerneltest.LayerTask, "name: task", "name: task\nversion: 7", 1))
	})
	w.Close()
	for _, c := range []struct{ floor, task, says string }{
		{strings.Replace(kerneltest.LayerFloor, "version: 2", "version: 1", 1), kerneltest.LayerTask,
			"policy P0 acme: version 1 goes back: the log has had version 2"},
		{kerneltest.LayerFloor, strings.Replace(kerneltest.LayerTask, "name: task", "name: task\nversion: 6", 1),
			"policy P2 task: version 6 goes back: the log has had version 7"},
		{strings.Replace(kerneltest.LayerFloor, "2099", "2001", 1), kerneltest.LayerTask,
			"/expires: the document P0:acme expired at 2001-01-01T00:00:00.000Z"},
		{kerneltest.LayerFloor, kerneltest.LayerTask + "expires: \"2001-01-01T00:00:00Z\"\n",
			"/expires: the document P2:task expired at 2001-01-01T00:00:00.000Z"},
	} {
		w.Options.Policy = kerneltest.Compile(t, bundle, c.floor, c.task)
		k, err := helm.New(w.Options)
		assert.Nil(t, k)
		assert.ErrorContains(t, err, c.says)
	}
}

// A document that expires while the kernel runs denies from then on.
func TestLayersExpire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ floor, task, rule string }{
		{strings.Replace(kerneltest.LayerFloor, "2099-01-01T00", "2026-11-20T18", 1), kerneltest.LayerTask,
			"P0:acme:expires"},
		{kerneltest.LayerFloor, kerneltest.LayerTask + "expires: \"2026-11-20T18:00:00Z\"\n", "P2:task:expires"},
	} {
		now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
		w := kerneltest.New(t, func(o *helm.Options) {
			o.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "rules:\n",
				strings.TrimPrefix(kerneltest.LayerTools, "\n"), 1), c.floor, c.task)
			o.Now = func() time.Time { return now }
		})
		acme := func(in *helm.Intent) { in.Caller.Tenant = "acme" }
		d, _ := w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`, acme)
		assert.Equal(t, contracts.TimeOf(now.Add(20*time.Second)), d.Record.Expires,
			"permitted until %v: not the ceiling's 20s", d.Record.Expires)
		now = now.Add(time.Hour)
		d, _ = w.Call("echo", `{}`, acme)
		assert.Equal(t, contracts.Deny, d.Verdict)
		assert.Equal(t, c.rule, d.Record.Rule)
		w.MustVerify()
	}
}

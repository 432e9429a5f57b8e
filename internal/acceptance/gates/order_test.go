package gates

import (
	"context"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// orderBundle has a tool for each set of faults of the surface: e of its effect, c of its
// connector, s of its sandbox, r of its risk.
const orderBundle = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  look: {effect: read, input: {type: object}}
TOOLS
rules:
  - {id: barred, deny: "move*", when: {arg: /text, eq: barred}}
  - {id: all, allow: [look, NAMES]}
requires:
  - {id: looked, tools: "move*", when: {arg: /unseen, eq: true}, all: [{receipt: look}]}
  - {id: asked, tools: "move*", when: {arg: /ask, eq: true}, all: [{approval: {roles: [owner]}}]}
budgets:
  - {id: tenants, tools: "move*", limit: 9000, per: tenant, window: total, cost: 1}
  - {id: money, tools: "move*", limit: 9000, per: all, window: total, cost: {arg: /amount}}
`

const orderTool = `  NAME:
    effect: EFFECT
    connector: CONNECTOR
    risk: RISK
    SANDBOX
    input:
      type: object
      required: [path, text]
      properties:
        path: {type: string}
        text: {type: string}
        kind: {type: string, default: a}
        amount: {type: integer, default: 0}
        ask: {type: boolean, default: false}
        unseen: {type: boolean, default: false}
    scope: [{arg: /path, within: [/srv]}]
`

const orderFloor = `
helm: policy/v1
layer: P0
name: acme
version: 1
profile: {effects: [read, write], connectors: [test]}
ceilings: {risk: medium}
`

// A draft is a call with some faults.
type draft struct {
	in                                helm.Intent
	path, text, more                  string
	effect, connector, sandbox, risky bool
	frozen, ended                     bool
}

// A fault is a reason to deny a draft.
type fault struct {
	reason contracts.ReasonCode
	make   func(d *draft)
}

// faultsInOrder are faults of every condition, in published order, each independent of the others.
func faultsInOrder(chain func(f func(*contracts.Delegation)) []contracts.Envelope) []fault {
	return []fault{
		{contracts.ReasonIntentMalformed, func(d *draft) { d.in.Caller.Roles = []string{""} }},
		{contracts.ReasonArgsCanonicalization, func(d *draft) { d.more += `,"kind":"b","kind":"c"` }},
		{contracts.ReasonSessionClosed, func(d *draft) { d.in.Session = "closed" }},
		{contracts.ReasonSystemFrozen, func(d *draft) { d.frozen = true }},
		{contracts.ReasonIdempotencyConflict, func(d *draft) { d.in.Idempotency = "bound" }},
		{contracts.ReasonFailClosedError, func(d *draft) { d.ended = true }},
		{contracts.ReasonToolNotFound, func(d *draft) { d.in.Tool = "nobody" }},
		{contracts.ReasonSideEffectNotPermitted, func(d *draft) { d.effect = true }},
		{contracts.ReasonConnectorNotAllowed, func(d *draft) { d.connector = true }},
		{contracts.ReasonSandboxViolation, func(d *draft) { d.sandbox = true }},
		{contracts.ReasonDriverNotBound, func(d *draft) { d.in.Driver = nil }},
		{contracts.ReasonSchemaViolation, func(d *draft) { d.more += `,"sudo":true` }},
		{contracts.ReasonDestinationNotAllowed, func(d *draft) { d.path = "/etc" }},
		{contracts.ReasonBudgetError, func(d *draft) { d.in.Caller.Tenant = "" }},
		{contracts.ReasonBudgetExceeded, func(d *draft) { d.more += `,"amount":9001` }},
		{contracts.ReasonMissingRequirement, func(d *draft) { d.more += `,"unseen":true` }},
		{contracts.ReasonPolicyViolation, func(d *draft) { d.text = "barred" }},
		{contracts.ReasonDelegationInvalid,
			func(d *draft) { d.in.Delegation = chain(func(g *contracts.Delegation) { g.Expires = 1 }) }},
		{contracts.ReasonDelegationScopeViolation, func(d *draft) {
			if d.in.Delegation == nil {
				d.in.Delegation = chain(func(g *contracts.Delegation) { g.Only = []string{"look"} })
			}
		}},
		{contracts.ReasonCeilingViolation, func(d *draft) { d.risky = true }},
		{contracts.ReasonApprovalRequired, func(d *draft) { d.more += `,"ask":true` }},
	}
}

// An orderTrial makes calls with faults, on a kernel that is frozen or on one that is not.
type orderTrial struct {
	t            *testing.T
	open, frozen *target
	faults       []fault
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// tool is the name of the tool that has the draft's faults of the surface.
func (d *draft) tool() string {
	return "move" + either(d.effect, ".e", "") + either(d.connector, ".c", "") + either(d.sandbox, ".s", "") +
		either(d.risky, ".r", "")
}

// orderTools returns the declarations of all tools, and their names.
func orderTools() (tools string, names []string) {
	for bits := range 16 {
		d := &draft{effect: bits&1 > 0, connector: bits&2 > 0, sandbox: bits&4 > 0, risky: bits&8 > 0}
		names = append(names, d.tool())
		tools += strings.NewReplacer("NAME", d.tool(), "EFFECT", either(d.effect, "destructive", "write"),
			"CONNECTOR", either(d.connector, "other", "test"), "RISK", either(d.risky, "high", "low"),
			"SANDBOX", either(d.sandbox, "sandbox: pure", "trusted: false")).Replace(orderTool)
	}
	return tools, names
}

func newOrderTrial(t *testing.T) *orderTrial {
	tools, names := orderTools()
	bundle := strings.NewReplacer("TOOLS\n", tools, "NAMES", strings.Join(names, ", ")).Replace(orderBundle)
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: kerneltest.NamedPublic(t, name), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root), key("ann", registry.Delegator),
		key("olga", registry.Approver, "owner"), key("on call", registry.Freezer))
	require.NoError(t, err)
	good := helm.Intent{Session: "open", Caller: helm.Caller{ID: "agent", Tenant: "acme"}}
	stage := func() *target {
		s := newTarget(t, good, []string{orderFloor, bundle}, func(o *helm.Options) { o.Trust = r })
		s.Governed = true
		s.good.Tool, s.good.Driver, s.good.Args = "move", s.World, []byte(`{"path":"/srv","text":"plain"}`)
		for _, session := range []string{"open", "closed"} {
			s.admit(func(in *helm.Intent) {
				in.Session, in.Idempotency, in.Caller.ID = session, "bound", "somebody else"
			})
		}
		s.close("closed")
		return s
	}
	o := &orderTrial{t: t, open: stage(), frozen: stage()}
	o.frozen.GovernByName(contracts.TrustEvent{Type: "freeze"}, "on call")
	o.faults = faultsInOrder(func(f func(*contracts.Delegation)) []contracts.Envelope {
		g := contracts.Delegation{Delegator: "ann", Delegate: "agent", Only: names}
		f(&g)
		return kerneltest.Chain(t, g)
	})
	return o
}

// try makes a call with a set of faults, which must be denied for the first.
func (o *orderTrial) try(set []int) {
	o.t.Helper()
	d := draft{in: o.open.good, path: "/srv", text: "plain"}
	for _, i := range set {
		o.faults[i].make(&d)
	}
	if d.in.Tool == "move" {
		d.in.Tool = d.tool()
	}
	d.in.Args = []byte(`{"path":"` + d.path + `","text":"` + d.text + `"` + d.more + `}`)
	s := o.open
	if d.frozen {
		s = o.frozen
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d.ended {
		cancel()
	}
	want := o.faults[set[0]].reason
	a := answered(s.Kernel.Guard(ctx, d.in))
	assert.Equal(o.t, want, a.d.Reason, "faults %v: %s", set, a.d.Why)
	assert.False(o.t, a.d.Allowed(), "faults %v", set)
	assert.ErrorIs(o.t, a.d.Err(), helm.ErrDenied, "faults %v", set)
	require.NotNil(o.t, a.r.Record.Decision, "faults %v", set)
	assert.Equal(o.t, want, a.r.Record.Decision.Reason, "faults %v", set)
	if want != contracts.ReasonFailClosedError {
		assert.Equal(o.t, want.Condition(), a.d.Record.Condition, "faults %v", set)
	}
}

// Of any two faults, and of many, the first in published order is the reason, and the receipt has
// its condition.
func TestOrderOfGates(t *testing.T) {
	t.Parallel()
	o := newOrderTrial(t)
	tried := 0
	for i := range o.faults {
		o.try([]int{i})
		rest := []int{i}
		for j := i + 1; j < len(o.faults); j++ {
			o.try([]int{i, j})
			rest = append(rest, j)
			o.try(rest)
			tried += 2
		}
	}
	for _, s := range []*target{o.open, o.frozen} {
		assert.Zero(t, s.Runs.Load(), "runs of the tool")
		s.MustVerify()
	}
	assert.Equal(t, len(o.faults)*(len(o.faults)-1), tried)
	assert.GreaterOrEqual(t, tried, 400)
}

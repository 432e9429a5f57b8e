package kerneltest

import (
	"context"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/require"
)

// DelegationPolicy is a policy for calls under delegations: clerks may echo sums up to 1000, ann
// all of them, and each caller may echo 30 times.
const DelegationPolicy = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, required: [text, sum],
      properties: {text: {type: string}, sum: {type: number}, note: {type: string}}}
  outer:
    effect: write
    input: {type: object}
rules:
  - {id: dear, deny: echo, when: {arg: /sum, gt: 1000}, unless: {caller: id, eq: ann, absent: false}}
  - {id: clerks, allow: [echo, outer], when: {caller: roles, has: clerk}}
budgets:
  - {id: each, tools: [echo], limit: 30, per: caller, window: total, cost: 1}
`

// Noon is a fixed time within the validity of every [Chain].
var Noon = time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)

// Delegators is a trust state in which ann and bob may do what a clerk may, and carl what a guest
// may; dora's key approves.
func Delegators(t testing.TB) *registry.Registry {
	t.Helper()
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: NamedPublic(t, name), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root),
		key("ann", registry.Delegator, "clerk"), key("bob", registry.Delegator, "clerk"),
		key("carl", registry.Delegator, "guest"), key("dora", registry.Approver, "clerk"))
	require.NoError(t, err)
	return r
}

// Chain signs grants, the first by the one who has the right, each by its delegator and made from
// the one before. It returns them in the order in which they are presented. What a grant leaves out
// is: a long validity, the tool echo, and any depth.
func Chain(t testing.TB, grants ...contracts.Delegation) []contracts.Envelope {
	t.Helper()
	var chain []contracts.Envelope
	for i, g := range grants {
		if g.Expires == 0 {
			g.Expires = 4e12
		}
		if g.Only == nil {
			g.Only = []string{"echo"}
		}
		if i > 0 && g.Parent == nil {
			parent := chain[0].Digest()
			g.Parent = &parent
		}
		g.Nonce = "n"
		e, err := g.Sign(NamedKey(t, g.Delegator))
		require.NoError(t, err)
		chain = append([]contracts.Envelope{e}, chain...)
	}
	return chain
}

// GovernByName enters a trust event, signed by the key of that name.
func (w *World) GovernByName(e contracts.TrustEvent, by string) {
	w.T.Helper()
	event, err := contracts.TrustRecord{Event: w.Event(e)}.Sign(NamedKey(w.T, by))
	require.NoError(w.T, err)
	require.NoError(w.T, w.Kernel.Govern(context.Background(), event))
}

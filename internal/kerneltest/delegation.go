package kerneltest

import (
	"context"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// end enters a trust event that ends something, signed by the key of that name.
func (w *World) SignAndGovern(e contracts.TrustEvent, by string) {
	w.T.Helper()
	event, err := contracts.TrustRecord{Event: w.Event(e)}.Sign(NamedKey(w.T, by))
	if err == nil {
		err = w.Kernel.Govern(context.Background(), event)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// keyOf is the key of a name.
func NamedKey(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// delegators is a trust state in which ann and bob may do what a clerk may, carl what a guest may, and dora holds a key that approves.
func Delegators(t testing.TB) *registry.Registry {
	t.Helper()
	public := func(name string) crypto.PublicKey { return NamedKey(t, name).Public().(crypto.PublicKey) }
	r, err := registry.New(1, registry.Key{Name: "root", Public: public("root"), Role: registry.Root},
		registry.Key{Name: "ann", Public: public("ann"), Role: registry.Delegator, Roles: []string{"clerk"}},
		registry.Key{Name: "bob", Public: public("bob"), Role: registry.Delegator, Roles: []string{"clerk"}},
		registry.Key{Name: "carl", Public: public("carl"), Role: registry.Delegator, Roles: []string{"guest"}},
		registry.Key{Name: "dora", Public: public("dora"), Role: registry.Approver, Roles: []string{"clerk"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// chainOf signs grants, the root's first, each by its delegator and made from the one before it, and gives them as they are presented. What
// they leave out holds for long, for the tool echo, and as deep as may be.
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
		if err != nil {
			t.Fatal(err)
		}
		chain = append([]contracts.Envelope{e}, chain...)
	}
	return chain
}

// shop is the policy of the tests with grants: clerks may echo, and ann what is dear; echo may be called 30 times by each caller.
const DelegationPolicy = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, required: [text, sum], properties: {text: {type: string}, sum: {type: number}, note: {type: string}}}
  outer:
    effect: write
    input: {type: object}
rules:
  - {id: dear, deny: echo, when: {arg: /sum, gt: 1000}, unless: {caller: id, eq: ann, absent: false}}
  - {id: clerks, allow: [echo, outer], when: {caller: roles, has: clerk}}
budgets:
  - {id: each, tools: [echo], limit: 30, per: caller, window: total, cost: 1}
`

// atNoon is a clock that stands.
var Noon = time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)

func Value(t testing.TB, text string) crypto.Value {
	t.Helper()
	tree := new(crypto.Tree)
	if err := tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}); err != nil {
		t.Fatal(err)
	}
	return tree.Root()
}

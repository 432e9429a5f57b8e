package helm_test

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// keyOf is the key of a name.
func keyOf(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// delegators is a trust state in which ann and bob may do what a clerk may, carl what a guest may, and dora holds a key that approves.
func delegators(t testing.TB) *registry.Registry {
	t.Helper()
	public := func(name string) crypto.PublicKey { return keyOf(t, name).Public().(crypto.PublicKey) }
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
func chainOf(t testing.TB, grants ...contracts.Delegation) []contracts.Envelope {
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
		e, err := g.Sign(keyOf(t, g.Delegator))
		if err != nil {
			t.Fatal(err)
		}
		chain = append([]contracts.Envelope{e}, chain...)
	}
	return chain
}

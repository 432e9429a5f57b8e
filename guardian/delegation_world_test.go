package guardian

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// keyOf is the key of a name.
func keyOf(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return key
}

func publicOf(t testing.TB, name string) crypto.PublicKey {
	return keyOf(t, name).Public().(crypto.PublicKey)
}

// trusted is a state in which ann and bob delegate the rights of a clerk, ann those of an owner
// too, carl those of a guest, the agent, who holds a key himself, none; and dora answers for
// clerks, olga and otto for owners, but they delegate nothing, and the notary attests.
func trusted(t testing.TB) *registry.State {
	t.Helper()
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: publicOf(t, name), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root), key("ann", registry.Delegator, "clerk", "owner"),
		key("bob", registry.Delegator, "clerk"),
		key("carl", registry.Delegator, "guest"), key("agent", registry.Delegator),
		key("dora", registry.Approver, "clerk"),
		key("olga", registry.Approver, "owner"), key("otto", registry.Approver, "cfo", "owner"),
		key("notary", registry.Attestor))
	require.NoError(t, err)
	s, err := r.Initial(publicOf(t, "kernel"), publicOf(t, "log"))
	require.NoError(t, err)
	return s
}

// after is the state after an event of the roots.
func after(t testing.TB, s *registry.State, e contracts.TrustEvent) *registry.State {
	t.Helper()
	e.Origin, e.Version = "example.test/log", s.Version()+1
	signed, err := contracts.TrustRecord{Event: e}.Sign(keyOf(t, "root"))
	require.NoError(t, err)
	record, err := contracts.ParseTrust(signed)
	require.NoError(t, err)
	next, err := s.Apply(record, e.Origin, 7)
	require.NoError(t, err)
	return next
}

// by signs a grant with the key of any name. What it leaves out holds from an hour ago for another
// hour, for pay.
func by(t testing.TB, signer string, g contracts.Delegation) contracts.Envelope {
	t.Helper()
	if g.NotBefore == 0 {
		g.NotBefore = noon.Add(-3600e9)
	}
	if g.Expires == 0 {
		g.Expires = noon.Add(3600e9)
	}
	if g.Only == nil {
		g.Only = []string{"pay"}
	}
	g.Nonce = "n"
	e, err := g.Sign(keyOf(t, signer))
	require.NoError(t, err)
	return e
}

// chained signs grants, the root's first, each by its delegator and made from the one before it;
// they come out as they are presented.
func chained(t testing.TB, grants ...contracts.Delegation) []contracts.Envelope {
	t.Helper()
	var chain []contracts.Envelope
	for i, g := range grants {
		if i > 0 {
			parent := chain[0].Digest()
			g.Parent = &parent
		}
		chain = append([]contracts.Envelope{by(t, g.Delegator, g)}, chain...)
	}
	return chain
}

// of is check in a trust state.
func (w want) of(t testing.TB, p *Policy, in contracts.Inputs, s *registry.State) (contracts.DecisionRecord, Why) {
	t.Helper()
	r, why := p.judged(in, s)
	got := want{r.Reason, r.Condition, r.Rule}
	assert.True(t, got == w && bool(r.Verdict) == (w.reason == contracts.ReasonAllow), "got %v %v, want %v (%s)",
		r.Verdict, got, w, why)
	return r, why
}

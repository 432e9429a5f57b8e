package forge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// StateKeys returns the keys of State, except kernel and log. With a shift they are other keys.
func StateKeys(t testing.TB, shift byte) []registry.Key {
	t.Helper()
	var keys []registry.Key
	for _, k := range []struct {
		seed  byte
		name  string
		role  registry.Role
		roles []string
	}{
		{seedR1, "root 1", registry.Root, nil}, {seedR2, "root 2", registry.Root, nil},
		{seedR3, "root 3", registry.Root, nil},
		{SeedA, "eve", registry.Approver, []string{"lead"}}, {SeedB, "scanner", registry.Attestor, nil},
		{seedF, "on call", registry.Freezer, nil}, {SeedD, "ada", registry.Delegator, []string{"reader"}},
	} {
		keys = append(keys, registry.Key{Name: k.name, Public: Public(t, k.seed+shift), Role: k.role, Roles: k.roles})
	}
	return keys
}

// StateOf returns the initial trust state of a kernel key, a log key and other keys.
func StateOf(t testing.TB, threshold int, kernel, log byte, keys ...registry.Key) *registry.State {
	t.Helper()
	r, err := registry.New(threshold, keys...)
	require.NoError(t, err)
	s, err := r.Initial(Public(t, kernel), Public(t, log))
	require.NoError(t, err)
	return s
}

// State is the initial trust state: K1, L, and people, of whom two of three roots decide.
func State(t testing.TB) *registry.State {
	t.Helper()
	return StateOf(t, 2, SeedK1, SeedL, StateKeys(t, 0)...)
}

// govern enters a trust event, proved by the keys that it adds and signed by these.
func (m *Maker) govern(e contracts.TrustEvent, adds []byte, by ...byte) {
	m.Helper()
	var err error
	e.Origin, e.Version = m.origin, m.state.Version()+1
	for _, seed := range adds {
		e, err = e.Prove(Key(m, seed))
		require.NoError(m, err)
	}
	t := &contracts.TrustRecord{Event: e}
	for _, seed := range by {
		envelope, err := t.Sign(Key(m, seed))
		require.NoError(m, err)
		t, err = contracts.ParseTrust(envelope)
		require.NoError(m, err)
	}
	size, err := m.Store.Size(m.Context())
	require.NoError(m, err)
	m.state, err = m.state.Apply(t, m.origin, size)
	require.NoError(m, err)
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Trust: t})
}

// add adds a key, and revoke ends one, by two of the roots.
func (m *Maker) add(seed byte, name string, role registry.Role, roles ...string) {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, []byte{seed}, seedR1, seedR2)
}

// Revoke ends the key of a seed, by two of the roots.
func (m *Maker) Revoke(seed byte) {
	m.Helper()
	id := crypto.KeyID(Public(m, seed))
	m.govern(contracts.TrustEvent{Type: "revoke", ID: &id, Why: "rotation"}, nil, seedR2, seedR1)
}

func (m *Maker) freeze() {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "freeze", Why: "an incident"}, nil, seedF)
}

func (m *Maker) unfreeze() {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "unfreeze", Why: "over"}, nil, seedR1, seedR2)
}

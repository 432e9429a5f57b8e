package evidence

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// stateKeys are those of testState, but for kernel and log. Seeds may be those of somebody else.
func stateKeys(t testing.TB, shift byte) []registry.Key {
	t.Helper()
	var keys []registry.Key
	for _, k := range []struct {
		seed  byte
		name  string
		role  registry.Role
		roles []string
	}{
		{seedR1, "root 1", registry.Root, nil}, {seedR2, "root 2", registry.Root, nil}, {seedR3, "root 3", registry.Root, nil},
		{seedA, "eve", registry.Approver, []string{"lead"}}, {seedB, "scanner", registry.Attestor, nil},
		{seedF, "on call", registry.Freezer, nil}, {seedD, "ada", registry.Delegator, []string{"reader"}},
	} {
		keys = append(keys, registry.Key{Name: k.name, Public: testPublic(t, k.seed+shift), Role: k.role, Roles: k.roles})
	}
	return keys
}

func stateOf(t testing.TB, threshold int, kernel, log byte, keys ...registry.Key) *registry.State {
	t.Helper()
	r, err := registry.New(threshold, keys...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Initial(testPublic(t, kernel), testPublic(t, log))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testState is the initial trust state: K1, L, and people, of whom two of three roots decide.
func testState(t testing.TB) *registry.State {
	t.Helper()
	return stateOf(t, 2, seedK1, seedL, stateKeys(t, 0)...)
}

// govern enters a trust event, proved by the keys that it adds and signed by these.
func (m *maker) govern(e contracts.TrustEvent, adds []byte, by ...byte) {
	m.Helper()
	var err error
	e.Origin, e.Version = testOrigin, m.state.Version()+1
	for _, seed := range adds {
		e, err = e.Prove(testKey(m, seed))
		m.must(err)
	}
	t := &contracts.TrustRecord{Event: e}
	for _, seed := range by {
		envelope, err := t.Sign(testKey(m, seed))
		m.must(err)
		t, err = contracts.ParseTrust(envelope)
		m.must(err)
	}
	size, err := m.store.Size(m.Context())
	m.must(err)
	m.state, err = m.state.Apply(t, testOrigin, size)
	m.must(err)
	m.put(contracts.SessionKernel, nil, &contracts.Statement{Trust: t})
}

// add adds a key, and revoke ends one, by two of the roots.
func (m *maker) add(seed byte, name string, role registry.Role, roles ...string) {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, []byte{seed}, seedR1, seedR2)
}

func (m *maker) revoke(seed byte) {
	m.Helper()
	id := crypto.KeyID(testPublic(m, seed))
	m.govern(contracts.TrustEvent{Type: "revoke", ID: &id, Why: "rotation"}, nil, seedR2, seedR1)
}

func (m *maker) freeze() {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "freeze", Why: "an incident"}, nil, seedF)
}

func (m *maker) unfreeze() {
	m.Helper()
	m.govern(contracts.TrustEvent{Type: "unfreeze", Why: "over"}, nil, seedR1, seedR2)
}

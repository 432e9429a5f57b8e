package state

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/trust/registry"
)

// add adds a token to those of a directory.
func (f *fixture) add(name string) error {
	return EditTokens(f.path("state"), func(list []auth.Token) ([]auth.Token, error) {
		_, t, err := auth.NewToken(name, contracts.Caller{ID: name}, []auth.Scope{auth.Call}, time.Time{})
		return append(list, t), err
	})
}

// TestEditTokens: edits at once lose none of each other; one that fails changes nothing; and the
// process that holds the directory takes them.
func TestEditTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{})
	assert.False(t, s.Tokens().Any())
	const n = 16
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			assert.NoError(t, f.add(fmt.Sprint("t", i)))
		}()
	}
	all.Wait()
	list, err := ReadTokens(f.path("state"))
	require.NoError(t, err)
	assert.Len(t, list, n)
	before := f.snapshot()
	require.Error(t, f.add("t0"), "twice")
	require.Error(t, f.add("no name"))
	failed := errors.New("failed")
	err = EditTokens(f.path("state"), func([]auth.Token) ([]auth.Token, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	assert.Equal(t, before, f.snapshot())
	info, err := os.Lstat(f.path("state/tokens.json"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, s.Reload(ctx))
	assert.True(t, s.Tokens().Any())
	require.NoError(t, EditTokens(f.path("state"), func([]auth.Token) ([]auth.Token, error) { return nil, nil }))
	require.NoError(t, s.Reload(ctx))
	assert.True(t, s.Tokens().Any(), "nobody becomes anonymous by the end of the last token")
}

// TestEditRefused: a file that is not as it should be is not replaced.
func TestEditRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, text := range []string{"", "[", `{"tokens":[]}`} {
		f.write("state/tokens.json", text)
		require.ErrorContains(t, f.add("t"), "no tokens, or a part of them")
		b, err := os.ReadFile(f.path("state/tokens.json"))
		require.NoError(t, err)
		assert.Equal(t, text, string(b))
	}
	f.write("state/tokens.json", "[]")
	f.linked("state/tokens.json")
	require.ErrorContains(t, f.add("t"), "a link")
	require.NoError(t, os.Chmod(f.path("state"), 0o777))
	require.ErrorContains(t, f.add("t"), "others may look into it")
}

// govern signs an event by the root that init made, and puts it in force.
func (f *fixture) govern(s *State, e contracts.TrustEvent, adds ...crypto.Signer) error {
	f.Helper()
	g, err := ReadTrust(ctx, f.path("state"))
	f.must(err)
	e.Origin, e.Version = g.Origin, g.Trust.Version()+1
	for _, k := range adds {
		e, err = e.Prove(k)
		f.must(err)
	}
	file, err := os.Open(f.path("root.pem"))
	f.must(err)
	defer file.Close()
	root, err := crypto.LoadKey(file)
	f.must(err)
	signed, err := contracts.TrustRecord{Event: e}.Sign(root)
	f.must(err)
	return s.Kernel().Govern(ctx, signed)
}

// TestOtherKey: the directory goes on with another key, which events of the log added; trust.json
// stays that of the beginning, and the key of before is refused once it was revoked.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before, err := ReadTrust(ctx, f.path("state"))
	require.NoError(t, err)
	assert.Zero(t, before.Size)
	old, err := os.ReadFile(f.path("state/key.pem"))
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	text, err := keyText(key)
	require.NoError(t, err)
	s := f.open(Options{})
	for role, k := range map[string]crypto.PrivateKey{"kernel": key, "log": crypto.DeriveLogKey(key)} {
		require.NoError(t, f.govern(s, contracts.TrustEvent{Type: "key", Role: role, Name: role + " 2"}, k))
	}
	after, err := ReadTrust(ctx, f.path("state"))
	require.NoError(t, err)
	assert.Equal(t, before.Origin, after.Origin, "it was known before the first start")
	assert.Equal(t, uint64(3), after.Trust.Version())
	require.NoError(t, s.Close(ctx))
	f.write("state/key.pem", string(text))
	require.Empty(t, Examine(ctx, f.path("helm.yaml")))
	s = f.open(Options{})
	for _, role := range []registry.Role{registry.Kernel, registry.Log} {
		id := crypto.KeyID(before.Trust.Keys(role, 0)[0])
		require.NoError(t, f.govern(s, contracts.TrustEvent{Type: "revoke", ID: &id, Why: "old"}))
	}
	d, _ := s.Kernel().Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`), Driver: driver(pay)})
	require.NoError(t, d.Err())
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, evidence.Logged, f.verify().Level)
	f.write("state/key.pem", string(old))
	_, err = Open(ctx, f.config(), Options{})
	require.Error(t, err)
	assert.Contains(t, fmt.Sprint(Examine(ctx, f.path("helm.yaml"))), "key.pem no key of a kernel")
}

// TestFrozen: doctor says why every call is denied.
func TestFrozen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{})
	require.NoError(t, f.govern(s, contracts.TrustEvent{Type: "freeze", Why: "test"}))
	require.NoError(t, s.Close(ctx))
	found := Examine(ctx, f.path("helm.yaml"))
	require.Len(t, found, 1)
	assert.Contains(t, found[0].What, "frozen")
	assert.NotEmpty(t, found[0].Remedy)
}

// TestExamineConfiguration: what the configuration names is looked at, and no secret is printed.
func TestExamineConfiguration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write("loose.key", "sk-secret")
	require.NoError(t, os.Chmod(f.path("loose.key"), 0o644))
	f.write("helm.yaml", `helm: config/v1
dir: state
policy: [policy.yaml, none.yaml]
listen: {mcp: "0.0.0.0:9191"}
upstreams: {chat: {url: "https://a.example", key_file: loose.key}, messages: {url: "https://a.example", key_env: HELM_TEST_NONE}}
servers: {crm: {url: "https://a.example", key_file: none.key}}
tls: {cert: none.pem, key: loose.key}
`)
	text := ""
	for _, x := range Examine(ctx, f.path("helm.yaml")) {
		text += x.Error() + "\n"
	}
	for _, want := range []string{"loose.key: others may read it", "HELM_TEST_NONE", "none.key", "none.pem",
		f.path("none.yaml") + ": no such file or directory; put the file there, or name another",
		"it listens beyond this machine, and there are no tokens; make one by helm token new"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "sk-secret")
}

// TestExamineSession: a policy that asks what a session had needs sessions that are named, in faces
// that would begin another.
func TestExamineSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const head = "helm: config/v1\ndir: state\npolicy: [policy.yaml]\n"
	for text, faults := range map[string]int{
		"":                                    0,
		"listen: {mcp: \"localhost:70\"}\n":   0,
		"listen: {proxy: \"localhost:70\"}\n": 1,
		"listen: {api: \"localhost:70\"}\nsession_required: true\n": 0,
	} {
		f.write("helm.yaml", head+text)
		assert.Len(t, Examine(ctx, f.path("helm.yaml")), faults, text)
	}
	f.write("helm.yaml", head+"listen: {api: \"localhost:70\"}\n")
	f.write("policy.yaml", policyText)
	assert.Empty(t, Examine(ctx, f.path("helm.yaml")))
}

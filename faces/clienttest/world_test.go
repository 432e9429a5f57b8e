package clienttest

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/proxy"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/trust/registry"
)

// rules permits look, forbids mail to all, and asks an owner about pay.
const rules = `helm: policy/v1
layer: P1
bundle: {name: clients, version: 2}
tools:
  look: {effect: read, input: {type: object, required: [at], properties: {at: {type: integer}}}}
  mail: {effect: write, input: {type: object, required: [to], properties: {to: {type: string}}}}
  pay: {effect: write, input: {type: object, required: [sum], properties: {sum: {type: integer}}}}
rules:
  - {id: never, deny: mail, when: {arg: /to, prefix: all}}
  - {id: most, allow: [look, mail, pay]}
requires:
  - {id: owner, tools: [pay], all: [{approval: {roles: [owner], ttl: 10m}}]}
`

// A world is a proxy before a provider, and its log, in a state directory.
type world struct {
	testing.TB
	*state.State
	provider *provider
	url      string // of the proxy
	owner    crypto.PrivateKey
	pending  map[string]bool // requests that were approved
}

func newWorld(t testing.TB, p *provider, policy string) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{TB: t, provider: p, pending: map[string]bool{}}
	var err error
	w.owner, err = crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(w.owner)
	require.NoError(t, err)
	dir := create(t, policy, state.CreateOptions{Keys: []registry.Key{
		{Name: "olga", Public: public, Role: registry.Approver, Roles: []string{"owner"}}}})
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	w.State, err = state.Open(ctx, conf, state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.State.Close(ctx) })
	var end func()
	w.url, end = serve(t, w.State, conf, p.url, auth.Options{})
	t.Cleanup(end)
	return w
}

// create makes a directory with a policy.
func create(t testing.TB, policy string, o state.CreateOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, state.Create(dir, o))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600))
	return dir
}

// serve serves a proxy before a provider until end is called.
func serve(t testing.TB, s *state.State, conf *state.Config, provider string, o auth.Options) (url string, end func()) {
	t.Helper()
	a, err := auth.New(o)
	require.NoError(t, err)
	up := proxy.Upstream{URL: provider + "/v1"}
	face, err := proxy.New(proxy.Options{Kernel: s.Kernel(), Desk: s.Desk(), Auth: a, Approvals: s.Approvals(),
		Chat: up, Responses: up, Messages: up, Index: filepath.Join(conf.Dir, "calls.idx")})
	require.NoError(t, err)
	front := httptest.NewServer(a.Handler(face))
	return front.URL, func() {
		front.Close()
		require.NoError(t, face.Close())
	}
}

// approves has the owner approve what waits.
func (w *world) approves() {
	w.Helper()
	ctx := context.Background()
	list, err := w.Approvals().Pending(ctx)
	require.NoError(w, err)
	n := 0
	for _, p := range list {
		nonce := p.Request.Nonce
		if w.pending[nonce] {
			continue
		}
		e, err := p.Request.Approve(w.owner)
		require.NoError(w, err)
		require.NoError(w, w.Approvals().Answer(ctx, nonce, e))
		w.pending[nonce] = true
		n++
	}
	require.Equal(w, 1, n, "requests that wait")
}

// outcomes returns what the log says of calls from an entry on, as "TOOL OUTCOME" or "TOOL open",
// each with its number, and the number of entries.
func (w *world) outcomes(from uint64) (map[string]int, uint64) {
	w.Helper()
	ctx := context.Background()
	size, err := w.Store().Size(ctx)
	require.NoError(w, err)
	tools, list := map[contracts.Digest]string{}, map[string]int{}
	var r contracts.Reader
	index := uint64(0)
	for e, err := range w.Store().Entries(ctx, 0, size) {
		require.NoError(w, err)
		sealed, err := r.Open(e)
		require.NoError(w, err)
		st, err := sealed.Statement()
		require.NoError(w, err)
		if index++; index <= from {
			continue
		}
		switch {
		case st.Receipt != nil && st.Receipt.Decision != nil:
			what := st.Receipt.Decision.Tool + " " + string(st.Receipt.Outcome)
			if st.Receipt.Decision.Reason == contracts.ReasonFailClosedError {
				what += " closed" // and not by a rule
			}
			list[what]++
		case st.Receipt != nil:
			tool := tools[st.Receipt.DecisionHash]
			delete(tools, st.Receipt.DecisionHash)
			list[tool+" "+string(st.Receipt.Outcome)]++
		case st.Decision != nil:
			tools[e.Hash()] = st.Decision.Tool
		}
	}
	for _, tool := range tools {
		list[tool+" open"]++
	}
	return list, size
}

// verify makes a pack of the log and verifies it.
func (w *world) verify() evidence.Report {
	w.Helper()
	ctx := context.Background()
	_, err := w.Kernel().Checkpoint(ctx)
	require.NoError(w, err)
	var pack bytes.Buffer
	require.NoError(w, evidence.Write(ctx, &pack, w.Store(), w.Key()))
	o := evidence.Options{Trust: w.Kernel().Trust()}
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
	require.NoError(w, err)
	require.True(w, r.Success(evidence.Logged), "%v", r)
	return r
}

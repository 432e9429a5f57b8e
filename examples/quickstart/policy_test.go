package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/examples/internal/notes"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/policytest"
	"github.com/helmkernel/helm/proofgraph"
)

// The cases cover the whole policy, and notice each change of it.
func TestPolicy(t *testing.T) {
	helmtest.Policy(t, "*_cases.yaml", policytest.Options{Min: 100, Mutate: true})
}

// The transcript of the quickstart has the verdicts of its log, call by call.
func TestTranscript(t *testing.T) {
	doc, err := policy.Parse("policy.yaml", policyText)
	require.NoError(t, err)
	stack, err := guardian.Compile(doc)
	require.NoError(t, err)
	start := func(drivers map[string]executor.Driver) (*helm.Kernel, proofgraph.Store) {
		key, err := crypto.GenerateKey()
		require.NoError(t, err)
		store := proofgraph.NewMemory()
		k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: store, Origin: origin, Drivers: drivers})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, k.Close()) })
		return k, store
	}
	tools, err := notes.New()
	require.NoError(t, err)
	defer tools.Remove()
	k, live := start(tools.Drivers())
	require.NoError(t, converse(t.Context(), &bytes.Buffer{}, k))

	turns, err := policytest.Transcript(bytes.NewReader(conversationText))
	require.NoError(t, err)
	k, replayed := start(nil)
	v, err := policytest.Replay{
		Guard: k.Guard, Policy: stack, Caller: helm.Caller{ID: "ada", Roles: []string{"editor"}}, Session: "chat-1",
	}.Run(t.Context(), turns)
	require.NoError(t, err)

	was, is := judged(t, live), judged(t, replayed)
	require.Len(t, was, len(want))
	assert.Equal(t, was, is)
	for i, reason := range want {
		if reason != contracts.ReasonToolError { // of which the messages of chat do not say that it is one
			assert.Equal(t, reason, v.Calls[i].Reason, "call %d", i+1)
		}
	}
	assert.Zero(t, v.First, "what was recorded is released again")
}

// judged returns what the decisions of a log say, in its order.
func judged(t *testing.T, store proofgraph.Store) (list []string) {
	t.Helper()
	size, err := store.Size(t.Context())
	require.NoError(t, err)
	var r contracts.Reader
	for e, err := range store.Entries(t.Context(), 0, size) {
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if d := st.Judgement(); d != nil {
			b, err := json.Marshal([]any{d.Tool, d.Verdict, d.Reason, d.Rule, d.Condition})
			require.NoError(t, err)
			list = append(list, string(b))
		}
	}
	return list
}

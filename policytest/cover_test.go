package policytest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/policy"
)

// TestCoverIsThatOfRun: the log of one case counts as the run of that case does.
func TestCoverIsThatOfRun(t *testing.T) {
	t.Parallel()
	s := bankSuite(t)
	ctx, compared := context.Background(), 0
	for i, c := range s.cases {
		w, err := s.newWorld(s.policy, c)
		require.NoError(t, err)
		for k := range c.steps {
			_, _ = w.do(ctx, &c.steps[k])
		}
		if len(w.over) > 0 {
			_, err := Cover(ctx, w.store, w.kernel.Trust(), s.policy)
			assert.ErrorContains(t, err, "a policy that is not known", "%s: a call that an overlay judged", c.name)
			continue
		}
		var m marks
		require.NoError(t, w.explain(ctx, &m, false))
		counts := newCounter(s)
		counts.add(i, m)
		want := map[place]Unit{}
		for _, u := range counts.units {
			u.Cases, u.Ignored = nil, ""
			want[place{u.Document, u.Pointer}] = u
		}
		got, err := Cover(ctx, w.store, w.kernel.Trust(), s.policy)
		require.NoError(t, err, c.name)
		require.NotEmpty(t, got.Units)
		for _, u := range got.Units {
			assert.Equal(t, want[place{u.Document, u.Pointer}], u, c.name)
		}
		compared++
	}
	assert.Greater(t, compared, 5)
}

// TestCoverNeedsInputs: what was erased cannot be counted, and is not left out.
func TestCoverNeedsInputs(t *testing.T) {
	t.Parallel()
	s := bankSuite(t)
	ctx := context.Background()
	w, err := s.newWorld(s.policy, s.cases[0])
	require.NoError(t, err)
	var at contracts.Digest
	for k := range s.cases[0].steps {
		if c, _ := w.do(ctx, &s.cases[0].steps[k]); c != nil {
			at = c.decision.Record.InputsHash
		}
	}
	require.NotZero(t, at)
	require.NoError(t, w.store.EraseBlob(ctx, at))
	_, err = Cover(ctx, w.store, w.kernel.Trust(), s.policy)
	assert.Error(t, err)
	other, err := policy.Load("testdata/bank.yaml")
	require.NoError(t, err)
	_, err = Cover(ctx, w.store, nil, other)
	assert.Error(t, err, "the wrong trust state")
}

package rotate

import (
	"bytes"
	"context"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/state"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/require"
)

// A state counts only if the kernel key that signed it counts in the trust state that it has: one
// that was revoked before does not, nor one that was added after it. With either, New reads the
// whole log, and does what it says of the key.
func TestStatesByOtherKeys(t *testing.T) {
	kerneltest.OneWriter(t, "no state is kept of a log that others write to")
	t.Parallel()
	w := kerneltest.NewGoverned(t)
	store := w.Store.Store.(proofgraph.Rememberer)
	saved := func() []byte {
		t.Helper()
		w.Close()
		b, err := store.State(context.Background())
		require.NoError(t, err)
		require.NotNil(t, b)
		return b
	}
	reseal := func(b []byte, was, by byte) {
		t.Helper()
		h, body, err := state.Open(b, kerneltest.Public(t, was))
		require.NoError(t, err)
		b, err = state.Seal(h, bytes.Clone(body), kerneltest.SeedKey(t, by))
		require.NoError(t, err)
		require.NoError(t, store.SaveState(context.Background(), b))
		w.Options.Key = kerneltest.SeedKey(t, by)
		w.Events = nil
	}
	refused := func() (list []string) {
		for _, e := range w.Events {
			if e.Why == "state" {
				list = append(list, e.Err.Error())
			}
		}
		return list
	}
	other := "helm: state: signed by a key that is no kernel key of the log's trust state there"
	w.Options.LogKey = crypto.DeriveLogKey(kerneltest.SeedKey(t, 1))
	w.Echo(w.Kernel, 1)
	before := saved()
	w.Open()
	w.GovernByRoots(w.Adding(kerneltest.Kernel2, "second", registry.Kernel))
	added := saved()

	reseal(added, 1, kerneltest.Kernel2)
	w.Open()
	require.Empty(t, refused(), "or the refusals below would prove nothing")
	w.Close()
	reseal(before, 1, kerneltest.Kernel2)
	w.Open()
	require.Equal(t, []string{other}, refused(), "added after it")
	d, _ := w.Echo(w.Kernel, 2)
	require.Equal(t, contracts.ReasonAllow, d.Reason)

	w.GovernByRoots(w.Revoking(1))
	reseal(saved(), kerneltest.Kernel2, 1)
	_, err := helm.New(w.Options)
	require.ErrorContains(t, err, "revoked")
	require.Equal(t, []string{other}, refused(), "revoked before it")
}

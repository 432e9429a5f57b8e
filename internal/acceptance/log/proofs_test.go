package log

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

func hashes(list []contracts.Digest) []tlog.Hash {
	hashes := make([]tlog.Hash, len(list))
	for i, d := range list {
		hashes[i] = tlog.Hash(d)
	}
	return hashes
}

// A kernel proves its log: by what its checkpoints say, and after it was sealed or closed too.
func TestKernelProves(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{"text":"x"}`)
	first, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	w.Call("echo", `{"text":"y"}`)
	last, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Less(t, first.Size, last.Size)
	prove := func(what string) {
		t.Helper()
		list, err := w.Kernel.Consistency(t.Context(), first.Size, last.Size)
		require.NoError(t, err, what)
		require.NoError(t, tlog.CheckTree(hashes(list), int64(last.Size), tlog.Hash(last.Root), int64(first.Size),
			tlog.Hash(first.Root)), what)
		n := uint64(0)
		for e, err := range w.Store.Entries(t.Context(), 0, first.Size) {
			require.NoError(t, err)
			list, err := w.Kernel.Inclusion(t.Context(), n, first.Size)
			require.NoError(t, err, what)
			require.NoError(t, tlog.CheckRecord(hashes(list), int64(first.Size), tlog.Hash(first.Root), int64(n),
				tlog.Hash(e.Hash())), what)
			n++
		}
	}
	prove("open")
	_, err = w.Kernel.Inclusion(t.Context(), 0, w.Size()+1)
	assert.ErrorContains(t, err, "helm: inclusion: size ")
	_, err = w.Kernel.Consistency(t.Context(), 2, 1)
	assert.ErrorContains(t, err, "helm: consistency: from 2: above 1")
	w.Close()
	require.Error(t, w.Kernel.Err())
	prove("closed")

	for _, none := range []*helm.Kernel{nil, {}} {
		_, err = none.Inclusion(t.Context(), 0, 1)
		assert.Error(t, err)
		_, err = none.Consistency(t.Context(), 1, 1)
		assert.Error(t, err)
	}
}

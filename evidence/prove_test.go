package evidence

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// TestProve: with the checkpoint alone it is verified by tlog that an entry is in the log, and
// that the log extends an earlier checkpoint.
func TestProve(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	note, err := m.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	last, _, err := proofgraph.ParseCheckpoint(note)
	require.NoError(t, err)
	var never context.Context
	var first proofgraph.Tree
	n := uint64(0)
	for e, err := range m.Store.Entries(t.Context(), 0, last.Size) {
		require.NoError(t, err)
		list, err := Inclusion(never, m.Store, n, last.Size)
		require.NoError(t, err)
		require.NoError(t, tlog.CheckRecord(hashes(list), int64(last.Size), tlog.Hash(last.Root), int64(n),
			tlog.Hash(e.Hash())))
		first.Append(e.Hash())
		n++
		list, err = Consistency(never, m.Store, n, last.Size)
		require.NoError(t, err)
		require.NoError(t, tlog.CheckTree(hashes(list), int64(last.Size), tlog.Hash(last.Root), int64(n),
			tlog.Hash(first.Root())))
	}
	require.Equal(t, last.Size, n)
	_, err = Inclusion(never, m.Store, 7, last.Size+1)
	assert.ErrorContains(t, err, "evidence: inclusion: size ")
	_, err = Consistency(never, m.Store, 0, last.Size)
	assert.ErrorContains(t, err, "evidence: consistency: from 0: ")
}

func hashes(list []contracts.Digest) []tlog.Hash {
	hashes := make([]tlog.Hash, len(list))
	for i, d := range list {
		hashes[i] = tlog.Hash(d)
	}
	return hashes
}

package erasure_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
)

// TestErasureLeavesModules: a module is code, which no caller brought. Calls that were not erased
// are run again with it, also if the call was erased whose receipt brought it.
func TestErasureLeavesModules(t *testing.T) {
	t.Parallel()
	log := forge.SandboxLog(t)
	o := evidence.Options{Trust: log.Trust, Rerun: forge.Machine}
	name := crypto.Sum(forge.Module)
	for _, x := range []struct {
		which erasure.Selection
		same  int
	}{
		// the first that names it, and then all
		{erasure.Selection{Entries: []uint64{uint64(log.At["seeded"])}}, len(forge.Ran) - 1},
		{erasure.Selection{Callers: []contracts.Caller{{ID: forge.Reader.ID}}}, 0},
	} {
		e, err := erasure.Erase(t.Context(), log.Store, x.which)
		require.NoError(t, err)
		assert.NotContains(t, e.Erased, name)
		module, err := log.Store.Blob(t.Context(), name)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(forge.Module, module))
		r, err := evidence.VerifyStore(t.Context(), log.Store, o)
		require.NoError(t, err)
		assert.EqualValues(t, x.same, r.Rerun.Same)
		assert.NotContains(t, r.Erased, name)
		var pack bytes.Buffer
		require.NoError(t, evidence.Write(t.Context(), &pack, log.Store, forge.Key(t, forge.SeedK1)))
		packed, err := evidence.Verify(t.Context(), bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
		require.NoError(t, err)
		assert.Equal(t, r.Rerun, packed.Rerun)
	}
}

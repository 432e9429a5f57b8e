package approval

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asking is the policy of a world with a requirement of echo, in version 2.
func asking(t testing.TB, approval string) *guardian.Policy {
	return kerneltest.Compile(t, kerneltest.Edit(t, kerneltest.Policy, "version: 1", "version: 2",
		"rules:\n",
		"requires: [{id: asked, tools: echo, any: [{attestation: {type: x, max_age: 1h}}, {approval: "+approval+
			"}]}]\nrules:\n"))
}

// An approval that nobody can ever give is refused by New, Narrow and Swap, with its place and the
// remedy, and nothing is written: a call that needs it would be asked for in vain.
func TestApprovalNobodyCanGive(t *testing.T) {
	t.Parallel()
	owner := func(name string, seed byte) registry.Key {
		return registry.Key{Name: name, Public: kerneltest.Public(t, seed), Role: registry.Approver,
			Roles: []string{"owner"}}
	}
	trust := func(threshold int, keys ...registry.Key) *registry.Registry {
		r, err := registry.New(threshold, keys...)
		require.NoError(t, err)
		return r
	}
	root := registry.Key{Name: "root", Public: kerneltest.Public(t, kerneltest.BankRoot), Role: registry.Root}
	delegator := registry.Key{Name: "del", Public: kerneltest.Public(t, kerneltest.Eve), Role: registry.Delegator,
		Roles: []string{"owner"}}
	ann, second, bob := owner("ann", kerneltest.Ann), owner("ann", kerneltest.Cid), owner("bob", kerneltest.Bob)
	for name, c := range map[string]struct {
		trust    *registry.Registry
		approval string
		says     string // "": it is taken
	}{
		"no trust state": {nil, "{roles: [owner]}", "it takes 1 of the roles owner, the trust state has 0"},
		"no approvers":   {trust(0, delegator), "{roles: [owner]}", "has 0, and no roots"},
		"another role": {trust(0, ann), "{roles: [auditor, boss]}",
			"it takes 1 of the roles auditor, boss"},
		"too few": {trust(0, ann), "{roles: [owner], quorum: 2}",
			"it takes 2 of the roles owner, the trust state has 1"},
		"two keys of one":          {trust(0, ann, second), "{roles: [owner], quorum: 2}", "the trust state has 1"},
		"one is enough":            {trust(0, ann), "{roles: [boss, owner]}", ""},
		"two are enough":           {trust(0, ann, bob), "{roles: [owner], quorum: 2}", ""},
		"roots, who may add a key": {trust(1, root), "{roles: [owner], quorum: 2}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := func(err error) {
				t.Helper()
				if c.says == "" {
					require.NoError(t, err)
					return
				}
				var e *guardian.LoadError
				require.ErrorAs(t, err, &e)
				assert.True(t, strings.HasSuffix(e.Pointer, "/requires/0/any/1/approval") && e.Pos.Line > 0, "%+v", e)
				assert.Contains(t, e.What, "nobody can ever give the approval")
				assert.Contains(t, e.What, c.says)
				assert.Contains(t, e.Remedy, "roots, to the initial trust state")
			}
			files, err := filestore.Open(filepath.Join(t.TempDir(), "log"), filestore.Options{})
			require.NoError(t, err)
			defer files.Close()
			for _, store := range []proofgraph.Store{proofgraph.NewMemory(), files} {
				k, err := helm.New(helm.Options{Policy: asking(t, c.approval), Key: kerneltest.SeedKey(t, 1),
					Store: store,
					Trust: c.trust})
				refused(err)
				if c.says == "" {
					require.NoError(t, k.Close())
					continue
				}
				size, err := store.Size(t.Context())
				require.NoError(t, err)
				assert.Zero(t, size, "entries")
			}
			w := kerneltest.New(t, func(o *helm.Options) { o.Trust = c.trust })
			before := w.Size()
			refused(w.Kernel.Swap(t.Context(), asking(t, c.approval)))
			overlay := kerneltest.Document(t,
				"helm: policy/v1\nlayer: P2\nname: task\nrequires:\n  - {id: asked, tools: echo, "+
					"any: [{attestation: {type: x, max_age: 1h}}, {approval: "+c.approval+"}]}\n")
			_, err = w.Kernel.Narrow(overlay)
			refused(err)
			assert.Equal(t, c.says != "", w.Size() == before, "%d entries, %d before", w.Size(), before)
			d, _ := w.Kernel.Guard(t.Context(), helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
			assert.Equal(t, c.says != "", d.Reason == contracts.ReasonAllow, "%s", d.Why)
		})
	}
}

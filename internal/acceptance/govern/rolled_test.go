package govern

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An attacker with a copy of the log from before a key was revoked, and with that key, continues
// it: the kernel cannot know, and no pack of that log shows it. A checkpoint that an auditor kept
// does. Over the log with the revocation the key is refused.
func TestRolledBackPastARevocation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	real, copied := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "log")
	open := func(dir string) *filestore.Store {
		t.Helper()
		s, err := filestore.Open(dir, filestore.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open(real)
	w := kerneltest.NewGoverned(t,
		func(o *helm.Options) { o.Store, o.Key, o.LogKey = s, kerneltest.SeedKey(t, 1), nil })
	w.Store.Store = s // where the world looks
	checkpoint := func() []byte {
		t.Helper()
		c, err := w.Kernel.Checkpoint(ctx)
		require.NoError(t, err)
		return c.Note
	}
	w.MustAllow(w.Kernel, 1)
	before := checkpoint()
	require.NoError(t, s.Copy(ctx, copied))
	w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
	w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
	w.Close()
	w.Options.Store = w.Store
	w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
	w.Open()
	w.GovernByRoots(w.Revoking(1))
	w.MustAllow(w.Kernel, 2)
	after := checkpoint()
	w.MustVerify()
	w.Close()
	w.UseKeys(1, kerneltest.Log2)
	w.MustRefuseNew("the revoked key", "revoked it")

	w.Store.Store = open(copied)
	w.UseKeys(1, 0)
	w.Open()
	report := func(last []byte) evidence.Report {
		t.Helper()
		checkpoint()
		var pack bytes.Buffer
		require.NoError(t, evidence.Write(ctx, &pack, w.Store.Store, w.Key.PrivateKey))
		r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
			evidence.Options{Trust: w.Kernel.Trust(), Origin: kerneltest.Origin, Last: last})
		require.NoError(t, err)
		require.Equal(t, evidence.Logged, r.Level)
		require.Equal(t, evidence.Trusted, r.Signer)
		return r
	}
	look := func(when string, kept evidence.History) {
		t.Helper()
		for name, x := range map[string]struct {
			last []byte
			want evidence.History
		}{"nothing": {nil, evidence.None}, "a checkpoint of before": {before, evidence.Fresh},
			"one of after": {after, kept}} {
			r := report(x.last)
			assert.Equal(t, x.want, r.History, "%s, %s was kept", when, name)
			assert.Equal(t, x.want != kept, r.Success(evidence.Logged), "%s, %s was kept", when, name)
		}
	}
	look("as it was", evidence.Stale)
	for range 5 {
		w.MustAllow(w.Kernel, 3)
	}
	look("it went on", evidence.Diverged)
}

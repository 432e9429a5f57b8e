package log

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// flip flips one bit in the only place of a log's first segment that has these bytes.
func flip(t *testing.T, dir string, blob []byte) {
	t.Helper()
	name := filepath.Join(dir, "00000001.log")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(b, blob))
	b[bytes.Index(b, blob)+len(blob)/2] ^= 4
	require.NoError(t, os.WriteFile(name, b, 0o600))
}

// A flipped bit in a blob without which no pack can be written is found by Check and by Copy, and
// New stores again what it has.
func TestRequiredBlobsAreStoredAgain(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(w *kerneltest.World) []byte{
		"a policy document": func(w *kerneltest.World) []byte { return w.Options.Policy.Document(0).Canonical },
		"the trust state":   func(w *kerneltest.World) []byte { return w.Kernel.Trust().Canonical() },
	} {
		dir := filepath.Join(t.TempDir(), "log")
		open := func() *filestore.Store {
			s, err := filestore.Open(dir, filestore.Options{})
			require.NoError(t, err, name)
			t.Cleanup(func() { s.Close() })
			return s
		}
		s := open()
		w := kerneltest.New(t, func(o *helm.Options) { o.Store = s })
		w.Call("echo", `{}`)
		require.NoError(t, s.Check(t.Context()), "or the refusals below would prove nothing")
		w.Close()
		require.NoError(t, s.Close())
		blob := of(w)
		flip(t, dir, blob)

		s = open()
		digest := crypto.Sum(blob).String()
		assert.ErrorContains(t, s.Check(t.Context()), "the bytes of blob "+digest+" are damaged", name)
		assert.ErrorContains(t, s.Copy(t.Context(), dir+"-copy-1"), "the bytes of blob "+digest+" are damaged", name)
		r, err := filestore.OpenReadOnly(dir)
		require.NoError(t, err)
		assert.Error(t, r.Check(t.Context()), "%s: read only", name)
		require.NoError(t, r.Close())
		o := w.Options
		o.Store = s
		k, err := helm.New(o)
		require.NoError(t, err, name)
		_, err = k.Checkpoint(t.Context())
		require.NoError(t, err)
		require.NoError(t, k.Close())
		require.NoError(t, s.Close())

		s = open()
		var pack bytes.Buffer
		require.NoError(t, evidence.Write(t.Context(), &pack, s, w.Key.PrivateKey), name)
		_, err = evidence.Verify(t.Context(), bytes.NewReader(pack.Bytes()), int64(pack.Len()),
			evidence.Options{Trust: k.Trust(), Origin: kerneltest.Origin})
		assert.NoError(t, err, name)
		assert.NoError(t, s.Check(t.Context()), name)
		require.NoError(t, s.Copy(t.Context(), dir+"-copy-2"), name)
		c, err := filestore.Open(dir+"-copy-2", filestore.Options{})
		require.NoError(t, err, name)
		got, err := c.Blob(t.Context(), crypto.Sum(blob))
		assert.True(t, err == nil && bytes.Equal(got, blob), "%s: in the copy: %v", name, err)
		require.NoError(t, c.Close())
	}
}

// A document of an earlier policy that New does not have is an error with its digest, in memory
// too; one that it has is there again.
func TestRequiredBlobIsLost(t *testing.T) {
	kerneltest.OneWriter(t, "its store is another")
	t.Parallel()
	w := kerneltest.New(t)
	first := w.Options.Policy.Document(0).Canonical
	w.Options.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "version: 1", "version: 2", 1))
	w.Reopen()
	second := w.Options.Policy.Document(0).Canonical
	m := w.Store.Store.(*proofgraph.Memory)
	require.NoError(t, m.EraseBlob(t.Context(), crypto.Sum(second)))
	w.Reopen()
	got, err := m.Blob(t.Context(), crypto.Sum(second))
	assert.True(t, err == nil && bytes.Equal(got, second), "%v", err)
	w.Close()
	require.NoError(t, m.EraseBlob(t.Context(), crypto.Sum(first)))
	_, err = helm.New(w.Options)
	require.ErrorContains(t, err, "the document "+crypto.Sum(first).String()+" of an earlier policy")
	require.ErrorIs(t, err, proofgraph.ErrNoBlob)
	size := w.Size()
	require.NoError(t, m.Append(t.Context(), proofgraph.Batch{At: size, Blobs: [][]byte{first}}))
	w.Open()
	w.MustVerify()

	o := w.Options
	w.Close()
	o.Store = kerneltest.LyingStore{Store: m}
	_, err = helm.New(o)
	assert.ErrorContains(t, err, "the store has other bytes")
	o.Store = kerneltest.PanicBlob(m)
	_, err = helm.New(o)
	assert.ErrorContains(t, err, "Options.Store panicked")
}

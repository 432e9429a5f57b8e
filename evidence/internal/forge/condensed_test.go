package forge

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// TestStubsAgree: the forger's stubs are those of package contracts, and its sets those that a
// verifier computes.
func TestStubsAgree(t *testing.T) {
	t.Parallel()
	stubs := 0
	for seed := range uint64(4) {
		m := RandomLog(t, 300+seed, 100).Model()
		m.Build()
		var r contracts.Reader
		for _, n := range m.sets() {
			sealed, err := r.Open(n.Line)
			require.NoError(t, err)
			st, err := sealed.Statement()
			require.NoError(t, err)
			names := n.decision
			if names == nil {
				names = m.policyOf(n)
			}
			want := m.stubOf(n)
			got := contracts.NewStub(st, contracts.Entry(n.Line).Hash(), uint64(m.index(names)))
			require.Equal(t, string(want), string(got.Append(nil)))
			back, err := r.Stub(want)
			require.NoError(t, err)
			require.Equal(t, want, back.Append(nil))
			leaf, err := r.Leaf(want)
			require.True(t, err == nil && leaf == contracts.Entry(n.Line).Hash() && contracts.IsStub(want))
			stubs++
		}
	}
	assert.GreaterOrEqual(t, stubs, 40)
}

// condensers are stores that let go of entries.
func condensers(t *testing.T) map[string]proofgraph.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	files, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { files.Close() })
	return map[string]proofgraph.Store{"memory": proofgraph.NewMemory(), "files": files}
}

// TestCondensedPack: the pack of a store that let go of entries is, byte for byte, what the forger
// makes of the whole log; and a store, a pack and an opened pack report the same.
func TestCondensedPack(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(3) {
		made := RandomLog(t, 400+seed, 100)
		m := made.Model()
		whole := m.Build()
		for i, n := range m.sets() {
			n.gone = seed == 0 || i%2 == 0
		}
		m.forget()
		want := m.Build()
		o := evidence.Options{Trust: made.Trust, Origin: Origin}
		of, err := verifyBytes(t, want, o)
		require.NoError(t, err)
		for name, s := range condensers(t) {
			Shelve(t, whole).Fill(t, s)
			var b bytes.Buffer
			require.NoError(t, evidence.Write(t.Context(), &b, s, Key(t, made.By)))
			require.True(t, bytes.Equal(b.Bytes(), whole), "%s: the pack of the whole store is another", name)
			m.dropIn(s)
			b.Reset()
			require.NoError(t, evidence.Write(t.Context(), &b, s, Key(t, made.By)))
			require.True(t, bytes.Equal(b.Bytes(), want), "%s: the pack of the condensed store is another", name)
			got, err := evidence.VerifyStore(t.Context(), s, o)
			require.NoError(t, err)
			assert.Equal(t, of, got, name)
		}
		p := openBytes(t, want, o)
		list, err := gathered(t.Context(), p, 0, uint64(len(m.Nodes)))
		require.NoError(t, err)
		for i, n := range m.Nodes {
			assert.Equal(t, string(n.standing()), string(list[i]), "entry %d of the opened pack", i)
		}
	}
}

// TestCondensedTooLate: a log is not packed at a size at which its stubs would be of no set.
func TestCondensedTooLate(t *testing.T) {
	t.Parallel()
	w := newCondensed(t)
	m := w.apart(t)
	s := Shelve(t, w.pack)
	c := m.index(m.The("c"))
	for _, size := range []int{21, c, c + 1} {
		s.Note = LastOf(m, size, rootOf(m, size), Origin)
		var b bytes.Buffer
		err := evidence.Write(t.Context(), &b, s, Key(t, seedK2))
		if size > c {
			require.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, evidence.ErrCondensed, "size %d", size)
		assert.Empty(t, b.Bytes())
		_, err = evidence.VerifyStore(t.Context(), s, evidence.Options{Trust: w.o.Trust})
		assert.ErrorIs(t, err, errGap, "size %d", size)
	}
	for _, n := range m.The("c").members { // whole, it is packed at any size
		m.whole(n)
	}
	s = Shelve(t, m.Build())
	s.Note = LastOf(m, 21, rootOf(m, 21), Origin)
	require.NoError(t, evidence.Write(t.Context(), new(bytes.Buffer), s, Key(t, SeedK1)))
}

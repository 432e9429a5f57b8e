package evidence

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// TestProofs: of logs of every size up to 40, each entry has one proof that holds, and no other
// entry's proof, size or index holds for it.
func TestProofs(t *testing.T) {
	t.Parallel()
	m := forge.LongLog(t, 40)
	var leaves []contracts.Digest
	for e, err := range m.Store.Entries(t.Context(), 0, 40) {
		require.NoError(t, err)
		leaves = append(leaves, e.Hash())
	}
	var tree proofgraph.Tree
	tried := 0
	for n := range leaves {
		tree.Append(leaves[n])
		size, root := tree.Size(), tree.Root()
		var paths []proof
		for i := range size {
			hashes, err := Inclusion(t.Context(), m.Store, i, size)
			require.NoError(t, err)
			p := proof{index: int64(i)}
			for _, h := range hashes {
				p.path = append(p.path, tlog.Hash(h))
			}
			require.NoError(t, p.check(leaves[i], size, root), "entry %d of %d", i, size)
			assert.Error(t, p.check(leaves[i], i, root), "a tree that ends before it")
			paths = append(paths, p)
		}
		for i, p := range paths {
			for j := range paths {
				other := p
				other.index = int64(j)
				if i != j {
					assert.Error(t, p.check(leaves[j], size, root), "the proof of %d for %d, of %d", i, j, size)
					assert.Error(t, other.check(leaves[i], size, root), "%d of %d as %d", i, size, j)
					tried++
				}
			}
		}
	}
	assert.Greater(t, tried, 10_000)
	for _, index := range []uint64{40, 41, 1 << 53, 1<<64 - 1} {
		_, err := Inclusion(t.Context(), m.Store, index, 40)
		assert.Error(t, err, "entry %d of 40", index)
	}
}

// TestProofIsBounded: no tree of so many entries as there may be needs more hashes.
func TestProofIsBounded(t *testing.T) {
	t.Parallel()
	for n, bad := range map[int]bool{maxPath: false, maxPath + 1: true, 20_000: true} {
		p := proof{path: make(tlog.RecordProof, n)}
		got := parseProof(p.append(nil))
		assert.True(t, (got.bad != nil) == bad && len(got.path) <= maxPath, "%d hashes: %v", n, got.bad)
	}
}

// FuzzProof: what parses is written in the same bytes, and has the index that it says.
func FuzzProof(f *testing.F) {
	hash := crypto.AppendBase64(nil, bytes.Repeat([]byte{0xff}, 32))
	for _, text := range []string{
		"c2sp.org/tlog-proof@v1\nindex 0\n\nexample.test/log\n",
		"c2sp.org/tlog-proof@v1\nindex 9007199254740991\n" + string(hash) + "\n" + string(hash) + "\n\n",
		"c2sp.org/tlog-proof@v1\nextra AAAA\nindex 0\n\n",
		"c2sp.org/tlog-proof@v1\nindex 00\n\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := parseProof(b)
		if p.bad != nil {
			return
		}
		if got := p.append(nil); !bytes.Equal(got, b) || p.index < 0 || len(p.path) > maxPath {
			t.Errorf("%q was written as %q, index %d", b, got, p.index)
		}
	})
}

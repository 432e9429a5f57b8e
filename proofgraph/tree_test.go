package proofgraph

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// reference is the log of golang.org/x/mod/sumdb/tlog.
type reference struct{ hashes []tlog.Hash }

func (r *reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var list []tlog.Hash
	for _, i := range indexes {
		list = append(list, r.hashes[i])
	}
	return list, nil
}

func (r *reference) add(t testing.TB, n uint64, record []byte) {
	t.Helper()
	hashes, err := tlog.StoredHashes(int64(n), record, r)
	require.NoError(t, err)
	r.hashes = append(r.hashes, hashes...)
}

func (r *reference) root(t testing.TB, n uint64) contracts.Digest {
	t.Helper()
	h, err := tlog.TreeHash(int64(n), r)
	require.NoError(t, err)
	return contracts.Digest(h)
}

func TestTreeIsThatOfTlog(t *testing.T) {
	t.Parallel()
	var tree Tree
	var ref reference
	random := rand.New(rand.NewPCG(1, 2))
	for n := uint64(0); n <= 5000; n++ {
		if n <= 130 || random.IntN(50) == 0 || n == 4096 {
			want := crypto.Sum(nil) // RFC 6962: the hash of an empty string
			if n > 0 {
				want = ref.root(t, n)
			}
			require.True(t, tree.Size() == n && tree.Root() == want, "size %d: %d, root %v, tlog says %v", n,
				tree.Size(), tree.Root(), want)
		}
		record := make([]byte, random.IntN(40))
		for i := range record {
			record[i] = byte(random.Uint32())
		}
		tree.Append(crypto.LeafHash(record))
		ref.add(t, n, record)
	}
}

func TestACopyOfATreeGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	var a Tree
	for i := range uint64(7) {
		a.Append(hashOf(i))
	}
	b, before := a, a.Root()
	b.Append(hashOf(7))
	b.Append(hashOf(8))
	assert.True(t, a.Root() == before && a.Size() == 7 && b.Size() == 9, "the original changed")
}

func TestNodesMakeTheTreeAgain(t *testing.T) {
	t.Parallel()
	var tree Tree
	for n := range uint64(300) {
		again, err := NewTree(n, tree.Nodes())
		require.NoError(t, err)
		next := tree
		for _, x := range []*Tree{&again, &next} {
			x.Append(hashOf(n))
		}
		require.True(t, again.Size() == n+1 && again.Root() == next.Root(), "size %d", n)
		_, err = NewTree(n, append(tree.Nodes(), hashOf(n)))
		require.Error(t, err, "one node more")
		if n > 0 {
			_, err = NewTree(n, tree.Nodes()[1:])
			require.Error(t, err, "one node less")
		}
		tree.Append(hashOf(n))
	}
}

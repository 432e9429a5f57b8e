package proofgraph

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// These are Memory's promises beyond the contract of a Store, which package helmtest tests.
func TestMemoryZeroValue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var m Memory
	n, err := m.Size(ctx)
	assert.True(t, n == 0 && err == nil, "%v %v", n, err)
	c, err := m.Checkpoint(ctx)
	assert.True(t, c == nil && err == nil, "%v %v", c, err)
	if _, err := m.Blob(ctx, crypto.Sum(nil)); err != ErrNoBlob {
		t.Error(err)
	}
	mustAppend(t, &m, Batch{Entries: []contracts.Entry{[]byte("a")}, Blobs: [][]byte{{}}})
	b, err := m.Blob(ctx, crypto.Sum(nil))
	assert.True(t, b != nil && len(b) == 0 && err == nil, "an empty blob is not nil: %v %v", b, err)
}

func TestMemoryEntriesAreThoseOfTheBeginning(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	mustAppend(t, m, Batch{Entries: []contracts.Entry{[]byte("a")}})
	all := m.Entries(context.Background(), 0, 2)
	mustAppend(t, m, Batch{At: 1, Entries: []contracts.Entry{[]byte("b")}}) // before the iteration begins
	for range 2 {
		text := ""
		for e, err := range all {
			require.NoError(t, err)
			text += string(e)
		}
		assert.Equal(t, "ab", text)
	}
}

// The bytes of an erased blob are overwritten in the chunk that they are in.
func TestMemoryEraseOverwrites(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	mustAppend(t, m, Batch{Blobs: [][]byte{[]byte("secret")}})
	d := crypto.Sum([]byte("secret"))
	kept := m.blobs[d]
	require.Equal(t, "secret", string(kept))
	require.NoError(t, m.EraseBlob(context.Background(), d))
	assert.Equal(t, make([]byte, 6), kept)
}

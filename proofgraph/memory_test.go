package proofgraph

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	kept := m.blobs[d[0]][d]
	require.Equal(t, "secret", string(kept))
	require.NoError(t, m.EraseBlob(context.Background(), d))
	assert.Equal(t, make([]byte, 6), kept)
}

// stubOf returns a stub of an entry.
func stubOf(e contracts.Entry) contracts.Entry {
	return (&contracts.Stub{
		Entry: e.Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"},
	}).Append(nil)
}

// What stays is copied out of the memory of what goes: of neither is anything left there.
func TestMemoryCondenseGivesMemoryBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := NewMemory()
	const n = 3*page + 7
	var first []contracts.Entry
	for i := range n {
		mustAppend(t, m, Batch{At: uint64(i), Entries: []contracts.Entry{fmt.Appendf(nil, "entry %d", i)},
			Blobs: [][]byte{fmt.Appendf(nil, "blob %d", i)}})
		first = append(first, *m.entries.at(i))
	}
	before := m.snapshot()
	kept, gone := crypto.Sum([]byte("blob 1")), crypto.Sum([]byte("blob 0"))
	was := [2][]byte{m.blobs[kept[0]][kept], m.blobs[gone[0]][gone]}
	require.NoError(t, m.Condense(ctx, func(yield func(uint64, []byte) bool) {
		line := make([]byte, 0, 1000)
		for i := uint64(0); i < 2*page; i += 2 { // the first two pages
			line = append(line[:0], stubOf(first[i])...)
			if !yield(i, line) {
				return
			}
		}
	}, slices.Values([]contracts.Digest{gone})))
	for i := range n {
		e := *m.entries.at(i)
		if i < 2*page && i%2 == 0 {
			require.Equal(t, string(stubOf(first[i])), string(e))
		} else {
			require.Equal(t, string(first[i]), string(e))
			require.Equal(t, i >= 2*page, &first[i][0] == &e[0], "entry %d: where it was", i)
		}
		require.Equal(t, string(first[i]), string(*before.at(i)), "an iteration goes on")
	}
	assert.Equal(t, make([]byte, 6), was[0], "it is elsewhere, and may be erased there")
	assert.Equal(t, make([]byte, 6), was[1])
	b, err := m.Blob(ctx, kept)
	require.NoError(t, err)
	assert.Equal(t, "blob 1", string(b))
	_, err = m.Blob(ctx, gone)
	assert.Equal(t, ErrNoBlob, err)
}

// BenchmarkMemoryCondense reports what memory an entry takes before and after half of them went,
// with their blobs.
func BenchmarkMemoryCondense(b *testing.B) {
	ctx := context.Background()
	const n = 50_000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	for b.Loop() {
		empty := heap()
		m := NewMemory()
		names := make([]contracts.Digest, 0, n)
		for i := range n {
			e, blob := fmt.Appendf(nil, "%d %1500d", i, 0), fmt.Appendf(nil, "%d %800d", i, 0)
			if err := m.Append(ctx, Batch{At: uint64(i), Entries: []contracts.Entry{e}, Blobs: [][]byte{blob}}); err != nil {
				b.Fatal(err)
			}
			names = append(names, crypto.Sum(blob))
		}
		full := heap()
		err := m.Condense(ctx, func(yield func(uint64, []byte) bool) {
			for i := uint64(0); i < n; i += 2 {
				if !yield(i, stubOf(*m.entries.at(int(i)))) {
					return
				}
			}
		}, func(yield func(contracts.Digest) bool) {
			for i := 0; i < n; i += 2 {
				if !yield(names[i]) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((full-empty)/n, "B/entry")
		b.ReportMetric((heap()-empty)/n, "B/entry-after")
		runtime.KeepAlive(m)
	}
}

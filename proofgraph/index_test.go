package proofgraph

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

func TestIndexFindsWhatIsThereAndNothingElse(t *testing.T) {
	t.Parallel()
	var x Index
	_, _, ok := x.Lookup(hashOf(0))
	assert.True(t, !ok && x.Len() == 0, "found in the zero Index")
	for i := range uint64(20_000) {
		_, _, ok := x.Lookup(hashOf(i))
		require.False(t, ok, "%d found before it was added", i)
		require.NoError(t, x.Add(hashOf(i), i/3))
		for _, old := range []uint64{0, i / 2, i} { // wherever the buckets stand
			n, lamport, ok := x.Lookup(hashOf(old))
			require.True(t, ok && n == old && lamport == old/3 && x.Hash(old) == hashOf(old), "%d of %d: %d %d %v", old,
				i, n, lamport, ok)
		}
	}
	for i := range uint64(20_000) {
		n, lamport, ok := x.Lookup(hashOf(i))
		require.True(t, ok && n == i && lamport == i/3, "%d: %d %d %v", i, n, lamport, ok)
	}
	assert.Equal(t, uint64(20_000), x.Len())
}

// Hashes that were chosen to be in one bucket are found all the same.
func TestIndexWithOneBucketForAll(t *testing.T) {
	t.Parallel()
	var x Index
	for i := range 1000 {
		require.NoError(t, x.Add(contracts.Digest{31: byte(i), 30: byte(i >> 8)}, 0))
	}
	for i := range 1000 {
		n, _, ok := x.Lookup(contracts.Digest{31: byte(i), 30: byte(i >> 8)})
		require.True(t, ok && n == uint64(i), "%v %v %v", i, n, ok)
	}
}

func TestIndexOfEqualHashesGivesTheLast(t *testing.T) {
	t.Parallel()
	var x Index
	for i := range uint64(3) {
		require.NoError(t, x.Add(hashOf(7), i))
	}
	n, lamport, ok := x.Lookup(hashOf(7))
	assert.True(t, ok && n == 2 && lamport == 2, "%v %v %v", n, lamport, ok)
}

func TestIndexRefusesLamportTimesBeyondTheEntry(t *testing.T) {
	t.Parallel()
	var x Index
	assert.True(t, x.Add(hashOf(0), 1) != nil && x.Add(hashOf(0), 1<<32) != nil && x.Len() == 0, "accepted")
}

// An entry takes 44 bytes and its part of the pages, at every size: nothing doubles.
func TestIndexMemory(t *testing.T) {
	race.Alone(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 1_000_000
	before := heap()
	x := new(Index)
	for i := range uint64(n) {
		require.NoError(t, x.Add(hashOf(i), 0))
		if i == n/2 { // just past a power of two, where others are at their worst
			got := float64(heap()-before) / float64(i)
			assert.True(t, !(got > 48), "%.1f bytes an entry at %d", got, i)
		}
	}
	got := float64(heap()-before) / n
	t.Logf("%.1f bytes an entry", got)
	if got > 48 || got < 40 { // less, and the measurement is wrong
		t.Errorf("%.1f bytes an entry", got)
	}
	runtime.KeepAlive(x)
}

func TestIndexOfEqualHashesGivesThoseBefore(t *testing.T) {
	t.Parallel()
	var x Index
	var want [3][]uint64
	for i := range uint64(600) {
		if err := x.Add(hashOf(i%7*i%3), 0); err != nil { // 0, 1 and 2, in no order
			t.Fatal(err)
		}
		which := i % 7 * i % 3
		want[which] = append(want[which], i)
	}
	for which, list := range want {
		n, _, ok := x.Lookup(hashOf(uint64(which)))
		for i := len(list) - 1; i >= 0; i-- {
			require.True(t, ok && n == list[i], "%d (%v), want %d", n, ok, list[i])
			n, ok = x.Earlier(n)
		}
		assert.True(t, !ok && len(list) >= 10, "%d before the first of %d", n, len(list))
	}
}

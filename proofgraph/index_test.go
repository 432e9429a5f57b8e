package proofgraph

import (
	"math/rand/v2"
	"runtime"
	"slices"
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
	var e Index
	e.expect(1)
	_, _, ok = e.Lookup(hashOf(0))
	assert.True(t, !ok && e.Len() == 0, "found in an Index of none")
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

// Hashes that were chosen to be alike are found as fast as others: nobody can tell which of them
// share a bucket.
func TestIndexOfChosenHashes(t *testing.T) {
	t.Parallel()
	for at := range len(contracts.Digest{}) - 2 {
		var x Index
		chosen := func(i int) (h contracts.Digest) {
			h[at], h[at+1], h[at+2] = byte(i>>16), byte(i>>8), byte(i)
			return h
		}
		const n = 5000
		for i := range n {
			require.NoError(t, x.Add(chosen(i), 0))
		}
		longest := 0
		for b := range x.buckets.n {
			length := 0
			for i := *x.buckets.at(b); i != 0; i = x.at(int(i - 1)).next {
				length++
			}
			longest = max(longest, length)
		}
		assert.True(t, longest >= 1 && longest < 64, "a bucket of %d, bytes %d and after are chosen", longest, at)
		for i := range n {
			got, _, ok := x.Lookup(chosen(i))
			require.True(t, ok && got == uint64(i), "%v %v %v", i, got, ok)
		}
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

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An entry takes 44 bytes and its part of the pages, at every size: nothing doubles.
func TestIndexMemory(t *testing.T) {
	race.Alone(t)
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

// Whatever is forgotten, in whatever order, and added meanwhile: the others are where they were.
func TestIndexForgets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 0))
		var x Index
		x.expect(seed % 6 * 1500)     // none, fewer than come, and more
		var hashes []contracts.Digest // by number
		gone := map[uint64]bool{}
		byHash := map[contracts.Digest][]uint64{} // those that are found
		add := func(n int) {
			for range n {
				h := hashOf(r.Uint64N(4000)) // some are equal
				require.NoError(t, x.Add(h, uint64(len(hashes)/2)))
				byHash[h] = append(byHash[h], uint64(len(hashes)))
				hashes = append(hashes, h)
			}
		}
		forget := func(i uint64) {
			x.Forget(i)
			gone[i] = true
			byHash[hashes[i]] = slices.DeleteFunc(byHash[hashes[i]], func(n uint64) bool { return n == i })
		}
		for range 12 {
			add(1 + r.IntN(1500))
			n := uint64(len(hashes))
			switch from := r.Uint64N(n); r.IntN(4) {
			case 0: // nearly all of a range
				for i := from; i < n; i++ {
					if r.IntN(10) > 0 {
						forget(i)
					}
				}
			case 1: // a few, in any order, some of them again
				for range r.IntN(300) {
					forget(r.Uint64N(n))
				}
			case 2: // all
				if r.IntN(3) == 0 {
					for i := range n {
						forget(i)
					}
				}
			}
			require.Equal(t, n, x.Len())
			for i, h := range hashes {
				list, i := byHash[h], uint64(i)
				got, lamport, ok := x.Lookup(h)
				require.Equal(t, len(list) > 0, ok, "seed %d, entry %d", seed, i)
				if ok {
					last := list[len(list)-1]
					require.True(t, got == last && lamport == last/2, "seed %d: %d, want %d", seed, got, last)
				}
				earlier, ok := x.Earlier(i)
				if gone[i] {
					require.True(t, !ok && x.Hash(i) == contracts.Digest{}, "seed %d: %d is forgotten", seed, i)
					continue
				}
				require.Equal(t, h, x.Hash(i))
				at := slices.Index(list, i)
				require.Equal(t, at > 0, ok, "seed %d: before %d", seed, i)
				if ok {
					require.Equal(t, list[at-1], earlier)
				}
			}
		}
	}
}

// An entry that was forgotten takes less than a byte, whether its neighbours were forgotten or not.
func TestIndexFreesMemory(t *testing.T) {
	race.Alone(t)
	const n = 300_000
	for _, kept := range []uint64{0, 1000, 100, 10, 2} { // one of so many is kept; 0: none
		before := heap()
		x := new(Index)
		for i := range uint64(n) {
			require.NoError(t, x.Add(hashOf(i), 0))
		}
		gone := 0
		for i := range uint64(n) {
			if kept == 0 || i%kept != 0 {
				x.Forget(i)
				gone++
			}
		}
		got := float64(heap()) - float64(before) - 44*float64(n-gone)
		t.Logf("one of %d kept: %.2f bytes for each that was forgotten", kept, got/float64(gone))
		assert.Less(t, got/float64(gone), 1.0)
		for i := range uint64(1000) {
			_, _, ok := x.Lookup(hashOf(i))
			require.Equal(t, kept != 0 && i%kept == 0, ok)
		}
		for i := range uint64(100) { // and goes on
			require.NoError(t, x.Add(hashOf(n+i), 0))
			got, _, ok := x.Lookup(hashOf(n + i))
			require.True(t, ok && got == n+i)
		}
	}
}

// Ten thousand sets that overlap, each of some entries in the range of the one before: what is
// copied is in proportion to the entries.
func TestIndexForgetsInLinearTime(t *testing.T) {
	race.Alone(t)
	copied := func(sets, each, stride int) float64 {
		n := sets*each*stride + 64*each
		var x Index
		for i := range uint64(n) {
			require.NoError(t, x.Add(hashOf(i), 0))
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		before := m.TotalAlloc
		for s := range sets {
			for i := range each {
				x.Forget(uint64((s*each + i) * stride))
			}
			for i := range each { // some of the range of sets to come
				x.Forget(uint64(s*each*stride + 32*each + 7*i))
			}
		}
		runtime.ReadMemStats(&m)
		return float64(m.TotalAlloc-before) / float64(n)
	}
	few, many := copied(100, 32, 2), copied(10_000, 32, 2)
	t.Logf("%.0f and %.0f bytes copied an entry", few, many)
	assert.Less(t, many, 2*few)
	assert.Less(t, many, 1000.0)
}

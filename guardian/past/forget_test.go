package past

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// Whatever is forgotten, the other entries keep their marks, and sessions theirs.
func TestMarksForget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var m Marks
		var s [3]Session
		var want []Mark
		gone := map[uint64]bool{}
		for range 4 {
			for range r.IntN(3 * pageSize) {
				i := uint64(len(want))
				x := &s[r.IntN(3)]
				var labels []string
				if r.IntN(50) == 0 {
					labels = []string{string(rune('a' + r.IntN(20)))}
				}
				x.Mark(&m, i, nil, false, labels)
				want = append(want, x.mark)
			}
			for range r.IntN(3 * pageSize) {
				if len(want) > 0 {
					gone[r.Uint64N(uint64(len(want)))] = true
				}
			}
			m.Forget(slices.Values(slices.Sorted(maps.Keys(gone))), uint64(len(want)))
			for i, x := range want {
				got := m.of(uint64(i))
				final := i < len(want)/pageSize*pageSize
				if gone[uint64(i)] && final {
					assert.Zero(t, got)
				} else {
					require.Equal(t, x, got, "seed %d: entry %d of %d", seed, i, len(want))
				}
			}
		}
	}
	var none Marks
	none.Forget(slices.Values([]uint64{1, 5000}), 10_000)
	assert.Zero(t, none.of(1))
}

// The marks of forgotten entries take less than a byte each.
func TestMarksForgetMemory(t *testing.T) {
	race.Alone(t)
	const size = 1 << 20
	for _, kept := range []uint64{0, 100, 10} { // one of so many is kept; 0: none
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := new(Marks)
		var s Session
		for i := range uint64(size) {
			s.Mark(m, i, nil, true, nil)
		}
		var gone []uint64
		for i := range uint64(size) {
			if kept == 0 || i%kept != 0 {
				gone = append(gone, i)
			}
		}
		m.Forget(slices.Values(gone), size)
		n := float64(len(gone))
		gone = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (float64(after.HeapAlloc) - float64(before.HeapAlloc) - 4*(size-n)) / n
		t.Logf("one of %d kept: %.2f bytes for each that was forgotten", kept, each)
		assert.Less(t, each, 0.5)
		runtime.KeepAlive(m)
	}
}

// Marks are read, and added, while others are forgotten.
func TestMarksForgetRaces(t *testing.T) {
	t.Parallel()
	var m Marks
	var s Session
	for i := range uint64(4 * pageSize) {
		s.Mark(&m, i, nil, true, nil)
	}
	done := make(chan bool)
	go func() {
		for i := range uint64(4 * pageSize) {
			s.Mark(&m, 4*pageSize+i, []uint64{4 * pageSize / 2}, false, nil)
		}
		done <- true
	}()
	go func() {
		for i := range uint64(4 * pageSize) {
			if i%2 == 0 {
				assert.NotZero(t, m.of(i))
			}
		}
		done <- true
	}()
	var odd []uint64
	for i := uint64(1); i < 4*pageSize; i += 2 {
		odd = append(odd, i)
		if len(odd) == 300 {
			m.Forget(slices.Values(odd), 4*pageSize)
			odd = nil
		}
	}
	<-done
	<-done
}

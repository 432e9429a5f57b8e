package admission

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mustHold fails the test unless that much is held and that many wait.
func (q *Queue) mustHold(t *testing.T, held, waiting int) {
	t.Helper()
	h, w := q.Counts()
	assert.Equal(t, [2]int{held, waiting}, [2]int{h, w}, "held and waiting")
}

func TestRoomIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(10)
		gone, never := make(chan struct{}), make(chan struct{})
		var order []int
		come := func(weight int, done chan struct{}, want bool) {
			go func() {
				assert.Equal(t, want, q.Acquire(weight, done, never), "%d", weight)
				if want {
					order = append(order, weight)
				}
			}()
			synctest.Wait()
		}
		require.True(t, q.TryAcquire(4) && q.TryAcquire(6) && !q.TryAcquire(1), "10 of 10")
		come(7, gone, false)
		come(1, never, true)
		come(8, never, true)
		come(2, never, true)
		q.Release(4)
		synctest.Wait()
		assert.Empty(t, order, "the first overtaken")
		assert.False(t, q.TryAcquire(1), "the first overtaken")
		close(gone) // the first waits no more, and the next one fits
		synctest.Wait()
		assert.Equal(t, []int{1}, order)
		q.Release(6)
		synctest.Wait()
		assert.Equal(t, []int{1, 8}, order)
		q.Release(8)
		synctest.Wait()
		assert.Len(t, order, 3)
		q.mustHold(t, 3, 0)
	})
}

// A weight above the limit is held alone.
func TestRoomForWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(10)
		q.TryAcquire(1)
		admitted := false
		go func() { admitted = q.Acquire(11, nil, nil) }()
		synctest.Wait()
		assert.False(t, admitted, "while another is held")
		q.Release(1)
		synctest.Wait()
		assert.True(t, admitted)
		q.mustHold(t, 11, 0)
		assert.False(t, q.TryAcquire(1))
	})
}

// However many come, give up and leave, at whatever moment: never more is held than the limit, and
// in the end nothing.
func TestRoomIsStrict(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			q := New(7)
			closed := make(chan struct{})
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 2))
			some := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return 1 + random.IntN(n)
			}
			inside, most, refused := 0, 0, 0
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					for range 20 {
						weight := some(5)
						done := make(chan struct{})
						gives := time.AfterFunc(time.Duration(some(40)), func() { close(done) })
						ok := q.TryAcquire(weight) || q.Acquire(weight, done, closed)
						gives.Stop()
						mu.Lock()
						if !ok {
							refused++
						} else {
							inside += weight
							most = max(most, inside)
						}
						mu.Unlock()
						if !ok {
							continue
						}
						time.Sleep(time.Duration(some(10)))
						mu.Lock()
						inside -= weight
						mu.Unlock()
						q.Release(weight)
					}
				})
			}
			all.Wait()
			assert.Equal(t, 7, most, "most inside")
			assert.NotZero(t, refused)
			q.mustHold(t, 0, 0)
		})
	}
}

func BenchmarkRoom(b *testing.B) {
	q := New(1024)
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q.TryAcquire(1)
			q.Release(1)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				q.TryAcquire(1)
				q.Release(1)
			}
		})
	})
	if held, waiting := q.Counts(); held != 0 || waiting != 0 {
		b.Fatal("there was not always room")
	}
}

package helm

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoomIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := room{limit: 10}
		gone, never := make(chan struct{}), make(chan struct{})
		var order []int
		come := func(size int, done chan struct{}, want bool) {
			go func() {
				if r.wait(size, done, never) != want {
					t.Errorf("%d: %v", size, !want)
				}
				if want {
					order = append(order, size)
				}
			}()
			synctest.Wait()
		}
		if !r.take(4) || !r.take(6) || r.take(1) {
			t.Fatal("not 10 of 10")
		}
		come(7, gone, false)
		come(1, never, true)
		come(8, never, true)
		come(2, never, true)
		r.leave(4)
		synctest.Wait()
		if len(order) != 0 || r.take(1) {
			t.Errorf("%v went past who came first", order)
		}
		close(gone) // who came first gives up, and the next one fits
		synctest.Wait()
		if len(order) != 1 || order[0] != 1 {
			t.Errorf("%v, want 1", order)
		}
		r.leave(6)
		synctest.Wait()
		if len(order) != 2 || order[1] != 8 {
			t.Errorf("%v, want 1 8", order)
		}
		r.leave(8)
		synctest.Wait()
		if len(order) != 3 || r.taken != 3 || r.line.Len() != 0 {
			t.Errorf("%v, %d taken", order, r.taken)
		}
	})
}

// What is larger than the room has it alone.
func TestRoomForWhatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := room{limit: 10}
		r.take(1)
		let := false
		go func() { let = r.wait(11, nil, nil) }()
		synctest.Wait()
		if let {
			t.Error("let in beside another")
		}
		r.leave(1)
		synctest.Wait()
		if !let || r.taken != 11 || r.take(1) {
			t.Errorf("let in %v, %d taken", let, r.taken)
		}
	})
}

// However many come, give up and leave, at whatever moment: there is never more in the room than fits, and in the end nothing.
func TestRoomIsStrict(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := room{limit: 7}
			sealed := make(chan struct{})
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
						size := some(5)
						done := make(chan struct{})
						gives := time.AfterFunc(time.Duration(some(40)), func() { close(done) })
						ok := r.take(size) || r.wait(size, done, sealed)
						gives.Stop()
						mu.Lock()
						if !ok {
							refused++
						} else if inside += size; inside > most {
							most = inside
						}
						mu.Unlock()
						if !ok {
							continue
						}
						time.Sleep(time.Duration(some(10)))
						mu.Lock()
						inside -= size
						mu.Unlock()
						r.leave(size)
					}
				})
			}
			all.Wait()
			if most != 7 || refused == 0 || r.taken != 0 || r.line.Len() != 0 {
				t.Errorf("at most %d inside, %d gave up; %d left, %d wait", most, refused, r.taken, r.line.Len())
			}
		})
	}
}

func BenchmarkRoom(b *testing.B) {
	r := room{limit: capacity}
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.take(1)
			r.leave(1)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.take(1)
				r.leave(1)
			}
		})
	})
	if r.taken != 0 || r.line.Len() != 0 {
		b.Fatal("there was not always room")
	}
}

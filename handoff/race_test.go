package handoff

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

var interleavings = flag.Int("interleavings", 300, "how many TestInterleavings tries")

// TestInterleavings: if calls begin, are reported, dropped and left, and desks and sessions close
// and processes are killed, all at the same time, each permission has one receipt, at most one
// report is recorded, and the log verifies.
func TestInterleavings(t *testing.T) {
	before := runtime.NumGoroutine()
	var recorded, dropped, killed, denied atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i := range *interleavings {
			seed := uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 5)
				r := rand.New(rand.NewPCG(seed, 1))
				var all sync.WaitGroup
				do := func(f func(r *rand.Rand)) {
					own := rand.New(rand.NewPCG(seed, r.Uint64()))
					all.Add(1)
					go func() {
						defer all.Done()
						for range own.IntN(20) {
							runtime.Gosched()
						}
						f(own)
					}()
				}
				for n := range 8 {
					do(func(r *rand.Rand) {
						ctx, cancel := context.WithCancel(context.Background())
						if r.IntN(3) == 0 {
							go cancel()
						} else {
							defer cancel()
						}
						in := w.intent([]string{"mail", "pay", "typed"}[r.IntN(3)])
						in.Session = []string{"s", "t"}[r.IntN(2)]
						if r.IntN(3) == 0 {
							in.Idempotency = "k"
						}
						d, receipt, ticket := w.Begin(ctx, in, definition)
						if ticket == nil {
							assert.True(t, d.Err() != nil || receipt.Entry != nil, "a release without a receipt")
							denied.Add(1)
							return
						}
						var mine atomic.Int64
						var words sync.Map
						var ends sync.WaitGroup
						for range 3 {
							ends.Add(1)
							drop, failed := r.IntN(4) == 0, r.IntN(4) == 0
							go func() {
								defer ends.Done()
								if drop {
									_, receipt := ticket.Drop()
									words.Store(string(receipt.Entry), true)
									return
								}
								o := Outcome{Output: []byte(fmt.Sprintf(`{"ok":true,"n":%d}`, n))}
								if failed {
									o = Outcome{Err: errors.New("down")}
								}
								d, receipt, own := ticket.Settle(o)
								if own {
									mine.Add(1)
									assert.True(t, receipt.Entry != nil && (d.Err() == nil) == (receipt.Record.Outcome == contracts.Executed))
								}
								words.Store(string(receipt.Entry), true)
							}()
						}
						ends.Wait()
						n := 0
						words.Range(func(any, any) bool { n++; return true })
						assert.True(t, n == 1 && mine.Load() <= 1, "%d last words, %d reports recorded", n, mine.Load())
						recorded.Add(mine.Load())
						dropped.Add(1 - mine.Load())
					})
				}
				switch r.IntN(6) {
				case 0:
					do(func(*rand.Rand) { assert.NoError(t, w.Desk.Close(context.Background())) })
				case 1:
					do(func(*rand.Rand) { w.DropSession("s") })
				case 2:
					do(func(*rand.Rand) {
						w.DropSession("t")
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
						defer cancel()
						_ = w.Kernel.CloseSession(ctx, "t") // calls that begin meanwhile may hold it up
					})
				case 3:
					killed.Add(1)
					do(func(*rand.Rand) { w.gate.dead.Store(true) })
				}
				all.Wait()
				require.NoError(t, w.Desk.Close(context.Background()))
				if w.gate.dead.Load() {
					w.Store = &kerneltest.FaultyStore{Store: w.gate.Store}
					w.Options.Store = w.Store
					w.Open()
				}
				w.ends()
				if err := w.Kernel.Close(); err != nil { // a driver may be declaring itself, whose call ended
					assert.ErrorContains(t, err, "abandoned")
				}
			})
		}
	})
	t.Logf("%d reports were recorded, %d tickets had none, %d calls were denied, %d processes were killed", recorded.Load(),
		dropped.Load(), denied.Load(), killed.Load())
	n := int64(*interleavings)
	assert.True(t, recorded.Load() > n && dropped.Load() > n/2 && killed.Load() > n/20, "too little of something")
	for range 200 {
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before, "a goroutine is left")
}

// TestAtTheLimit: reports come as the time limit ends. What is said to be recorded is, and what was
// too late is TOOL_TIMEOUT.
func TestAtTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var all sync.WaitGroup
	var recorded, late atomic.Int64
	for i := range 400 {
		ticket := w.must("ask", func(in *helm.Intent) { in.Session = fmt.Sprint("s", i) })
		all.Add(1)
		go func() {
			defer all.Done()
			time.Sleep(970*time.Millisecond + time.Duration(i)*150*time.Microsecond)
			_, r, mine := ticket.Settle(Outcome{Output: []byte("1")})
			if mine {
				recorded.Add(1)
				assert.True(t, r.Record.Outcome == contracts.Executed && string(r.Output) == "1", "%+v", r.Record)
			} else {
				late.Add(1)
				assert.True(t, r.Record.Reason == contracts.ReasonToolTimeout && r.Output == nil, "%+v", r.Record)
			}
		}()
	}
	all.Wait()
	t.Logf("%d in time, %d too late", recorded.Load(), late.Load())
	w.ends()
}

package helm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Of many callers with one approval, one runs. The others are told that it was used, each with a
// receipt, also those that were judged before and had to wait for room.
func TestApprovalRacedForOneRun(t *testing.T) {
	t.Parallel()
	for _, room := range []int{helm.Capacity, 1} {
		b := kerneltest.NewBank(t)
		b.Kernel.SetRoom(room)
		yes := b.ApprovedRent(kerneltest.Ann)
		var ran, used atomic.Int64
		kerneltest.AtOnce(10, func(int) {
			switch d, r := b.Pay(yes); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case d.Reason == contracts.ReasonApprovalInvalid && r.Record.Outcome == contracts.Denied:
				used.Add(1)
			default:
				t.Errorf("%s: %s", d.Reason, d.Why)
			}
		})
		assert.Equal(t, int64(1), ran.Load(), "room %d", room)
		assert.Equal(t, int64(9), used.Load(), "room %d", room)
		assert.Equal(t, int64(1), b.Runs.Load(), "room %d", room)
		b.MustPass()
	}
}

// 64 goroutines call, repeat, nest, close sessions and sign checkpoints, in a few sessions with a
// few keys, until the disk fails in the middle. No key has two effects, nothing is released that is
// not in the log, no caller waits for ever, and the log verifies.
func TestHammer(t *testing.T) {
	for _, x := range []struct {
		name  string
		procs int
		fail  int // Append; 0: never
		how   func(error) error
		room  int // decisions in the queue; 0: as many as ever
	}{
		{"sound", 4, 0, nil, 0},
		{"one processor", 1, 0, nil, 0},
		{"one processor, the disk fails", 1, 200, nil, 0},
		{"the disk fails", 4, 90, nil, 0},
		{"the disk panics", 4, 60, func(error) error { panic("disk") }, 0},
		{"the disk fails after it wrote", 4, 80, func(error) error { return kerneltest.ErrDisk }, 0},
		{"the disk ends the goroutine", 4, 70, func(error) error { runtime.Goexit(); return nil }, 0},
		{"room for one", 4, 0, nil, 1},
		{"room for three", 4, 0, nil, 3},
		{"room for one, one processor", 1, 0, nil, 1},
		{"room for two, the disk fails", 4, 300, nil, 2},
		{"room for two, the disk ends the goroutine", 4, 200, func(error) error { runtime.Goexit(); return nil }, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(x.procs))
			w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
			var effects sync.Map // by session and key
			w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
				if c.Tool == "echo" && bytes.Contains(c.Args, []byte(`"key `)) {
					n, _ := effects.LoadOrStore(c.Session+string(c.Args), new(atomic.Int64))
					assert.LessOrEqual(t, n.(*atomic.Int64).Add(1), int64(1))
				}
				if c.Tool == "scoped" { // calls that nest
					d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`)})
					assert.NotEqual(t, contracts.ReasonSessionClosed, d.Reason, "closed under a running call")
				}
				return executor.Result{Output: []byte(`{"ok":true}`)}, nil
			}
			if w.Store.OnFail = x.how; x.fail > 0 {
				w.Store.FailIn(x.fail)
			}
			if x.room > 0 {
				w.Kernel.SetRoom(x.room)
			}
			type kept struct {
				r helm.Receipt
				d helm.Decision
			}
			var mu sync.Mutex
			var released []kept
			var answered atomic.Int64
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					defer answered.Add(1) // on every way out, a Goexit included
					for j := range 8 {
						session := fmt.Sprint("s", (i+j)%5)
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						in := helm.Intent{Tool: "echo", Args: json.RawMessage(`{"text":"x"}`), Session: session,
							Caller: helm.Caller{Roles: []string{"b", "a"}}}
						switch i % 8 {
						case 0, 1:
							in.Args, in.Idempotency = json.RawMessage(fmt.Sprintf(`{"text":"key %d"}`, j)),
								fmt.Sprint("k", j)
						case 2:
							in.Tool, in.Args = "scoped", json.RawMessage(`{"path":"/srv"}`)
						case 3:
							in.Args = json.RawMessage(`{"text":"secret"}`)
						case 4:
							if i == 4 && j > 5 {
								_ = w.Kernel.CloseSession(ctx, session)
							}
							in.Args = json.RawMessage(`{"text":`)
						case 5:
							if j%4 == 3 {
								_, _ = w.Kernel.Checkpoint(ctx)
							}
						case 6:
							cancel()
						}
						d, r := w.Kernel.Guard(ctx, in)
						cancel()
						assert.Equal(t, r.Output != nil, d.Err() == nil)
						if d.Err() == nil {
							mu.Lock()
							released = append(released, kept{r, d})
							mu.Unlock()
						} else if errors.Is(d.Err(), helm.ErrDenied) == errors.Is(d.Err(), helm.ErrWithheld) {
							t.Errorf("%s: %v", d.Reason, d.Err())
						}
					}
				})
			}
			kerneltest.Within(t, time.Minute, "64 callers", wg.Wait)
			var stored []helm.Receipt
			for _, k := range released {
				stored = append(stored, k.r)
			}
			keyed := 0
			effects.Range(func(any, any) bool { keyed++; return true })
			assert.NotEmpty(t, released)
			assert.NotZero(t, keyed)
			assert.Equal(t, int64(64), answered.Load())
			assert.NoError(t, w.Kernel.Close())
			taken, waiting := w.Kernel.Room()
			assert.Zero(t, taken)
			assert.Zero(t, waiting)
			w.MustRecover(stored)
		})
	}
}

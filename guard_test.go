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

// A hammer is a kernel under 64 callers.
type hammer struct {
	*kerneltest.World
	effects  sync.Map // by session and key
	mu       sync.Mutex
	released []helm.Receipt
	answered atomic.Int64
}

func newHammer(t *testing.T) *hammer {
	h := &hammer{World: kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })}
	h.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "echo" && bytes.Contains(c.Args, []byte(`"key `)) {
			n, _ := h.effects.LoadOrStore(c.Session+string(c.Args), new(atomic.Int64))
			assert.LessOrEqual(t, n.(*atomic.Int64).Add(1), int64(1), "effects of %s %s", c.Session, c.Args)
		}
		if c.Tool == "scoped" { // calls that nest
			d, _ := h.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`)})
			assert.NotEqual(t, contracts.ReasonSessionClosed, d.Reason, "closed under a running call")
		}
		return executor.Result{Output: []byte(`{"ok":true}`)}, nil
	}
	return h
}

// call makes the jth call of caller i.
func (h *hammer) call(i, j int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	in := helm.Intent{Tool: "echo", Args: json.RawMessage(`{"text":"x"}`), Session: fmt.Sprint("s", (i+j)%5),
		Caller: helm.Caller{Roles: []string{"b", "a"}}}
	switch i % 8 {
	case 0, 1:
		in.Args, in.Idempotency = fmt.Appendf(nil, `{"text":"key %d"}`, j), fmt.Sprint("k", j)
	case 2:
		in.Tool, in.Args = "scoped", json.RawMessage(`{"path":"/srv"}`)
	case 3:
		in.Args = json.RawMessage(`{"text":"secret"}`)
	case 4:
		if i == 4 && j > 5 {
			_ = h.Kernel.CloseSession(ctx, in.Session)
		}
		in.Args = json.RawMessage(`{"text":`)
	case 5:
		if j%4 == 3 {
			_, _ = h.Kernel.Checkpoint(ctx)
		}
	case 6:
		cancel()
	}
	d, r := h.Kernel.Guard(ctx, in)
	assert.Equal(h.T, r.Output != nil, d.Err() == nil, "output %q with %v", r.Output, d.Err())
	if d.Err() != nil {
		denied, withheld := errors.Is(d.Err(), helm.ErrDenied), errors.Is(d.Err(), helm.ErrWithheld)
		assert.NotEqual(h.T, denied, withheld, "%s: %v", d.Reason, d.Err())
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = append(h.released, r)
}

// 64 goroutines call, repeat, nest, close sessions and sign checkpoints, in a few sessions with a
// few keys, until the disk fails in the middle. No key has two effects, nothing is released that is
// not in the log, no caller waits for ever, and the log verifies.
func TestHammer(t *testing.T) {
	panics := func(error) error { panic("disk") }
	exits := func(error) error { runtime.Goexit(); return nil }
	wrote := func(error) error { return kerneltest.ErrDisk }
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
		{"the disk panics", 4, 60, panics, 0},
		{"the disk fails after it wrote", 4, 80, wrote, 0},
		{"the disk ends the goroutine", 4, 70, exits, 0},
		{"room for one", 4, 0, nil, 1},
		{"room for three", 4, 0, nil, 3},
		{"room for one, one processor", 1, 0, nil, 1},
		{"room for two, the disk fails", 4, 300, nil, 2},
		{"room for two, the disk ends the goroutine", 4, 200, exits, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(x.procs))
			h := newHammer(t)
			h.Store.OnFail = x.how
			if x.fail > 0 {
				h.Store.FailIn(x.fail)
			}
			if x.room > 0 {
				h.Kernel.SetRoom(x.room)
			}
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					defer h.answered.Add(1) // on every way out, a Goexit included
					for j := range 8 {
						h.call(i, j)
					}
				})
			}
			kerneltest.Within(t, time.Minute, "64 callers", wg.Wait)
			keyed := 0
			h.effects.Range(func(any, any) bool { keyed++; return true })
			assert.NotEmpty(t, h.released)
			assert.NotZero(t, keyed, "effects with keys")
			assert.Equal(t, int64(64), h.answered.Load(), "callers that came back")
			assert.NoError(t, h.Kernel.Close())
			taken, waiting := h.Kernel.Room()
			assert.Zero(t, taken)
			assert.Zero(t, waiting)
			h.MustRecover(h.released)
		})
	}
}

package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
)

// 64 goroutines call root and tasks, directly, by context and nested, while others swap, narrow, close tasks and sessions and sign
// checkpoints; then the kernel closes in the middle of it. Every call is judged by one stack, that which was in force at its place: the
// log shows, for at each place the version of what judged is that of the latest policy of root. Nothing a task forbids runs in it.
func TestSwapHammer(t *testing.T) {
	const last = 12
	for _, x := range []struct {
		name string
		room int  // decisions in the queue; 0: as many as ever
		end  bool // Close comes in the middle
	}{{"sound", 0, false}, {"room for two", 2, false}, {"closed in the middle", 0, true}} {
		t.Run(x.name, func(t *testing.T) {
			numbered := func(v int) *guardian.Policy { return version(t, v, "timeout: 1s", "timeout: 10m") } // however slow the machine is
			w := newWorld(t, func(o *helm.Options) { o.Policy = numbered(1) })
			if x.room > 0 {
				w.k.SetRoom(x.room)
			}
			w.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
				if c.Tool == "slow" { // nested: under the overlay of whoever runs it
					if d, _ := w.k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":6}`)}); d.Allowed() {
						t.Error("a tool's call left the overlay that the tool runs under")
					}
				}
				return executor.Result{Output: c.Args}, nil
			}
			policies := make([]*guardian.Policy, last+1)
			for v := 1; v <= last; v++ {
				policies[v] = numbered(v)
			}
			task := w.narrow(w.k, few(t, "task", 1, 5))
			step := w.narrow(task, few(t, "step", 1, 4))
			bg := context.Background()
			next, swaps, calls := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
			next.Store(1)
			var once sync.Once
			middle := make(chan struct{}) // closed when enough was done, for those who wait to end it
			reached := func() {
				if swaps.Load() > 0 && calls.Load() >= 450 {
					once.Do(func() { close(middle) })
				}
			}
			swap := func() {
				v := next.Add(1)
				if v > last {
					return
				}
				switch err := w.k.Swap(bg, policies[v]); {
				case err == nil:
					swaps.Add(1)
				case x.end:
				default: // somebody else was faster with a later version
					if next.Load() <= v {
						t.Error(err)
					}
				}
			}
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for j := range 12 {
						in := helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j)), Session: fmt.Sprint("s", (i+j)%9)}
						k, ctx, most := w.k, bg, 99
						switch i % 8 {
						case 0:
							k, most = task, 5
						case 1:
							ctx, most = step.Context(bg), 4
						case 2:
							n, err := task.Narrow(few(t, fmt.Sprint("n", i%3), 1, 3))
							if err != nil {
								if !x.end {
									t.Error(err)
								}
								continue
							}
							k, most = n, 3
							defer n.Close()
						case 3:
							in.Tool, in.Args = "slow", json.RawMessage(`{}`)
							k = step
						case 4:
							if i%16 == 4 && j%4 == 3 {
								swap()
							}
						case 5:
							if i == 5 && j%4 == 1 {
								_ = w.k.CloseSession(bg, in.Session)
								continue
							}
							in.Args = json.RawMessage(`{"n":`)
						case 6:
							if i == 6 && j%4 == 1 {
								_, _ = w.k.Checkpoint(bg)
							}
						case 7:
							if x.end && i == 63 && j == 6 {
								<-middle
								if err := w.k.Close(); err != nil {
									t.Error(err)
								}
							}
						}
						d, _ := k.Guard(ctx, in)
						calls.Add(1)
						reached()
						if d.Allowed() && in.Tool == "echo" && j > most {
							t.Errorf("%d ran where %d is the most", j, most)
						}
						if !d.Allowed() && errors.Is(d.Err(), helm.ErrWithheld) {
							t.Errorf("%s: %v", d.Reason, d.Err())
						}
					}
				})
			}
			within(t, time.Minute, "64 callers", wg.Wait)
			if taken, waiting := w.k.Room(); taken != 0 || waiting != 0 {
				t.Errorf("%d in the room, %d wait for it", taken, waiting)
			}
			if swaps.Load() == 0 || calls.Load() < 64*9 {
				t.Errorf("%d swaps under %d calls", swaps.Load(), calls.Load())
			}
			w.mustFollow(swaps.Load())
			if x.end {
				w.o.Policy = policies[last]
				w.open()
			}
			if report := w.mustVerify(); report.Replay.NotReplayable != 0 || report.Replay.Replayed < 200 {
				t.Errorf("replay: %+v", report.Replay)
			}
		})
	}
}

// mustFollow shows that at every place of the log the policy that judges there has the bundle's version of the latest entry of root's.
func (w *world) mustFollow(swaps int64) {
	w.t.Helper()
	versions, inForce, entries, judged := map[contracts.Digest]uint64{}, uint64(0), int64(0), 0
	for i, st := range w.statements() {
		var d *contracts.DecisionRecord
		switch {
		case st.Policy != nil:
			v := st.Policy.Documents[0].Version
			versions[st.Policy.Policy] = v
			if len(st.Policy.Documents) == 1 {
				if v <= inForce {
					w.t.Errorf("entry %d: version %d after %d", i, v, inForce)
				}
				inForce = v
				entries++
			} else if v < inForce {
				w.t.Errorf("entry %d: a narrowed stack of version %d under %d", i, v, inForce)
			}
		case st.Decision != nil:
			d = st.Decision
		case st.Receipt != nil:
			d = st.Receipt.Decision
		}
		if d == nil {
			continue
		}
		judged++
		if v := versions[d.PolicyHash]; v != inForce {
			w.t.Errorf("entry %d: judged by version %d, and %d is in force", i, v, inForce)
		}
	}
	if entries < 1+swaps || judged == 0 {
		w.t.Errorf("%d of %d swaps in the log, %d judgements", entries-1, swaps, judged)
	}
	w.policies()
}

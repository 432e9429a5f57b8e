package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// 64 callers, directly, of a task and nested, while four govern: they freeze and unfreeze, add keys
// and end them, all for the version that they think is next. Of each version one event is accepted.
// The log shows for each call that it was judged under the state of its place, and no ALLOW after a
// freeze.
func TestGovernHammer(t *testing.T) {
	for _, room := range []int{0, 2} {
		t.Run(fmt.Sprint("room ", room), func(t *testing.T) {
			w := kerneltest.NewGoverned(t)
			if room > 0 {
				w.Kernel.SetRoom(room)
			}
			w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
				if c.Tool == "slow" {
					_, _ = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
				}
				return executor.Result{Output: c.Args}, nil
			}
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			bg := context.Background()
			var done, governing sync.WaitGroup
			var entered, refused, allowed, frozen atomic.Int64
			w.MustAllow(w.Kernel, 1)
			allowed.Add(1)
			for g := range 4 {
				governing.Go(func() {
					state := w.Kernel.Trust()
					for n := range 6 {
						e := contracts.TrustEvent{Type: "freeze"}
						by := []byte{kerneltest.Freezer}
						if g%2 == 1 { // these two add keys, and compete for versions
							e = w.Event(contracts.TrustEvent{Type: "key", Name: "new", Role: "publisher",
								Version: state.Version() + 1}, byte(60+20*g+n))
							by = []byte{kerneltest.Root1, kerneltest.Root2}
						} else if state.Frozen() {
							e.Type, by = "unfreeze", []byte{kerneltest.Root1, kerneltest.Root3}
						}
						e.Version = state.Version() + 1
						err := w.Kernel.Govern(bg, kerneltest.SignEvent(t, w.Event(e), by...))
						switch {
						case err == nil:
							entered.Add(1)
						case strings.Contains(err.Error(), "version: ") ||
							strings.Contains(err.Error(), "nothing changes"):
							refused.Add(1)
						default:
							t.Error(err)
						}
						for range 4 { // so that there is something to judge under each state
							if d, _ := w.Kernel.Guard(bg, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`),
								Session: fmt.Sprint("g", g)}); d.Reason == contracts.ReasonSystemFrozen {
								frozen.Add(1)
							}
						}
						state = w.Fold(nil)
					}
				})
			}
			for i := range 64 {
				done.Go(func() {
					for j := range 8 {
						k, in := w.Kernel, helm.Intent{Tool: "echo",
							Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, j%8)), Session: fmt.Sprint("s", (i+j)%9)}
						switch i % 4 {
						case 1:
							k = task
						case 2:
							in.Tool, in.Args = "slow", json.RawMessage(`{}`)
						case 3:
							in.Idempotency = fmt.Sprint(j % 5)
						}
						switch d, _ := k.Guard(bg, in); {
						case d.Allowed():
							allowed.Add(1)
						case d.Reason == contracts.ReasonSystemFrozen:
							frozen.Add(1)
						// a repeat; a slow machine
						case d.Reason == contracts.ReasonOutputNotKept || d.Reason == contracts.ReasonToolTimeout:
						case errors.Is(d.Err(), helm.ErrWithheld):
							t.Errorf("%s: %v", d.Reason, d.Err())
						}
					}
				})
			}
			kerneltest.Within(t, time.Minute, "those who govern", governing.Wait)
			kerneltest.Within(t, time.Minute, "64 callers", done.Wait)
			s := w.TrustState()
			assert.Equal(t, 1+entered.Load(), int64(s.Version()))
			assert.NotZero(t, entered.Load())
			assert.Equal(t, int64(24), entered.Load()+refused.Load())
			if !w.TrustState().Frozen() {
				w.Govern(w.Freezing(), kerneltest.Root1)
			}
			if d, _ := w.Echo(task, 1); d.Reason == contracts.ReasonSystemFrozen {
				frozen.Add(1)
			}
			judged := w.MustFollowTrust()
			assert.GreaterOrEqual(t, judged, 200)
			assert.NotZero(t, allowed.Load())
			assert.NotZero(t, frozen.Load())
			report := w.MustVerify()
			if room > 0 {
				w.MustAgree(report)
			}
		})
	}
}

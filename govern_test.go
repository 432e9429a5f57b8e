package helm_test

import (
	"context"
	"encoding/json"
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

// A governHammer is a kernel with a task, which is governed under calls.
type governHammer struct {
	*kerneltest.World
	task *helm.Kernel

	entered, refused, allowed, frozen atomic.Int64
}

func newGovernHammer(t *testing.T, room int) *governHammer {
	h := &governHammer{World: kerneltest.NewGoverned(t)}
	if room > 0 {
		h.Kernel.SetRoom(room)
	}
	h.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "slow" {
			_, _ = h.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		}
		return executor.Result{Output: c.Args}, nil
	}
	h.task = h.Narrow(h.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	h.MustAllow(h.Kernel, 1)
	h.allowed.Add(1)
	return h
}

// govern enters six events, each for the version after the latest: a freeze or the end of one, or,
// as an odd governor, another key, which competes for the version.
func (h *governHammer) govern(g int) {
	bg, state := context.Background(), h.Kernel.Trust()
	for n := range 6 {
		e, by := contracts.TrustEvent{Type: "freeze"}, []byte{kerneltest.Freezer}
		if g%2 == 1 {
			e = h.Event(contracts.TrustEvent{Type: "key", Name: "new", Role: "publisher", Version: state.Version() + 1},
				byte(60+20*g+n))
			by = []byte{kerneltest.Root1, kerneltest.Root2}
		} else if state.Frozen() {
			e.Type, by = "unfreeze", []byte{kerneltest.Root1, kerneltest.Root3}
		}
		e.Version = state.Version() + 1
		err := h.Kernel.Govern(bg, kerneltest.SignEvent(h.T, h.Event(e), by...))
		switch {
		case err == nil:
			h.entered.Add(1)
		case strings.Contains(err.Error(), "version: ") || strings.Contains(err.Error(), "nothing changes"):
			h.refused.Add(1)
		default:
			h.T.Error(err)
		}
		for range 4 { // so that there is something to judge under each state
			d, _ := h.Call("echo", `{}`, kerneltest.InSession(fmt.Sprint("g", g)))
			h.count(d)
		}
		state = h.Fold(nil)
	}
}

func (h *governHammer) count(d helm.Decision) {
	if d.Reason == contracts.ReasonSystemFrozen {
		h.frozen.Add(1)
	}
}

// call makes the jth call of caller i.
func (h *governHammer) call(i, j int) {
	k, in := h.Kernel, helm.Intent{Tool: "echo", Args: fmt.Appendf(nil, `{"n":%d}`, j%8),
		Session: fmt.Sprint("s", (i+j)%9)}
	switch i % 4 {
	case 1:
		k = h.task
	case 2:
		in.Tool, in.Args = "slow", json.RawMessage(`{}`)
	case 3:
		in.Idempotency = fmt.Sprint(j % 5)
	}
	d, _ := k.Guard(context.Background(), in)
	h.count(d)
	switch {
	case d.Allowed():
		h.allowed.Add(1)
	case d.Reason == contracts.ReasonOutputNotKept || d.Reason == contracts.ReasonToolTimeout:
		// a repeat; a slow machine
	default:
		assert.NotErrorIs(h.T, d.Err(), helm.ErrWithheld, "%s", d.Reason)
	}
}

// 64 callers, directly, of a task and nested, while four govern: they freeze and unfreeze, add keys
// and end them, all for the version that they think is next. Of each version one event is accepted.
// The log shows for each call that it was judged under the state of its place, and no ALLOW after a
// freeze.
func TestGovernHammer(t *testing.T) {
	for _, room := range []int{0, 2} {
		t.Run(fmt.Sprint("room ", room), func(t *testing.T) {
			h := newGovernHammer(t, room)
			var done, governing sync.WaitGroup
			for g := range 4 {
				governing.Go(func() { h.govern(g) })
			}
			for i := range 64 {
				done.Go(func() {
					for j := range 8 {
						h.call(i, j)
					}
				})
			}
			kerneltest.Within(t, time.Minute, "the governors", governing.Wait)
			kerneltest.Within(t, time.Minute, "64 callers", done.Wait)
			s := h.TrustState()
			assert.Equal(t, 1+h.entered.Load(), int64(s.Version()))
			assert.NotZero(t, h.entered.Load())
			assert.Equal(t, int64(24), h.entered.Load()+h.refused.Load())
			if !s.Frozen() {
				h.Govern(h.Freezing(), kerneltest.Root1)
			}
			d, _ := h.Echo(h.task, 1)
			h.count(d)
			assert.GreaterOrEqual(t, h.MustFollowTrust(), 200, "judgements")
			assert.NotZero(t, h.allowed.Load())
			assert.NotZero(t, h.frozen.Load())
			report := h.MustVerify()
			if room > 0 {
				h.MustAgree(report)
			}
		})
	}
}

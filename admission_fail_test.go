package helm_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever seals the kernel, callers that wait for admission are told at once, though the store
// does not answer.
func TestSealedWhileWaitingForRoom(t *testing.T) {
	t.Parallel()
	receipt := func(change func(w *callers)) func(w *callers, hold chan struct{}) {
		return func(w *callers, hold chan struct{}) {
			change(w)
			w.Key.FailIn(1)
			close(hold)
		}
	}
	for name, seal := range map[string]func(w *callers, hold chan struct{}){
		"the store fails": func(w *callers, _ chan struct{}) { w.blocking.Fail() },
		"Close gives up": func(w *callers, _ chan struct{}) {
			w.all.Go(func() {
				assert.Error(w.T, w.Kernel.Close(), "closed, though calls wait for the store")
			})
			time.Sleep(time.Hour)
		},
		"a receipt's signer fails":              receipt(func(*callers) {}),
		"a receipt's signer panics":             receipt(func(w *callers) { w.Key.Panics = true }),
		"a receipt's signer ends the goroutine": receipt(func(w *callers) { w.Key.Exits = true }),
	} {
		t.Run(name, func(t *testing.T) {
			withRoom(t, 1, func(w *callers) {
				hold := make(chan struct{})
				w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
					if c.Session == "running" {
						<-hold
					}
					return executor.Result{Output: c.Args}, nil
				}
				w.start(context.Background(), helm.Intent{Tool: "echo", Session: "running"})
				queued := w.fill(1) // all that there is is being written
				var list []*answered
				for i := range 5 {
					list = append(list, w.start(context.Background(),
						helm.Intent{Tool: "echo", Session: fmt.Sprint("s", i%2)}))
				}
				w.mustHold(1, 5)
				seal(w, hold)
				synctest.Wait()
				for _, a := range list {
					assert.True(t, a.done)
					assert.Equal(t, contracts.ReasonKernelSealed, a.d.Reason)
					assert.ErrorIs(t, a.d.Err(), helm.ErrDenied)
					assert.Nil(t, a.r.Entry)
				}
				if name != "the store fails" {
					assert.False(t, queued[0].done, "what is being written was answered before it was")
					w.blocking.Unblock()
				}
				synctest.Wait()
				select {
				case <-hold:
				default:
					close(hold)
				}
				synctest.Wait()
				w.Runs.Store(0)
				w.MustBeSealed()
			})
		})
	}
}

// A caller that was admitted after waiting is released again, though the clock or the signer panics
// then, or ends the goroutine.
func TestRoomOfWhatGoesWrongWithTheTurn(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		clock  func()
		key    func(k *kerneltest.FaultySigner)
		sealed bool
	}{
		"the clock panics":              {clock: func() { panic("the clock") }},
		"the clock ends the goroutine":  {clock: runtime.Goexit},
		"the signer fails":              {key: func(*kerneltest.FaultySigner) {}, sealed: true},
		"the signer panics":             {key: func(k *kerneltest.FaultySigner) { k.Panics = true }, sealed: true},
		"the signer ends the goroutine": {key: func(k *kerneltest.FaultySigner) { k.Exits = true }, sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			withRoom(t, 1, func(w *callers) {
				var broken func()
				o := w.Options
				o.Now = func() time.Time {
					if f := broken; f != nil {
						broken = nil
						f()
					}
					return time.Now()
				}
				k, err := helm.New(o)
				require.NoError(t, err)
				w.Kernel = k
				w.Kernel.SetRoom(1)
				hold := make(chan struct{})
				w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
					<-hold // so that its receipt does not take the failure that is meant for the other
					return executor.Result{Output: c.Args}, nil
				}
				w.fill(1)
				first := w.start(context.Background(), helm.Intent{Tool: "nobody", Session: "s"})
				second := w.start(context.Background(), helm.Intent{Tool: "nobody", Session: "s"})
				w.mustHold(1, 2)
				if broken = x.clock; x.key != nil {
					x.key(w.Key)
					w.Key.FailIn(1)
				}
				w.blocking.Unblock()
				w.mustHold(0, 0)
				if first.done && first.d.Reason == contracts.ReasonToolNotFound {
					assert.Nil(t, first.r.Entry, "nothing went wrong")
				}
				want := contracts.ReasonToolNotFound
				if x.sealed {
					want = contracts.ReasonKernelSealed
				}
				assert.Equal(t, want, second.d.Reason, "the next one")
				close(hold)
			})
		})
	}
}

// Close admits the callers that wait: they came before it.
func TestCloseWaitsForThoseWhoWaitForRoom(t *testing.T) {
	t.Parallel()
	withRoom(t, 2, func(w *callers) {
		list := w.fill(2)
		for range 6 {
			list = append(list, w.start(context.Background(), helm.Intent{Tool: "echo", Session: "s"}))
		}
		closed := false
		w.all.Go(func() {
			assert.NoError(t, w.Kernel.Close())
			closed = true
		})
		time.Sleep(time.Second)
		d, _ := w.Call("echo", `{}`)
		assert.Equal(t, contracts.ReasonKernelSealed, d.Reason)
		assert.False(t, closed)
		w.blocking.Unblock()
		w.mustSucceed(list...)
		assert.True(t, closed, "not closed")
	})
}

// Close says how many calls it did not wait for.
func TestCloseNamesTheCallsThatStillRun(t *testing.T) {
	t.Parallel()
	withRoom(t, helm.Capacity, func(w *callers) {
		w.fill(3)
		err := w.Kernel.Close()
		assert.EqualError(t, err,
			"helm: close: 3 calls were still running; the next New over the store settles them")
		w.blocking.Unblock()
	})
}

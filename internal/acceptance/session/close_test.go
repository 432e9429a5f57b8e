package session

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// A nil context, or one that panics, is an error for its caller, and changes nothing for the
// session.
func TestCloseSessionWithHostileContext(t *testing.T) {
	t.Parallel()
	for n := range int64(6) {
		w := kerneltest.New(t)
		started, release := make(chan struct{}), make(chan struct{})
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			close(started)
			<-release
			return executor.Result{}, nil
		}
		first := make(chan error)
		go func() { d, _ := w.Call("echo", `{}`); first <- d.Err() }()
		<-started
		left := new(atomic.Int64)
		left.Store(n)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		assert.Error(t, w.Kernel.CloseSession(kerneltest.HostileContext{Context: ended, Left: left}, "s"),
			"touch %d: closed under a running call", n)
		_, err := w.Kernel.Checkpoint(kerneltest.HostileContext{Context: ended, Left: left})
		assert.Error(t, err, "touch %d: a checkpoint under an ended context", n)
		w.Tool = kerneltest.NoOutput(nil)
		kerneltest.Within(t, 10*time.Second, "the session's next call", func() {
			d, _ := w.Call("pinned", `{"text":"x"}`)
			assert.Equal(t, contracts.ReasonContractDrift, d.Reason, "touch %d", n)
		})
		close(release)
		assert.NoError(t, <-first)
		var none context.Context
		assert.NoError(t, w.Kernel.CloseSession(none, "s"), "without a context")
		_, err = w.Kernel.Checkpoint(none)
		assert.NoError(t, err, "without a context")
		helm.With(none, helm.Intent{})
	}
}

// A goroutine that outlives its tool calls Guard while its session is being closed: the close is
// the last entry all the same, and every run has its receipt.
func TestCloseSessionAndWhatToolsLeaveBehind(t *testing.T) {
	t.Parallel()
	for range 20 {
		w := kerneltest.New(t)
		var behind sync.WaitGroup
		started, release := make(chan struct{}), make(chan struct{})
		w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
			if c.Tool != "echo" {
				return executor.Result{Output: []byte(`{"ok":true}`)}, nil
			}
			ctx = context.WithoutCancel(ctx)
			for range 16 {
				behind.Go(func() {
					<-release
					for {
						d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`)})
						if d.Reason == contracts.ReasonAllow {
							continue
						}
						assert.Equal(t, contracts.ReasonSessionClosed, d.Reason, "a call from what a tool left behind")
						return
					}
				})
			}
			close(started)
			<-release
			return executor.Result{}, nil
		}
		behind.Go(func() { w.Call("echo", `{}`, kerneltest.WithDriver(nil)) })
		<-started
		closed := make(chan error)
		go func() { closed <- w.Kernel.CloseSession(context.Background(), "s") }()
		runtime.Gosched()
		close(release)
		kerneltest.Within(t, 10*time.Second, "closing", func() {
			assert.NoError(t, <-closed)
			behind.Wait()
		})
		report := w.MustVerify()
		assert.Empty(t, report.Open, "open decisions")
	}
}

// Close knows the time limit of a call that has come in, though it does not run yet. A second Close
// waits for it too.
func TestCloseIsPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := kerneltest.New(t)
		hold := make(chan struct{})
		w.Store.OnFail = func(err error) error { <-hold; return err }
		w.Store.FailIn(1) // a disk that is slow to store the permission
		first := make(chan helm.Decision)
		go func() { d, _ := w.Call("echo", `{}`); first <- d }()
		synctest.Wait()
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- w.Kernel.Close() }()
		}
		time.Sleep(20 * time.Second) // less than the limit of the tool
		synctest.Wait()
		assert.Empty(t, closed, "Close gave up on a call within its limit, or did not wait")
		close(hold)
		d := <-first
		assert.NoError(t, d.Err())
		for range 2 {
			assert.NoError(t, <-closed)
		}
	})
}

// Close does not wait for the observer that calls it, waits no longer than the limit for a driver
// that calls it, and never waits forever.
func TestCloseFromInside(t *testing.T) {
	t.Parallel()
	t.Run("observer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var w *kerneltest.World
			closed := 0
			w = kerneltest.New(t, func(o *helm.Options) {
				o.Observe = func(context.Context, helm.Event) {
					err := w.Kernel.CloseSession(context.Background(), "s")
					assert.True(t, err == nil || closed > 0, err)
					assert.NoError(t, w.Kernel.Close())
					closed++
				}
			})
			before := time.Now()
			d, _ := w.Call("echo", `{}`)
			assert.NoError(t, d.Err())
			assert.Equal(t, 1, closed)
			assert.Zero(t, time.Since(before))
		})
	})
	t.Run("driver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := kerneltest.New(t)
			closed := make(chan error, 1)
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
				closed <- w.Kernel.Close()
				return executor.Result{}, nil
			}
			w.MustCall(kerneltest.Withheld(contracts.ReasonToolTimeout, contracts.Indeterminate), "slow", `{}`)
			assert.ErrorContains(t, <-closed, "slow: 1", "the driver that closes was abandoned")
		})
	})
}

// If a goroutine ends in the middle of a call, in the store, the signer or the clock, all waiting
// callers are woken, and a call without a receipt has sealed the kernel.
func TestGoroutineEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	type where struct {
		clock bool
		store int
		key   int64
	}
	for name, x := range map[string]where{
		"storing the permission": {store: 1}, "storing the receipt": {store: 2},
		"signing the permission": {key: 1}, "signing the receipt": {key: 2},
		"time of the receipt": {clock: true},
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			w := kerneltest.New(t, func(o *helm.Options) {
				o.Now = func() time.Time {
					if broken.Load() {
						runtime.Goexit()
					}
					return time.Now()
				}
			})
			inside, others := make(chan struct{}), make(chan struct{})
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
				broken.Store(x.clock)
				return executor.Result{}, nil
			}
			w.Store.OnFail = func(error) error {
				close(inside)
				<-others
				runtime.Goexit()
				return nil
			}
			if x.store > 0 {
				w.Store.FailIn(x.store)
			}
			if x.key > 0 {
				w.Key.Exits = true
				w.Key.FailIn(x.key)
			}
			key := kerneltest.WithKey("k")
			var all sync.WaitGroup
			all.Go(func() { w.Call("echo", `{}`, key) })
			if x.store > 0 { // others wait for the call
				<-inside
				all.Go(func() { w.Call("echo", `{}`, key) })
				all.Go(func() { _ = w.Kernel.CloseSession(context.Background(), "s") })
				for range 100 {
					runtime.Gosched()
				}
				close(others)
			}
			kerneltest.Within(t, 10*time.Second, "the call and its repeats", func() {
				all.Wait()
				broken.Store(false)
				d, _ := w.Call("echo", `{}`, key)
				assert.Equal(t, contracts.ReasonKernelSealed, d.Reason, "the kernel goes on with")
				assert.NoError(t, w.Kernel.Close())
			})
			w.MustRecover(nil)
		})
	}
}

// Callers that wait for the first call of a key when its goroutine ends are told that its outcome
// is unknown.
func TestRepeatOfACallWhoseGoroutineEnds(t *testing.T) {
	kerneltest.OneWriter(t, "a repeat commits too, and then its own goroutine may be the one that ends")
	t.Parallel()
	w := kerneltest.New(t)
	hold, started := make(chan struct{}), make(chan struct{})
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		close(started)
		<-hold
		return executor.Result{}, nil
	}
	key := kerneltest.WithKey("k")
	w.Store.OnFail = func(error) error { runtime.Goexit(); return nil }
	go w.Call("echo", `{}`, key)
	<-started
	w.Store.FailIn(1)
	repeat := make(chan helm.Decision)
	go func() { d, _ := w.Call("echo", `{}`, key); repeat <- d }()
	for range 100 {
		runtime.Gosched() // so that it may wait
	}
	close(hold)
	kerneltest.Within(t, 10*time.Second, "the repeat", func() {
		d := <-repeat
		sealed := d.Reason == contracts.ReasonKernelSealed && errors.Is(d.Err(), helm.ErrDenied)
		unknown := d.Reason == contracts.ReasonReceiptNotStored && errors.Is(d.Err(), helm.ErrWithheld)
		assert.True(t, sealed || unknown, "%s: %v", d.Reason, d.Err())
	})
}

// A second CloseSession of one session returns once the close is on record, or could not be.
func TestCloseSessionTwiceAtOnce(t *testing.T) {
	kerneltest.OneWriter(t, "who waits for the session waits for its lock, which synctest does not see")
	t.Parallel()
	for _, stored := range []error{nil, kerneltest.ErrDisk} {
		synctest.Test(t, func(t *testing.T) {
			w := kerneltest.New(t)
			w.Call("echo", `{}`)
			release := make(chan struct{})
			w.Store.OnFail = func(error) error { <-release; return stored }
			w.Store.FailIn(1)
			closed := make(chan error, 2)
			for range 2 {
				go func() { closed <- w.Kernel.CloseSession(context.Background(), "s") }()
			}
			synctest.Wait()
			assert.Empty(t, closed, "%d closed it before it was on record", len(closed))
			close(release)
			for range 2 {
				assert.ErrorIs(t, <-closed, stored)
			}
			err := w.Kernel.CloseSession(context.Background(), "s")
			assert.True(t, stored != nil || err == nil, "again: %v", err)
		})
	}
}

package helm_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/stretchr/testify/assert"
)

// A running call holds no room: tools that call Guard are admitted, however many run.
func TestRoomOfCallsInsideCalls(t *testing.T) {
	t.Parallel()
	withRoom(t, 2, func(w *callers) {
		const callers = 8
		var arrived atomic.Int64
		inside := make(chan struct{})
		w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
			if c.Tool != "echo" {
				return executor.Result{Output: []byte(`{"ok":true}`)}, nil
			}
			if arrived.Add(1) == callers {
				close(inside)
			}
			<-inside // until all of them run at once
			d, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`)})
			return executor.Result{Output: r.Output}, d.Err()
		}
		var list []*answered
		for i := range callers {
			list = append(list, w.start(context.Background(), helm.Intent{Tool: "echo", Session: fmt.Sprint("s", i%3)}))
		}
		w.mustSucceed(list...)
		w.MustVerify()
	})
}

// Receipts wait for no room: calls that ran while the queue filled up are recorded in the same
// queue.
func TestReceiptsNeedNoRoom(t *testing.T) {
	t.Parallel()
	withRoom(t, 3, func(w *callers) {
		hold := make(chan struct{})
		w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
			if c.Session == "running" {
				<-hold
			}
			return executor.Result{Output: c.Args}, nil
		}
		running := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "running"})
		list := append(w.fill(3), w.start(context.Background(), helm.Intent{Tool: "echo", Session: "running"}))
		w.mustHold(3, 1)
		signed := w.Key.Signatures()
		close(hold)
		synctest.Wait()
		n := w.Key.Signatures() - signed
		assert.Equal(t, int64(1), n)
		assert.False(t, running.done)
		w.blocking.Unblock()
		w.mustSucceed(append(list, running)...)
		w.MustVerify()
	})
}

// A call that was admitted after waiting, and repeats a key, returns its room before it waits
// for the first call.
func TestRoomOfRepeats(t *testing.T) {
	t.Parallel()
	withRoom(t, 2, func(w *callers) {
		hold := make(chan struct{})
		w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
			if c.Session == "keyed" {
				<-hold
			}
			return executor.Result{Output: c.Args}, nil
		}
		in := helm.Intent{Tool: "echo", Session: "keyed", Idempotency: "k"}
		list := w.fill(2)
		for range 5 {
			list = append(list, w.start(context.Background(), in))
		}
		w.mustHold(2, 5)
		w.blocking.Unblock()
		w.mustHold(0, 0) // one runs, the others wait for it
		again := w.fill(2)
		w.blocking.Unblock()
		w.mustSucceed(again...)
		close(hold)
		w.mustSucceed(list...)
		assert.Equal(t, int64(5), w.Runs.Load())
		w.MustVerify()
	})
}

// A call that was admitted after waiting, and finds its session closing, returns its room before
// it waits for the close.
func TestRoomOfCallsThatWaitForAClose(t *testing.T) {
	t.Parallel()
	withRoom(t, 2, func(w *callers) {
		hold := make(chan struct{})
		w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
			if c.Session == "closing" && c.Tool == "echo" {
				<-hold
				d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`)})
				assert.NoError(t, d.Err()) // which needs room
			}
			return executor.Result{Output: []byte(`{"ok":true}`)}, nil
		}
		in := helm.Intent{Tool: "echo", Session: "closing"}
		running := w.start(context.Background(), in)
		list := w.fill(2)
		var late []*answered
		for range 3 {
			late = append(late, w.start(context.Background(), in))
		}
		w.mustHold(2, 3)
		var closed error
		w.all.Go(func() { closed = w.Kernel.CloseSession(context.Background(), "closing") })
		synctest.Wait()
		w.blocking.Unblock()
		w.mustHold(0, 0)
		again := w.fill(2)
		close(hold) // the call inside the running one has to wait for room, as every call has
		w.mustHold(2, 1)
		w.blocking.Unblock()
		w.mustSucceed(append(append(list, again...), running)...)
		for _, a := range late {
			assert.True(t, a.done, "after the close")
			assert.Equal(t, contracts.ReasonSessionClosed, a.d.Reason)
			assert.Equal(t, contracts.Denied, a.r.Record.Outcome)
		}
		assert.NoError(t, closed)
		w.MustVerify()
	})
}

// No caller waits for room with its session locked: other calls of the session come as far, running
// ones sign their receipts, and it can be closed.
func TestWaitingForRoomHoldsNoLock(t *testing.T) {
	t.Parallel()
	withRoom(t, 1, func(w *callers) {
		w.fill(1)
		ctx, cancel := context.WithCancel(context.Background())
		first := w.start(ctx, helm.Intent{Tool: "echo", Session: "s"})
		second := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "s"})
		w.mustHold(1, 2)
		var closed error
		done := false
		w.all.Go(func() { closed = w.Kernel.CloseSession(context.Background(), "s"); done = true })
		synctest.Wait()
		assert.False(t, done, "closed before the close is durable")
		cancel()
		w.mustHold(1, 1)
		w.blocking.Unblock()
		synctest.Wait()
		assert.True(t, done)
		assert.NoError(t, closed)
		assert.Equal(t, contracts.ReasonFailClosedError, first.d.Reason)
		assert.Equal(t, contracts.ReasonSessionClosed, second.d.Reason)
		w.MustVerify()
	})
}

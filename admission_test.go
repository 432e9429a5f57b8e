package helm_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
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
	"github.com/stretchr/testify/require"
)

// callers is a world whose store can block, and calls that wait for it.
type callers struct {
	*kerneltest.World
	blocking *kerneltest.BlockingStore
	all      sync.WaitGroup
}

// answered is the answer to a call, once there is one.
type answered struct {
	done bool
	d    helm.Decision
	r    helm.Receipt
}

// withRoom runs f on a kernel with room for so many decisions. It does so in a bubble of package
// synctest: if every goroutine waits for another, the test fails at once.
func withRoom(t *testing.T, room int, f func(w *callers)) {
	t.Helper()
	kerneltest.OneWriter(t, "its store blocks, and calls of a session wait for a lock, which synctest does not see")
	synctest.Test(t, func(t *testing.T) {
		w := &callers{blocking: &kerneltest.BlockingStore{}}
		w.World = kerneltest.New(t, func(o *helm.Options) {
			w.blocking.Store = o.Store
			o.Store = w.blocking
		})
		w.Kernel.SetRoom(room)
		f(w)
		w.all.Wait()
		taken, waiting := w.Kernel.Room()
		assert.Zero(t, taken)
		assert.Zero(t, waiting)
	})
}

// start makes a call that may have to wait, and lets it go as far as it can.
func (w *callers) start(ctx context.Context, in helm.Intent) *answered {
	if in.Args == nil {
		in.Args = []byte(`{}`)
	}
	a := new(answered)
	w.all.Go(func() {
		d, r := w.Kernel.Guard(ctx, in)
		*a = answered{true, d, r}
	})
	synctest.Wait()
	return a
}

// fill blocks the store and makes n calls.
func (w *callers) fill(n int) (list []*answered) {
	w.T.Helper()
	w.blocking.Block()
	for i := range n {
		list = append(list, w.start(context.Background(), helm.Intent{Tool: "echo", Session: fmt.Sprint("fill-", i)}))
	}
	w.mustHold(n, 0)
	return list
}

// mustHold compares how many decisions are in the queue, and how many calls wait for room.
func (w *callers) mustHold(taken, waiting int) {
	w.T.Helper()
	synctest.Wait()
	a, b := w.Kernel.Room()
	assert.Equal(w.T, taken, a)
	assert.Equal(w.T, waiting, b)
}

// mustSucceed holds calls to their success.
func (w *callers) mustSucceed(list ...*answered) {
	w.T.Helper()
	synctest.Wait()
	for _, a := range list {
		assert.True(w.T, a.done)
		assert.NoError(w.T, a.d.Err())
		assert.Equal(w.T, contracts.Executed, a.r.Record.Outcome)
	}
}

// While the store does not write, as many decisions are signed as there is room for, in one session
// or in many, and not one more; and at most 64 MiB of arguments. Then all calls are served.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name           string
		callers, room  int
		sessions, size int
	}{
		{"many sessions", helm.Capacity + 40, helm.Capacity, 100, 0},
		{"denials in one session", helm.Capacity + 40, helm.Capacity, 1, -1},
		{"large arguments", 70, 64, 7, 1000 << 10}, // 1 and 15 more for each
	} {
		t.Run(x.name, func(t *testing.T) {
			withRoom(t, helm.Capacity, func(w *callers) {
				in := helm.Intent{Tool: "echo", Args: []byte(`{}`)}
				if x.size > 0 {
					in.Args = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", x.size))
					w.Tool = kerneltest.NoOutput(nil)
				} else if x.size < 0 {
					in.Tool = "nobody"
				}
				before := w.Key.Signatures()
				w.blocking.Block()
				var served atomic.Int64
				for i := range x.callers {
					in := in
					in.Session = fmt.Sprint("s", i%x.sessions)
					w.all.Go(func() {
						if _, r := w.Kernel.Guard(context.Background(), in); r.Entry != nil {
							served.Add(1)
						}
					})
				}
				synctest.Wait()
				n := w.Key.Signatures() - before
				assert.Equal(t, x.room, int(n))
				assert.Zero(t, served.Load())
				w.blocking.Unblock()
				w.all.Wait()
				assert.Equal(t, x.callers, int(served.Load()))
				w.MustVerify()
			})
		})
	}
}

// A call whose context ends while it waits for room is told so: nothing is recorded of it, nothing
// ran, and the kernel continues. A call in the queue waits for the store, whatever its context
// says.
func TestContextEndsWhileWaitingForRoom(t *testing.T) {
	t.Parallel()
	withRoom(t, 3, func(w *callers) {
		queued, cancel := context.WithCancel(context.Background())
		first := w.fill(2)
		inside := w.start(queued, helm.Intent{Tool: "echo", Session: "queued"})
		w.mustHold(3, 0)
		w.Events = nil
		signed := w.Key.Signatures()

		ended, end := context.WithCancel(context.Background())
		short, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		var turned []*answered
		for _, in := range []helm.Intent{{Tool: "echo", Session: "s"}, {Tool: "nobody", Session: "fill-0"},
			{Tool: "echo", Session: "a b"}} {
			turned = append(turned, w.start(ended, in), w.start(short, in))
		}
		patient := w.start(context.Background(), helm.Intent{Tool: "echo", Session: "patient"})
		w.mustHold(3, 7)
		end()
		cancel()
		time.Sleep(2 * time.Second)
		// over when they come
		turned = append(turned, w.start(ended, helm.Intent{Tool: "echo", Session: "s"}),
			w.start(short, helm.Intent{Tool: "nobody"}))
		w.mustHold(3, 1)
		for i, a := range turned {
			cause := []error{context.Canceled, context.DeadlineExceeded}[i%2]
			err := a.d.Err()
			assert.True(t, a.done, "call %d", i)
			assert.Equal(t, contracts.Deny, a.d.Verdict, "call %d", i)
			assert.Equal(t, contracts.ReasonFailClosedError, a.d.Reason, "call %d", i)
			assert.ErrorIs(t, err, helm.ErrDenied, "call %d", i)
			assert.ErrorIs(t, err, cause, "call %d", i)
			assert.Nil(t, a.r.Entry, "call %d", i)
			assert.Empty(t, a.r.Record.Outcome, "call %d", i)
			assert.Empty(t, a.d.Record.ID, "call %d", i)
		}
		assert.Len(t, w.Events, len(turned))
		for _, e := range w.Events {
			assert.Equal(t, contracts.ReasonFailClosedError, e.Reason)
			assert.Error(t, e.Err)
			assert.Empty(t, e.ID)
		}
		n := w.Key.Signatures()
		assert.Equal(t, signed, n, "the call in the queue is done")
		assert.False(t, inside.done)
		size := w.Size()
		w.blocking.Unblock()
		w.mustSucceed(append(first, patient)...)
		assert.NotEmpty(t, inside.r.Record.Outcome, "the call in the queue")
		assert.NotEqual(t, contracts.ReasonFailClosedError, inside.d.Reason)
		assert.Equal(t, size+8, w.Size(), "two entries for each of four calls")
		late, r := w.Kernel.Guard(ended, helm.Intent{Tool: "echo", Args: []byte(`{}`)}) // with room it is recorded
		assert.Equal(t, contracts.ReasonFailClosedError, late.Reason, "with room")
		assert.Equal(t, contracts.Denied, r.Record.Outcome)
		assert.ErrorIs(t, late.Err(), context.Canceled)
		w.MustVerify()
	})
}

// A call that is admitted when its context has already ended keeps its room: it is recorded.
func TestContextEndsWithTheTurn(t *testing.T) {
	t.Parallel()
	recorded, turned := 0, 0
	for range 40 { // which of both is seen first is chance
		withRoom(t, 1, func(w *callers) {
			w.fill(1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			a := w.start(ctx, helm.Intent{Tool: "echo", Session: "s"})
			go cancel()
			w.blocking.Unblock()
			synctest.Wait()
			assert.True(t, a.done)
			assert.NotEqual(t, a.d.Reason == contracts.ReasonFailClosedError, a.d.Reason == contracts.ReasonAllow ||
				a.d.Reason == contracts.ReasonToolCanceled)
			if a.r.Entry != nil {
				recorded++
			} else {
				turned++
			}
			w.MustVerify()
		})
	}
	t.Logf("%d recorded, %d turned away", recorded, turned)
}

// A caller that waits, be it for room, for a session that closes or for the call that it repeats,
// keeps the bytes of its arguments and not what was read of them, which is up to 20 times as much.
// It reads them again when its turn comes.
func TestWaitingKeepsBytesAlone(t *testing.T) {
	const n = 4
	args := []byte(`{"more":[` + strings.Repeat("0,", 50<<10) + `0]}`)
	heap := func() float64 {
		synctest.Wait()
		runtime.GC()
		runtime.GC() // what is pooled goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for _, why := range []string{"room", "close", "repeat"} {
		withRoom(t, helm.Capacity, func(w *callers) {
			require.NoError(t, w.Kernel.Swap(context.Background(), kerneltest.Version(t, 2,
				"{text: {type: string}, n:", "{text: {type: string}, more: {type: array, items: {type: number}}, n:")))
			hold := make(chan struct{})
			w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				<-hold
				return executor.Result{}, nil
			}
			in := helm.Intent{Tool: "echo", Session: "s", Args: args}
			if why == "repeat" {
				in.Idempotency = "k"
			}
			list := []*answered{w.start(context.Background(), in)}
			switch why {
			case "room":
				w.Kernel.SetRoom(1)
				list = append(list, w.fill(1)...)
			case "close":
				w.all.Go(func() { assert.NoError(t, w.Kernel.CloseSession(context.Background(), "s")) })
			}
			before := heap()
			for range n {
				list = append(list, w.start(context.Background(), in))
			}
			each := (heap() - before) / n / float64(len(args))
			t.Logf("%s: %.2f bytes for each byte of the arguments", why, each)
			assert.Less(t, each, 1.5, why)
			close(hold)
			if why == "room" {
				w.blocking.Unblock()
			}
			w.all.Wait()
			for i, a := range list {
				want := contracts.ReasonAllow
				if why == "close" && i > 0 {
					want = contracts.ReasonSessionClosed
				}
				assert.Equal(t, want, a.d.Reason, "%s: %s", why, a.d.Why)
			}
			assert.Equal(t, list[0].d.Record.ArgsHash, list[len(list)-1].d.Record.ArgsHash, why)
			w.MustVerify()
		})
	}
}

// A text of the user waits for room as a call does, and takes as much as its length asks for. If
// its context ends, or the kernel is sealed, while it waits, nothing is recorded.
func TestUserMessageWaitsForRoom(t *testing.T) {
	t.Parallel()
	for name, seals := range map[string]bool{"the store goes on": false, "the store fails": true} {
		t.Run(name, func(t *testing.T) {
			withRoom(t, 5, func(w *callers) {
				say := func(ctx context.Context, session string, n int) chan error {
					said := make(chan error, 1)
					w.all.Go(func() { said <- w.Kernel.UserMessage(ctx, session, strings.Repeat("x", n)) })
					synctest.Wait()
					return said
				}
				bg := context.Background()
				ctx, cancel := context.WithCancel(bg)
				calls := w.fill(1)
				small := say(bg, "s", 65_535)
				w.mustHold(2, 0)
				gone, large := say(ctx, "t", 262_144), say(bg, "u", 262_144)
				w.mustHold(2, 2)
				queued := w.start(bg, helm.Intent{Tool: "echo", Session: "s"})
				w.mustHold(2, 3)
				cancel()
				synctest.Wait()
				assert.EqualError(t, <-gone, "helm: user message: the context ended")
				w.mustHold(2, 2)
				assert.Empty(t, small, "was not durable")
				if seals {
					w.blocking.Fail()
					synctest.Wait()
					assert.ErrorContains(t, <-small, "helm: user message: it could not be signed or stored: ")
					assert.ErrorContains(t, <-large, "helm: user message: the kernel is sealed: ")
					return
				}
				w.blocking.Unblock()
				w.mustSucceed(append(calls, queued)...)
				assert.NoError(t, <-small)
				assert.NoError(t, <-large)
				for _, st := range w.Statements() {
					assert.NotEqual(t, "t", st.Session, "recorded, though the context ended")
				}
			})
		})
	}
}

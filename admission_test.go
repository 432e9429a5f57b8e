package helm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// A crowd is a world with a dam, and room for a few.
type crowd struct {
	*kerneltest.World
	dam *kerneltest.BlockingStore
	all sync.WaitGroup
}

// answered is what a call came to, once it did.
type answered struct {
	done bool
	d    helm.Decision
	r    helm.Receipt
}

func inCrowd(t *testing.T, room int, f func(w *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &crowd{dam: &kerneltest.BlockingStore{}}
		w.World = kerneltest.New(t, func(o *helm.Options) {
			w.dam.Store = o.Store
			o.Store = w.dam
		})
		w.Kernel.SetRoom(room)
		f(w)
		w.all.Wait()
		if taken, waiting := w.Kernel.Room(); taken != 0 || waiting != 0 {
			t.Errorf("in the end %d are in the room and %d wait for it", taken, waiting)
		}
	})
}

// come makes a call that may have to wait, and lets it go as far as it can.
func (w *crowd) come(ctx context.Context, in helm.Intent) *answered {
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

// fill shuts the dam and has as many come as there is room for.
func (w *crowd) fill(n int) (list []*answered) {
	w.T.Helper()
	w.dam.Block()
	for i := range n {
		list = append(list, w.come(context.Background(), helm.Intent{Tool: "echo", Session: fmt.Sprint("fill-", i)}))
	}
	w.mustHold(n, 0)
	return list
}

// mustHold says how many decisions stand in the queue, and how many calls wait for room.
func (w *crowd) mustHold(taken, waiting int) {
	w.T.Helper()
	synctest.Wait()
	if a, b := w.Kernel.Room(); a != taken || b != waiting {
		w.T.Errorf("%d in the room and %d waiting, want %d and %d", a, b, taken, waiting)
	}
}

func (w *crowd) mustSucceed(list ...*answered) {
	w.T.Helper()
	synctest.Wait()
	for _, a := range list {
		if !a.done || a.d.Err() != nil || a.r.Record.Outcome != contracts.Executed {
			w.T.Errorf("done %v: %s %v", a.done, a.d.Reason, a.d.Err())
		}
	}
}

// With a store that does not write, as many decisions are signed as there is room for, in one session or in many, and not one more; and 64 MiB
// of arguments. Then all of them are served.
func TestQueueIsBounded(t *testing.T) {
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
			inCrowd(t, helm.Capacity, func(w *crowd) {
				in := helm.Intent{Tool: "echo", Args: []byte(`{}`)}
				if x.size > 0 {
					in.Args = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", x.size))
					w.Tool = kerneltest.NoOutput(nil)
				} else if x.size < 0 {
					in.Tool = "nobody"
				}
				before := w.Key.Signatures()
				w.dam.Block()
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
				if n := w.Key.Signatures() - before; int(n) != x.room || served.Load() != 0 {
					t.Errorf("%d decisions were signed, want %d; %d were served", n, x.room, served.Load())
				}
				w.dam.Unblock()
				w.all.Wait()
				if n := served.Load(); int(n) != x.callers {
					t.Errorf("%d of %d were served", n, x.callers)
				}
				w.MustVerify()
			})
		})
	}
}

// Whose context ends while it waits for room is told so; nothing is recorded of it, nothing ran, and the kernel goes on. What stands in the
// queue waits for the store, whatever its context says.
func TestContextEndsWhileWaitingForRoom(t *testing.T) {
	inCrowd(t, 3, func(w *crowd) {
		queued, cancel := context.WithCancel(context.Background())
		first := w.fill(2)
		inside := w.come(queued, helm.Intent{Tool: "echo", Session: "queued"})
		w.mustHold(3, 0)
		w.Events = nil
		signed := w.Key.Signatures()

		ended, end := context.WithCancel(context.Background())
		short, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		var turned []*answered
		for _, in := range []helm.Intent{{Tool: "echo", Session: "s"}, {Tool: "nobody", Session: "fill-0"}, {Tool: "echo", Session: "a b"}} {
			turned = append(turned, w.come(ended, in), w.come(short, in))
		}
		patient := w.come(context.Background(), helm.Intent{Tool: "echo", Session: "patient"})
		w.mustHold(3, 7)
		end()
		cancel()
		time.Sleep(2 * time.Second)
		turned = append(turned, w.come(ended, helm.Intent{Tool: "echo", Session: "s"}), w.come(short, helm.Intent{Tool: "nobody"})) // over when they come
		w.mustHold(3, 1)
		for i, a := range turned {
			cause := []error{context.Canceled, context.DeadlineExceeded}[i%2]
			err := a.d.Err()
			if !a.done || a.d.Verdict != contracts.Deny || a.d.Reason != contracts.ReasonFailClosedError || !errors.Is(err, helm.ErrDenied) || !errors.Is(err, cause) {
				t.Errorf("call %d: done %v, %s %v", i, a.done, a.d.Reason, err)
			}
			if a.r.Entry != nil || a.r.Record.Outcome != "" || a.d.Record.ID != "" {
				t.Errorf("call %d: a record %+v", i, a.r.Record)
			}
		}
		if len(w.Events) != len(turned) {
			t.Errorf("%d events of %d calls", len(w.Events), len(turned))
		}
		for _, e := range w.Events {
			if e.Reason != contracts.ReasonFailClosedError || e.Err == nil || e.ID != "" {
				t.Errorf("%+v", e)
			}
		}
		if n := w.Key.Signatures(); n != signed || inside.done {
			t.Errorf("%d signatures more; the call in the queue is done: %v", n-signed, inside.done)
		}
		size := w.Size()
		w.dam.Unblock()
		w.mustSucceed(append(first, patient)...)
		if inside.r.Record.Outcome == "" || inside.d.Reason == contracts.ReasonFailClosedError {
			t.Errorf("the call in the queue: %s, %+v", inside.d.Reason, inside.r.Record)
		}
		if n := w.Size() - size; n != 8 {
			t.Errorf("%d entries of four calls", n)
		}
		late, r := w.Kernel.Guard(ended, helm.Intent{Tool: "echo", Args: []byte(`{}`)}) // with room it is recorded
		if late.Reason != contracts.ReasonFailClosedError || r.Record.Outcome != contracts.Denied || !errors.Is(late.Err(), context.Canceled) {
			t.Errorf("with room: %s, %+v", late.Reason, r.Record)
		}
		w.MustVerify()
	})
}

// A call whose turn it is, and whose context has ended meanwhile, has its room: it is recorded.
func TestContextEndsWithTheTurn(t *testing.T) {
	recorded, turned := 0, 0
	for range 40 { // which of both is seen first is chance
		inCrowd(t, 1, func(w *crowd) {
			w.fill(1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			a := w.come(ctx, helm.Intent{Tool: "echo", Session: "s"})
			go cancel()
			w.dam.Unblock()
			synctest.Wait()
			if !a.done || (a.d.Reason == contracts.ReasonAllow || a.d.Reason == contracts.ReasonToolCanceled) == (a.d.Reason == contracts.ReasonFailClosedError) {
				t.Errorf("done %v: %s", a.done, a.d.Reason)
			}
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

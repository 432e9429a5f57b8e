package helmtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmkernel/helm/proofgraph"
)

// A writer is of no more use after an error, so that each call has another one.
func endedForWriters(t *sharedTrial) {
	guess, c := t.full("the first")
	t.put(t.watch, guess, c)
	canceled, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Time{})
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		guess, c := t.full("of the ended")
		honoured := func(method string, err error) {
			t.Helper()
			t.step = fmt.Sprintf("%s under a context with the error %q: ", method, ctx.Err())
			if !errors.Is(err, ctx.Err()) {
				t.Errorf("it returns the error %v", err)
			}
			t.refused(c)
			t.holds()
			t.step = ""
		}
		honoured("Append", t.shared.Append(ctx, t.batch("of the ended")))
		_, err := t.shared.Join(ctx, sharedOrigin)
		honoured("Join", err)
		list, err := placed(ctx, t.shared, "a", 0)
		honoured("Session", err)
		if len(list) > 0 {
			t.Errorf("under a context that had ended, Session returns %d entries", len(list))
		}
		_, err = t.join(t.shared).Put(ctx, guess, c)
		honoured("Put", err)
		_, err = t.join(t.shared).Turn(ctx, proofgraph.Ask{})
		honoured("Turn", err)
		w := t.join(t.shared)
		t.takeTurn(w, proofgraph.Ask{Balances: c.Spent})
		honoured("End", w.End(ctx, c)) // the turn has ended
		_, err = t.join(t.shared).Dead(ctx)
		honoured("Dead", err)
		honoured("Leave", t.join(t.shared).Leave(ctx))
		guess, c = t.draft("a: after it")
		t.put(t.watch, guess, c)
		t.holds()
	}
	t.reopen()
	t.holds()
}

// A put and a turn wait for another writer's turn, and the context ends. The put is written
// afterwards or not.
func endsInWait(t *sharedTrial) {
	other := t.join(t.another())
	for _, method := range []string{"Turn", "Put"} {
		t.step = method + ": "
		var (
			ctx, cancel = context.WithCancel(t.ctx)
			guess, c    = t.full("of a context that ends: " + method)
			w           = t.join(t.shared)
			done        = make(chan struct{})
			err         error
		)
		t.takeTurn(other, proofgraph.Ask{}) // last, because a store may end a turn that takes long
		go func() {
			defer close(done)
			if method == "Turn" {
				_, err = w.Turn(ctx, proofgraph.Ask{})
			} else {
				_, err = w.Put(ctx, guess, c)
			}
		}()
		t.linger()
		cancel()
		patient, over := context.WithTimeout(t.ctx, t.patience)
		waits := false
		select {
		case <-done:
		case <-patient.Done():
			waits = true
		}
		over()
		t.end(other, proofgraph.Change{})
		<-done
		if waits || err == nil {
			t.Errorf("the context has ended, and it waits for the turn of another: %t; it returns the error %v", waits,
				err)
		}
		t.leave(w) // after which nothing of it is written
		t.unknown(method == "Put", c)
		t.holds()
		guess, c = t.draft("a: after it")
		t.put(t.watch, guess, c)
	}
}

// unknown adds a change to the twin if it was written.
func (t *sharedTrial) unknown(may bool, c proofgraph.Change) {
	t.Helper()
	size, err := t.shared.Size(t.ctx)
	if may && err == nil && size == uint64(len(t.twin.entries)+len(c.Entries)) {
		t.wrote(c)
	} else {
		t.refused(c)
	}
}

// The context ends when the writer calls its Err or Done for the first time, then for the second
// time, and so on.
func endsInPut(t *sharedTrial) {
	for n, asked := 1, true; asked && n <= 64; n++ {
		t.step = fmt.Sprintf("the context ends when it is used the %dth time: ", n)
		guess, c := t.full(fmt.Sprintf("put %d", n))
		ctx := endingAt(n)
		w := t.join(t.shared)
		_, err := w.Put(ctx, guess, c)
		asked = ctx.ended()
		if err == nil {
			t.wrote(c)
		} else if !asked {
			t.Fatalf("Put: %v", err)
		} else {
			t.leave(w)
			t.reopen()
			t.unknown(true, c)
		}
		t.holds()
		guess, c = t.draft("a: after it")
		t.put(t.watch, guess, c)
	}
}

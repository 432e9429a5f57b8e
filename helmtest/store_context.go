package helmtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/helmkernel/helm/crypto"
)

func ended(t *trial) {
	b := t.batch("a", "b", "c")
	b.Blobs, b.Checkpoint = texts("blob"), []byte("note")
	t.append(b)
	canceled, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Time{})
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		t.step = fmt.Sprintf("under a context with the error %q: ", ctx.Err())
		honoured := func(method string, err error) {
			t.Helper()
			if !errors.Is(err, ctx.Err()) {
				t.Errorf("%s gives the error %v", method, err)
			}
		}
		b := t.batch("d")
		b.Blobs, b.Checkpoint = texts("of the ended"), []byte("of the ended")
		honoured("Append", t.store.Append(ctx, b))
		t.twin.refuse(b)
		_, err := t.store.Size(ctx)
		honoured("Size", err)
		list, err := read(ctx, t.store, 0, 3)
		honoured("Entries", err)
		if len(list) > 0 {
			t.Errorf("Entries gives %d", len(list))
		}
		_, err = t.store.Blob(ctx, crypto.Sum([]byte("blob")))
		honoured("Blob", err)
		_, err = t.store.Checkpoint(ctx)
		honoured("Checkpoint", err)
		t.step = "after a call under a context that had ended: "
		t.same()
		t.append(t.batch("after"))
		t.same()
	}
	t.step = ""
	t.reopen()
	t.same()
}

// The context ends when the store calls its Err or Done for the first time, then for the second
// time, and so on.
func endsInAppend(t *trial) {
	t.append(t.batch("before"))
	for n, asked := 1, true; asked && n <= 64; n++ {
		t.step = fmt.Sprintf("the context ends when it is asked the %dth time: ", n)
		b := t.batch("one of two", "two of two")
		b.Blobs, b.Checkpoint = texts(fmt.Sprintf("blob %d", n)), fmt.Appendf(nil, "note %d", n)
		ctx := endingAt(n)
		err := t.store.Append(ctx, b)
		asked = ctx.ended()
		switch {
		case err == nil:
			t.twin.add(b)
		case !asked:
			t.Fatalf("Append: %v", err)
		default: // whether the batch was stored is unknown until the store is opened again
			t.reopen()
			if size, err := t.store.Size(t.ctx); err == nil && size == b.At {
				t.twin.refuse(b)
			} else {
				t.twin.add(b)
			}
		}
		t.same()
		t.append(t.batch("after"))
	}
	t.step = ""
	t.reopen()
	t.same()
}

func endsInIteration(t *trial) {
	t.append(t.batch("a", "b", "c", "d", "e"))
	for n, asked := 1, true; asked && n <= 64; n++ {
		ctx := endingAt(n)
		list, err := read(ctx, t.store, 0, 5)
		asked = ctx.ended()
		if err == nil && len(list) != 5 || err != nil && (!asked || !errors.Is(err, context.Canceled)) {
			t.Errorf("the context ends when it is asked the %dth time: %d entries of 5, and the error %v", n, len(list),
				err)
		}
		for i, e := range list {
			if string(e) != t.twin.entries[i] {
				t.Errorf("the context ends when it is asked the %dth time: entry %d is %s", n, i, brief(e))
			}
		}
	}

	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("entry %d", i)
	}
	for range 5 {
		t.append(t.batch(many...))
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	seen := 0
	var last error
	for _, err := range t.store.Entries(ctx, 0, 5005) {
		cancel()
		if last = err; err == nil {
			seen++
		}
	}
	if seen == 5005 || !errors.Is(last, context.Canceled) {
		t.Errorf("the context ended at the first entry of 5005: %d were given, and the error %v", seen, last)
	}
	t.same()
}

// An ending context is canceled at the nth call of Err or Done.
type ending struct {
	context.Context
	mu   sync.Mutex // protects left and the closing of done
	left int
	done chan struct{}
}

func endingAt(n int) *ending {
	return &ending{Context: context.Background(), left: n, done: make(chan struct{})}
}

func (c *ending) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

func (c *ending) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= 0
}

func (c *ending) Done() <-chan struct{} {
	c.ask()
	return c.done
}

func (c *ending) Err() error {
	if c.ask(); c.ended() {
		return context.Canceled
	}
	return nil
}

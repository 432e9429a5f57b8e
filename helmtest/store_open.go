package helmtest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// The store is opened again after each batch, whatever was in the batch.
func again(t *trial) {
	for i := range 3 {
		for _, b := range []proofgraph.Batch{
			{Blobs: texts(fmt.Sprintf("blob %d before entries", i))},
			{Checkpoint: fmt.Appendf(nil, "note %d", i)},
			{},
			{Entries: []contracts.Entry{fmt.Appendf(nil, "entry %d", i), []byte("next")}},
			{Entries: []contracts.Entry{[]byte("a"), []byte("b")}, Blobs: texts("blob", fmt.Sprintf("blob %d", i)),
				Checkpoint: fmt.Appendf(nil, "%d, at last", i)},
		} {
			b.At = uint64(len(t.twin.entries))
			t.append(b)
			t.reopen()
			t.same()
			if b.At > 0 {
				b = t.batch("too early")
				b.At--
				t.conflict(b)
			}
		}
	}
	t.reopen() // with nothing written
	t.reopen()
	t.same()
}

// Two processes write to one log: neither overwrites the other's entries, and each sees all.
func shared(t *trial) {
	if _, ok := as[io.Closer](t.store); ok {
		t.Skipf("it has a method Close: one at a time has it open")
	}
	one := t.store
	t.reopen()
	stores := []proofgraph.Store{one, t.store}
	for i := range t.some(20) {
		stale := t.batch("stale")
		stale.Blobs, stale.Checkpoint = texts(fmt.Sprintf("stale %d", i)), []byte("stale")
		b := t.batch(fmt.Sprintf("entry %d", i), "by one of two")
		b.Blobs, b.Checkpoint = texts(fmt.Sprintf("blob %d", i)), fmt.Appendf(nil, "note %d", i)
		t.store = stores[i%2]
		t.append(b)
		t.store = stores[1-i%2]
		if i%3 == 0 {
			t.same() // before the refusal or after it
		}
		t.conflict(stale)
		t.same()
	}
	contend(t, stores...)
	t.reopen()
	t.same()
}

func closed(t *trial) {
	c, ok := as[io.Closer](t.store)
	if !ok {
		t.Skipf("it has no method Close")
	}
	b := t.batch("a", "b")
	b.Blobs, b.Checkpoint = texts("blob"), []byte("note")
	t.append(b)
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for range 2 {
		b := t.batch("c")
		b.Blobs, b.Checkpoint = texts("of the closed"), []byte("of the closed")
		err := t.store.Append(t.ctx, b)
		t.twin.refuse(b)
		if err == nil || errors.Is(err, proofgraph.ErrConflict) {
			t.Errorf("closed: Append gives the error %v, want one that says closed", err)
		}
		if n, err := t.store.Size(t.ctx); err == nil {
			t.Errorf("closed: Size gives %d and no error", n)
		}
		if list, err := read(t.ctx, t.store, 0, 2); err == nil {
			t.Errorf("closed: Entries gives %d and no error", len(list))
		}
		if b, err := t.store.Blob(t.ctx, crypto.Sum([]byte("blob"))); err == nil ||
			errors.Is(err, proofgraph.ErrNoBlob) {
			t.Errorf("closed: Blob gives %s and the error %v, want one that says closed", brief(b), err)
		}
		if b, err := t.store.Checkpoint(t.ctx); err == nil {
			t.Errorf("closed: Checkpoint gives %s and no error", brief(b))
		}
		t.closeAgain(c)
	}
	t.use(t.open())
	t.same()
	t.append(t.batch("c"))
	t.reopen()
	t.same()
}

// closeAgain calls Close a second time, which may return an error or not.
func (t *trial) closeAgain(c io.Closer) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("closed: Close panics: %v", p)
		}
	}()
	c.Close()
}

// A store is closed while one goroutine writes and others read: they get correct data or an error.
func closing(t *trial) {
	if _, ok := as[io.Closer](t.store); !ok {
		t.Skipf("it has no method Close")
	}
	for round := range t.some(8) {
		closer, _ := as[io.Closer](t.store) // another one each time
		var (
			all    sync.WaitGroup
			store  = t.store
			before = len(t.twin.entries)
			ready  = make(chan struct{}) // closed when something was acknowledged
			over   atomic.Bool           // Close has returned: each goroutine tries once more
			last   proofgraph.Batch
			cause  error // why the last was not stored
		)
		all.Go(func() {
			enough := sync.OnceFunc(func() { close(ready) })
			defer enough()
			for i, more := 0, true; more; i++ {
				more = !over.Load()
				last = numbered(len(t.twin.entries))
				if cause = store.Append(t.ctx, last); cause != nil {
					return
				}
				t.twin.add(last)
				if i == round {
					enough()
				}
			}
		})
		for range 3 {
			all.Go(func() {
				for r, more := (reader{trial: t}), true; more; {
					more = !over.Load()
					more = r.right(store) && more
				}
			})
		}
		<-ready
		err := closer.Close()
		over.Store(true)
		all.Wait()
		if err != nil || len(t.twin.entries) <= before+round*perBatch {
			t.Fatalf("Close, while others append: %v; Append, before that: %v", err, cause)
		}
		t.use(t.open())
		if size, err := t.store.Size(t.ctx); cause != nil && err == nil && size == last.At+perBatch {
			t.twin.add(last) // stored, and reported as failed
		} else {
			t.twin.refuse(last)
		}
		t.same()
	}
}

// right reports whether a read was correct. A reader learns from the first error that the store was
// closed.
func (r *reader) right(s proofgraph.Store) bool {
	size, err := s.Size(r.ctx)
	if err != nil {
		return false
	}
	i := size - min(size, 30)
	for e, err := range s.Entries(r.ctx, i, size) {
		if err != nil {
			return false
		}
		if string(e) != fmt.Sprintf("entry %d", i) {
			r.Errorf("while the store is closed, entry %d of %d is %s", i, size, brief(e))
			return false
		}
		i++
	}
	if i != size {
		r.Errorf("while the store is closed, the entries to %d end at %d, and without an error", size, i)
	}
	return i == size
}

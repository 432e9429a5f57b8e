package helmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// eraser returns the store as a [proofgraph.Eraser].
func (t *trial) eraser() proofgraph.Eraser {
	t.Helper()
	e, ok := as[proofgraph.Eraser](t.store)
	if !ok {
		t.Skipf("it has no method EraseBlob")
	}
	return e
}

// erase must erase a blob.
func (t *trial) erase(blob string) {
	t.Helper()
	if err := t.eraser().EraseBlob(t.ctx, crypto.Sum([]byte(blob))); err != nil {
		t.Fatalf("EraseBlob of %s: %v", brief([]byte(blob)), err)
	}
	t.twin.erase(blob)
}

func (w *twin) erase(blob string) {
	w.refuse(proofgraph.Batch{Blobs: texts(blob)})
	w.stored[blob] = false
}

// An erased blob is gone, however it came and whatever its bytes, and everything else is as it was.
func erases(t *trial) {
	long := strings.Repeat("long ", 30_000)
	nasty := []string{"", "\x00", strings.Repeat("\x00", 4096), strings.Repeat("X", 2000), long, long[:len(long)-1],
		"first", "one of two", "entry", "note", "twice", "last"}
	for _, blob := range nasty {
		b := t.batch("entry", "another")
		b.Blobs, b.Checkpoint = texts(blob, "beside "+brief([]byte(blob))), []byte("note")
		if blob == "twice" {
			b.Blobs = texts(blob, blob, "beside", blob)
		}
		t.append(b)
	}
	t.same()
	for i, blob := range nasty {
		t.erase(blob)
		t.same()
		t.erase(blob) // erasing an absent blob is no error
		if i%3 == 0 {
			t.reopen()
			t.same()
		}
	}
	t.erase("never stored")
	t.same()
	t.append(t.batch("it goes on"))
	t.same()
	t.reopen()
	t.same()
}

// A blob that is appended after it was erased is there again, and can be erased again, whether
// others were appended before or after it.
func erasesAgain(t *trial) {
	blobs := []string{"a", "", strings.Repeat("b", 5000)}
	for i := range t.some(12) {
		for _, blob := range blobs {
			b := t.batch(fmt.Sprintf("entry %d", i))
			b.Blobs = texts(blob, fmt.Sprintf("beside %d", i), blob)
			t.append(b)
		}
		if i%4 == 1 {
			t.reopen()
		}
		t.same()
		for _, blob := range blobs {
			t.erase(blob)
		}
		if i%3 == 1 {
			t.reopen()
		}
		t.same()
	}
	b := t.batch()
	b.Blobs = texts(blobs...)
	t.append(b)
	t.reopen()
	t.same()
}

// EraseBlob honours an ended context, a closed store says so, and a refused call erases nothing.
func erasesNothing(t *trial) {
	b := t.batch("a")
	b.Blobs = texts("blob")
	t.append(b)
	over, cancel := context.WithCancel(t.ctx)
	cancel()
	if err := t.eraser().EraseBlob(over, crypto.Sum([]byte("blob"))); !errors.Is(err, context.Canceled) {
		t.Errorf("EraseBlob under a context that had ended gives the error %v", err)
	}
	t.same()
	b = t.batch("refused")
	b.At++
	b.Blobs = texts("blob")
	t.erase("blob")
	t.conflict(b) // brings nothing back
	t.same()
	b.At--
	t.append(b)
	if c, ok := as[io.Closer](t.store); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if err := t.eraser().EraseBlob(t.ctx, crypto.Sum([]byte("blob"))); err == nil ||
			errors.Is(err, proofgraph.ErrNoBlob) {
			t.Errorf("closed: EraseBlob gives the error %v, want one that says closed", err)
		}
		t.use(t.open())
	}
	t.same()
}

// One goroutine appends, one erases older blobs, and others read: they get the whole blob or
// ErrNoBlob.
func erasesBeside(t *trial) {
	e := t.eraser()
	name := func(i int) string { return fmt.Sprintf("blob %d of some size: %s", i, strings.Repeat("x", i%3*700)) }
	var (
		all     sync.WaitGroup
		there   = make(chan int, 1000)
		written atomic.Int64
		over    atomic.Bool
	)
	n := t.some(120)
	defer all.Wait()
	all.Go(func() {
		defer over.Store(true)
		for i := range there {
			if err := e.EraseBlob(t.ctx, crypto.Sum([]byte(name(i)))); err != nil {
				t.Errorf("while others append, EraseBlob: %v", err)
				return
			}
			if b, err := t.store.Blob(t.ctx, crypto.Sum([]byte(name(i)))); !errors.Is(err, proofgraph.ErrNoBlob) {
				t.Errorf("erased while others append, a blob is %s (%v)", brief(b), err)
				return
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				blob := name(i % int(written.Load()+1))
				b, err := t.store.Blob(t.ctx, crypto.Sum([]byte(blob)))
				if err == nil && string(b) != blob || err != nil && !errors.Is(err, proofgraph.ErrNoBlob) {
					t.Errorf("while it is erased, a blob is %s (%v)", brief(b), err)
					return
				}
			}
		})
	}
	func() {
		defer close(there)
		for i := range n {
			b := t.batch(fmt.Sprintf("entry %d", i))
			b.Blobs = texts(name(i), fmt.Sprintf("beside %d", i))
			t.append(b)
			written.Store(int64(i))
			if i%2 == 0 {
				there <- i
			}
		}
	}()
	all.Wait()
	for i := 0; i < n; i += 2 {
		t.twin.erase(name(i))
	}
	t.same()
	t.reopen()
	t.same()
}

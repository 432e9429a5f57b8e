package helmtest

import (
	"bytes"
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

// rememberer returns the store as a [proofgraph.Rememberer].
func rememberer(t *trial) proofgraph.Rememberer {
	t.Helper()
	r, ok := as[proofgraph.Rememberer](t.store)
	if !ok {
		t.Skipf("it has no method SaveState")
	}
	return r
}

// remember must save a state.
func remember(t *trial, state []byte) {
	t.Helper()
	t.twin.state = bytes.Clone(state)
	if err := rememberer(t).SaveState(t.ctx, state); err != nil {
		t.Fatalf("SaveState of %s: %v", brief(state), err)
	}
}

// sameState compares the state of a store that may have one.
func sameState(t *trial) {
	t.Helper()
	r, ok := as[proofgraph.Rememberer](t.store)
	if !ok {
		return
	}
	state, err := r.State(t.ctx)
	if err != nil || !bytes.Equal(state, t.twin.state) || len(state) == 0 && state != nil {
		t.Errorf("State returns %s (%v), want %s", brief(state), err, brief(t.twin.state))
	}
}

// A state is there as it was saved, whatever its bytes, until another one is, and the log is as it
// was.
func remembers(t *trial) {
	rememberer(t)
	t.same()
	long := strings.Repeat("long ", 500_000)
	for i, state := range []string{"a", "b", long, long[:len(long)-1] + "!", "short", "\x00",
		strings.Repeat("\x00", 9000), "", "", "again", "again", "entry 0", "\n"} {
		remember(t, []byte(state))
		t.same()
		b := t.batch(fmt.Sprintf("entry %d", i))
		b.Blobs, b.Checkpoint = texts(fmt.Sprintf("blob %d", i), "state"), fmt.Appendf(nil, "note %d", i)
		t.append(b)
		t.same()
		t.reopen()
		t.same()
	}
	state := []byte("the caller's")
	remember(t, state)
	fill(state, 'X')
	sameState(t)
	if got, err := rememberer(t).State(t.ctx); err == nil { // sameState reports an error
		fill(got[:cap(got)], 'X')
	}
	sameState(t)
	if _, ok := as[proofgraph.Eraser](t.store); ok {
		t.erase("state")
	}
	if _, ok := as[proofgraph.Condenser](t.store); ok {
		t.condense([]uint64{0, 1, 2}, "blob 1")
	}
	t.same()
	t.reopen()
	t.same()
}

// Under a context that has ended, and when the store is closed, nothing is saved or read.
func remembersNothing(t *trial) {
	rememberer(t)
	over, end := context.WithCancel(t.ctx)
	end()
	for range 2 {
		err := rememberer(t).SaveState(over, []byte("of the ended"))
		state, readErr := rememberer(t).State(over)
		if !errors.Is(err, context.Canceled) || !errors.Is(readErr, context.Canceled) || state != nil {
			t.Errorf("under a context that had ended SaveState returns the error %v, and State %s (%v)", err,
				brief(state), readErr)
		}
		t.same()
		remember(t, []byte("a state"))
		t.append(t.batch("entry"))
	}
	c, ok := as[io.Closer](t.store)
	if !ok {
		return
	}
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	err := rememberer(t).SaveState(t.ctx, []byte("of the closed"))
	state, readErr := rememberer(t).State(t.ctx)
	if err == nil || errors.Is(err, proofgraph.ErrConflict) || readErr == nil {
		t.Errorf("closed: SaveState returns the error %v, and State %s (%v), want errors that say closed", err,
			brief(state), readErr)
	}
	t.use(t.open())
	t.same()
}

// stateText returns the n-th state.
func stateText(n int64) string {
	return fmt.Sprintf("%d ", n) + strings.Repeat(string('a'+rune(n%26)), int(n*n*7919%70_000))
}

// One goroutine saves states, one appends, and others read: each reads a state that was saved, and
// none before one that was acknowledged.
func remembersBeside(t *trial) {
	r := rememberer(t)
	var (
		all   sync.WaitGroup
		saved atomic.Int64 // acknowledged
		over  atomic.Bool
	)
	rounds := int64(t.some(60))
	for range 2 {
		all.Go(func() {
			for last := false; !last; {
				last = over.Load()
				before := saved.Load()
				state, err := r.State(t.ctx)
				var n int64
				_, scanned := fmt.Sscanf(string(state), "%d ", &n)
				if err != nil || state == nil && before > 0 ||
					state != nil && (scanned != nil || n < before || n > rounds || string(state) != stateText(n)) {
					t.Errorf("while others append and save, after state %d was saved State returns %s (%v)", before,
						brief(state), err)
					return
				}
			}
		})
	}
	all.Go(func() {
		defer over.Store(true)
		for n := int64(1); n <= rounds; n++ {
			if err := r.SaveState(t.ctx, []byte(stateText(n))); err != nil {
				t.Errorf("while others append, SaveState: %v", err)
				return
			}
			saved.Store(n)
		}
	})
	for i := 0; i < 2000 && !over.Load(); i++ {
		t.append(numbered(i * perBatch))
	}
	all.Wait()
	if n := saved.Load(); n > 0 {
		t.twin.state = []byte(stateText(n))
	}
	t.same()
	t.reopen()
	t.same()
	if b, err := t.store.Blob(t.ctx, crypto.Sum(t.twin.state)); !errors.Is(err, proofgraph.ErrNoBlob) {
		t.Errorf("a state is a blob of the log: %s (%v)", brief(b), err)
	}
}

package helmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A reporter is the part of a testing.T that the suite uses, so that its own tests can record its
// complaints.
type reporter interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// A trial is one promise, tested in a place of its own.
type trial struct {
	reporter
	ctx   context.Context // of a caller who waits
	open  func() proofgraph.Store
	store proofgraph.Store
	twin  twin
	short bool
	step  string // the present step of many; put before complaints
}

// A twin holds what the store must hold: everything that was acknowledged.
type twin struct {
	entries    []string
	blobs      []string // of all batches, refused ones too
	stored     map[string]bool
	checkpoint []byte
	state      []byte
	leaves     []contracts.Digest // the hashes of the entries, also of those that are stubs
}

func begin(r reporter, open func() proofgraph.Store, short bool) *trial {
	r.Helper()
	t := &trial{reporter: r, ctx: context.Background(), open: open, short: short, twin: twin{stored: map[string]bool{}}}
	if open == nil {
		t.Fatalf("place gave nothing to open the store with")
	}
	t.use(open())
	t.Cleanup(func() {
		if c, ok := as[io.Closer](t.store); ok {
			c.Close() // Close may be called twice
		}
	})
	n, err := t.store.Size(t.ctx)
	if n != 0 || err != nil {
		t.Fatalf("the store has %d entries (%v) in a place that should be new: place must make another one each time",
			n, err)
	}
	return t
}

func (t *trial) use(s proofgraph.Store) {
	t.Helper()
	if s == nil {
		t.Fatalf("open gave no store")
	}
	t.store = s
}

// reopen ends one process and begins another.
func (t *trial) reopen() {
	t.Helper()
	if c, ok := as[io.Closer](t.store); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	t.use(t.open())
}

func (t *trial) Errorf(format string, args ...any) {
	t.Helper()
	t.reporter.Errorf("%s", t.step+fmt.Sprintf(format, args...))
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Helper()
	t.reporter.Fatalf("%s", t.step+fmt.Sprintf(format, args...))
}

// as returns the store as another interface that it has. An [appender] has those of its shared
// store.
func as[T any](s proofgraph.Store) (T, bool) {
	if a, ok := s.(*appender); ok {
		s = a.Shared
	}
	x, ok := s.(T)
	return x, ok
}

// some returns how many of n are enough for a short test.
func (t *trial) some(n int) int {
	if t.short {
		return max(1, n/4)
	}
	return n
}

// batch returns a batch at the end of the log.
func (t *trial) batch(entries ...string) proofgraph.Batch {
	b := proofgraph.Batch{At: uint64(len(t.twin.entries))}
	for _, e := range entries {
		b.Entries = append(b.Entries, contracts.Entry(e))
	}
	return b
}

// append fails the test unless the store accepts the batch.
func (t *trial) append(b proofgraph.Batch) {
	t.Helper()
	if err := t.store.Append(t.ctx, b); err != nil {
		t.Fatalf("Append of %s: %v", shape(b), err)
	}
	t.twin.add(b)
}

// conflict fails the test unless the store refuses the batch with ErrConflict.
func (t *trial) conflict(b proofgraph.Batch) {
	t.Helper()
	if err := t.store.Append(t.ctx, b); !errors.Is(err, proofgraph.ErrConflict) {
		t.Fatalf("Append of %s, with %d entries in the store: %v, want ErrConflict", shape(b), len(t.twin.entries), err)
	}
	t.twin.refuse(b)
}

func (w *twin) add(b proofgraph.Batch) {
	for _, e := range b.Entries {
		w.entries = append(w.entries, string(e))
		w.leaves = append(w.leaves, crypto.LeafHash(e))
	}
	w.refuse(b)
	for _, blob := range b.Blobs {
		w.stored[string(blob)] = true
	}
	if b.Checkpoint != nil {
		w.checkpoint = bytes.Clone(b.Checkpoint)
	}
}

// refuse remembers which blobs must not be there.
func (w *twin) refuse(b proofgraph.Batch) {
	for _, blob := range b.Blobs {
		if _, ok := w.stored[string(blob)]; !ok {
			w.blobs = append(w.blobs, string(blob))
			w.stored[string(blob)] = false
		}
	}
}

// same compares the store with the twin.
func (t *trial) same() {
	t.Helper()
	n := uint64(len(t.twin.entries))
	if size, err := t.store.Size(t.ctx); size != n || err != nil {
		t.Errorf("Size gives %d (%v), want %d", size, err, n)
	}
	t.sameRange(0, n)
	for _, blob := range t.twin.blobs {
		if !t.sameBlob(blob) {
			break // one is enough
		}
	}
	if c, err := t.store.Checkpoint(t.ctx); err != nil || !bytes.Equal(c, t.twin.checkpoint) ||
		t.twin.checkpoint == nil && c != nil {
		t.Errorf("Checkpoint gives %s (%v), want %s", brief(c), err, brief(t.twin.checkpoint))
	}
	sameState(t)
}

func (t *trial) sameRange(from, to uint64) {
	t.Helper()
	list, err := read(t.ctx, t.store, from, to)
	if err != nil {
		t.Errorf("Entries %d to %d: %v after %d of them", from, to, err, len(list))
		return
	}
	want := t.twin.entries[from:to]
	if len(list) != len(want) {
		t.Errorf("Entries %d to %d gives %d", from, to, len(list))
		return
	}
	for i, e := range list {
		if string(e) != want[i] {
			t.Errorf("Entries %d to %d: entry %d is %s, want %s", from, to, from+uint64(i), brief(e),
				brief([]byte(want[i])))
			return
		}
	}
}

func (t *trial) sameBlob(blob string) bool {
	t.Helper()
	b, err := t.store.Blob(t.ctx, crypto.Sum([]byte(blob)))
	switch {
	case t.twin.stored[blob] && (err != nil || string(b) != blob):
		t.Errorf("Blob gives %s (%v), want %s", brief(b), err, brief([]byte(blob)))
	case !t.twin.stored[blob] && !errors.Is(err, proofgraph.ErrNoBlob):
		t.Errorf("Blob gives %s (%v) for what was never acknowledged, or was erased, want ErrNoBlob", brief(b), err)
	default:
		return true
	}
	return false
}

// read returns entries in order, up to the first error.
func read(ctx context.Context, s proofgraph.Store, from, to uint64) (list []contracts.Entry, err error) {
	for e, err := range s.Entries(ctx, from, to) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func texts(list ...string) (all [][]byte) {
	for _, s := range list {
		all = append(all, []byte(s))
	}
	return all
}

func clone(b proofgraph.Batch) proofgraph.Batch {
	b.Entries, b.Blobs, b.Checkpoint = slices.Clone(b.Entries), slices.Clone(b.Blobs), bytes.Clone(b.Checkpoint)
	for i := range b.Entries {
		b.Entries[i] = bytes.Clone(b.Entries[i])
	}
	for i := range b.Blobs {
		b.Blobs[i] = bytes.Clone(b.Blobs[i])
	}
	return b
}

func shape(b proofgraph.Batch) string {
	note := "no checkpoint"
	if b.Checkpoint != nil {
		note = "a checkpoint"
	}
	return fmt.Sprintf("%d entries at %d, %d blobs, %s", len(b.Entries), b.At, len(b.Blobs), note)
}

func brief(b []byte) string {
	switch {
	case b == nil:
		return "nothing"
	case len(b) > 40:
		return fmt.Sprintf("%.20q… of %d bytes", b, len(b))
	}
	return fmt.Sprintf("%q", b)
}

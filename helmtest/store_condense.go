package helmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// condenser returns the store as a [proofgraph.Condenser].
func (t *trial) condenser() proofgraph.Condenser {
	t.Helper()
	c, ok := as[proofgraph.Condenser](t.store)
	if !ok {
		t.Skipf("it has no method Condense")
	}
	return c
}

// stubLine returns a stub of an entry.
func stubLine(index uint64, e string) []byte {
	s := contracts.Stub{
		Entry: contracts.Entry(e).Hash(), Lamport: index, Session: "main",
		Decision: &contracts.DecisionStub{Tool: "pay"},
	}
	return s.Append(nil)
}

// stubs yields the stubs of entries, each in the memory of the one before it.
func (w *twin) stubs(indexes []uint64) iter.Seq2[uint64, []byte] {
	entries := w.entries // as they are now: the twin's become stubs
	return func(yield func(uint64, []byte) bool) {
		line := make([]byte, 0, contracts.MaxStub)
		for _, i := range indexes {
			if line = append(line[:0], w.stub(i, entries)...); !yield(i, line) {
				return
			}
			fill(line, 'X')
		}
	}
}

// stub returns the stub of an entry, or what stands there if that is one.
func (w *twin) stub(index uint64, entries []string) []byte {
	e := entries[index]
	if contracts.IsStub([]byte(e)) {
		return []byte(e)
	}
	return stubLine(index, e)
}

func digests(blobs []string) iter.Seq[contracts.Digest] {
	return func(yield func(contracts.Digest) bool) {
		for _, b := range blobs {
			if !yield(crypto.Sum([]byte(b))) {
				return
			}
		}
	}
}

// condense must put stubs in the place of entries, and forget blobs.
func (t *trial) condense(indexes []uint64, blobs ...string) {
	t.Helper()
	if err := t.condenser().Condense(t.ctx, t.twin.stubs(indexes), digests(blobs)); err != nil {
		t.Fatalf("Condense of %d entries and %d blobs: %v", len(indexes), len(blobs), err)
	}
	t.twin.condense(indexes, blobs)
}

func (w *twin) condense(indexes []uint64, blobs []string) {
	entries := append([]string(nil), w.entries...)
	for _, i := range indexes {
		entries[i] = string(w.stub(i, entries))
	}
	w.entries = entries
	for _, b := range blobs {
		w.erase(b)
	}
}

// Stubs are where their entries were, the blobs that were named are gone, and everything else is as
// it was, however often.
func condenses(t *trial) {
	t.condenser()
	t.condense(nil)
	for i := range t.some(60) {
		long := strings.Repeat("long", i*i%3000/4)
		b := t.batch(fmt.Sprintf("entry %d", 2*i), fmt.Sprintf("entry %d %s", 2*i+1, long))
		b.Blobs = texts(fmt.Sprintf("blob %d", i), fmt.Sprintf("another %d %s", i, long), "shared")
		if i%7 == 0 {
			b.Blobs, b.Checkpoint = append(b.Blobs, texts("twice", "twice")...), fmt.Appendf(nil, "note %d", i)
		}
		t.append(b)
	}
	n := uint64(len(t.twin.entries))
	every := func(k, from uint64) (indexes []uint64, blobs []string) {
		for i := from; i < n; i += k {
			indexes, blobs = append(indexes, i), append(blobs, fmt.Sprintf("blob %d", i/2))
		}
		return indexes, blobs
	}
	for i, of := range [][2]uint64{{3, 0}, {3, 0}, {7, 2}, {1, n - 1}, {1, n / 2}} {
		indexes, blobs := every(of[0], of[1])
		for range 2 { // what is a stub already stays one
			t.condense(indexes, append(blobs, "never stored", "twice", "twice")...)
			t.same()
		}
		if i%2 == 0 {
			t.reopen()
			t.same()
		}
		b := t.batch("it goes on")
		b.Blobs = texts("twice", blobs[0], fmt.Sprintf("beside %d", i)) // they are there again
		t.append(b)
		t.same()
	}
	t.condense(nil, t.twin.blobs...)
	t.same()
	indexes, _ := every(1, 0)
	t.condense(indexes)
	t.same()
	t.append(t.batch("the last"))
	t.reopen()
	t.same()
	for from := range n { // each range
		t.sameRange(from, from+(n-from)/2)
	}
}

// Blobs that are appended while the store condenses stay, whether it had them or not.
func condensesNotWhatComes(t *trial) {
	t.condenser()
	names := []string{"a", "b", "c", "d", "of nobody"}
	for range 3 {
		for i := range 3 {
			b := t.batch(fmt.Sprintf("entry %d", i))
			b.Blobs = texts(names...)
			t.append(b)
		}
		indexes := []uint64{uint64(len(t.twin.entries)) - 3, uint64(len(t.twin.entries)) - 2}
		asked := 0
		come := func(blobs ...string) {
			b := t.batch("while it condenses")
			b.Blobs = texts(blobs...)
			t.append(b)
			asked++
		}
		stubs, all := t.twin.stubs(indexes), digests(names)
		err := t.condenser().Condense(t.ctx, func(yield func(uint64, []byte) bool) {
			come("a")
			for i, line := range stubs {
				if !yield(i, line) {
					return
				}
				come("b")
			}
		}, func(yield func(contracts.Digest) bool) {
			come("c")
			for d := range all {
				if !yield(d) {
					return
				}
				come("d")
			}
		})
		if err != nil || asked != 2+len(indexes)+len(names) {
			t.Fatalf("Condense, with appends in its sequences, came to %d of them: %v", asked, err)
		}
		t.twin.condense(indexes, []string{"of nobody"})
		t.same()
		t.reopen()
		t.same()
		t.condense(nil, names...)
		t.same()
	}
}

// A line that is no stub of the entry at its index is refused. After that, and after an end in the
// middle, each entry is itself or its stub, and calling Condense again does the rest.
func condensesNothingElse(t *trial) {
	t.condenser()
	for i := range 40 {
		b := t.batch(fmt.Sprintf("entry %d", i))
		b.Blobs = texts(fmt.Sprintf("blob %d", i))
		t.append(b)
	}
	line := func(i uint64) []byte { return t.twin.stub(i, t.twin.entries) }
	type pair struct {
		index uint64
		line  []byte
	}
	over, end := context.WithCancel(t.ctx)
	end()
	middle, end := context.WithCancel(t.ctx)
	defer end()
	for _, x := range []struct {
		name  string
		ctx   context.Context
		pairs func() []pair
	}{
		{"a context that had ended", over, func() []pair { return []pair{{3, line(3)}} }},
		{"a line that is no stub", t.ctx, func() []pair {
			return []pair{{1, line(1)}, {2, []byte("short")}, {4, line(4)}}
		}},
		{"an entry as its own stub", t.ctx, func() []pair { return []pair{{2, []byte(t.twin.entries[2])}} }},
		{"the stub of another entry", t.ctx, func() []pair { return []pair{{2, line(5)}} }},
		{"a stub that is cut", t.ctx, func() []pair { return []pair{{2, line(2)[:40]}} }},
		{"an index twice", t.ctx, func() []pair { return []pair{{6, line(6)}, {6, line(6)}} }},
		{"indexes that descend", t.ctx, func() []pair { return []pair{{8, line(8)}, {7, line(7)}} }},
		{"an index beyond the end", t.ctx, func() []pair {
			return []pair{{9, line(9)}, {uint64(len(t.twin.entries)), line(9)}}
		}},
		{"an index far beyond it", t.ctx, func() []pair { return []pair{{1 << 63, line(9)}} }},
		{"a context that ends in the middle", middle, func() []pair {
			var all []pair
			for i := range uint64(40) {
				all = append(all, pair{i, line(i)})
			}
			return all
		}},
	} {
		blobs := []string{"blob 11", "blob 12"}
		err := t.condenser().Condense(x.ctx, func(yield func(uint64, []byte) bool) {
			for i, p := range x.pairs() {
				if i == 20 {
					end()
				}
				if !yield(p.index, p.line) {
					return
				}
			}
		}, digests(blobs))
		if err == nil || x.ctx.Err() != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Condense with %s gives the error %v", x.name, err)
		}
		t.settle(x.name, blobs)
		t.same()
		t.append(t.batch("it goes on after " + x.name))
		t.reopen()
		t.same()
	}
	t.condense([]uint64{0, 1, 2, 3, 4, 5, 39}, "blob 11", "blob 12", "blob 13")
	t.same()
	if c, ok := as[io.Closer](t.store); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if err := t.condenser().Condense(t.ctx, t.twin.stubs([]uint64{6}), digests(nil)); err == nil ||
			errors.Is(err, proofgraph.ErrConflict) {
			t.Errorf("closed: Condense gives the error %v, want one that says closed", err)
		}
		t.use(t.open())
	}
	t.reopen()
	t.same()
}

// settle asks the store what a Condense has done that was not acknowledged.
func (t *trial) settle(after string, blobs []string) {
	t.Helper()
	list, _ := read(t.ctx, t.store, 0, uint64(len(t.twin.entries))) // same reports an error
	entries := append([]string(nil), t.twin.entries...)
	for i, e := range list {
		if stub := t.twin.stub(uint64(i), t.twin.entries); string(e) == string(stub) {
			entries[i] = string(stub)
		} else if string(e) != entries[i] {
			t.Errorf("after Condense with %s entry %d is neither itself nor its stub: %s", after, i, brief(e))
		}
	}
	t.twin.entries = entries
	for _, b := range blobs {
		if _, err := t.store.Blob(t.ctx, crypto.Sum([]byte(b))); errors.Is(err, proofgraph.ErrNoBlob) {
			t.twin.erase(b)
		}
	}
}

// One goroutine appends, one condenses what is older, and others read: they get entries or their
// stubs, and all that does not go.
func condensesBeside(t *trial) {
	c := t.condenser()
	var (
		all     sync.WaitGroup
		parts   = make(chan uint64, 1000)
		written atomic.Uint64
		over    atomic.Bool
	)
	n := t.some(120)
	name := func(i uint64) string { return fmt.Sprintf("entry %d", i) }
	defer all.Wait()
	all.Go(func() {
		defer over.Store(true)
		for to := range parts {
			err := c.Condense(t.ctx, func(yield func(uint64, []byte) bool) {
				for i := uint64(0); i < to; i += 3 {
					if !yield(i, stubLine(i, name(i))) {
						return
					}
				}
			}, func(yield func(contracts.Digest) bool) {
				for i := uint64(0); i < to; i += 3 {
					if !yield(crypto.Sum([]byte("blob of " + name(i)))) {
						return
					}
				}
			})
			if err != nil {
				t.Errorf("while others append, Condense: %v", err)
				return
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for !over.Load() && t.readsCondensed(written.Load(), name) {
			}
		})
	}
	func() {
		defer close(parts)
		for i := range n {
			t.append(numbered(i * perBatch))
			written.Store(uint64(len(t.twin.entries)))
			if i%10 == 9 {
				parts <- written.Load() / 2
			}
		}
	}()
	all.Wait()
	var indexes []uint64
	var blobs []string
	for i := uint64(0); i < uint64(n/10*10*perBatch/2); i += 3 {
		indexes, blobs = append(indexes, i), append(blobs, "blob of "+name(i))
	}
	t.twin.condense(indexes, blobs)
	t.same()
	t.reopen()
	t.same()
}

// readsCondensed reports whether the first n entries and their blobs are there, or are entries that
// go.
func (t *trial) readsCondensed(n uint64, name func(uint64) string) bool {
	i := uint64(0)
	for e, err := range t.store.Entries(t.ctx, 0, n) {
		if err != nil || string(e) != name(i) && (i%3 != 0 || string(e) != string(stubLine(i, name(i)))) {
			t.Errorf("while the store condenses, entry %d is %s (%v)", i, brief(e), err)
			return false
		}
		blob := "blob of " + name(i)
		b, err := t.store.Blob(t.ctx, crypto.Sum([]byte(blob)))
		if gone := i%3 == 0 && errors.Is(err, proofgraph.ErrNoBlob); !gone && (err != nil || string(b) != blob) {
			t.Errorf("while the store condenses, the blob of entry %d is %s (%v)", i, brief(b), err)
			return false
		}
		i++
	}
	return true
}

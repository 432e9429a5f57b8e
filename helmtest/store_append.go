package helmtest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/helmkernel/helm/proofgraph"
)

func newIsEmpty(t *trial) {
	t.same()
	t.sameBlob("")
	t.reopen()
	t.same()
}

func emptyBatch(t *trial) {
	t.append(t.batch())
	t.same()
	b := t.batch("a", "b")
	b.Blobs, b.Checkpoint = texts("blob"), []byte("note")
	t.append(b)
	t.append(t.batch())
	t.same()
	t.reopen()
	t.same()
}

// Batches of many sizes, one after the other.
func order(t *trial) {
	for i := range t.some(200) {
		var entries []string
		for j := range 1 + i*i%7 {
			entries = append(entries, fmt.Sprintf("entry %d of batch %d", j, i))
		}
		t.append(t.batch(entries...))
	}
	t.append(t.batch("same", "same", "other", "same"))
	t.append(t.batch("same"))
	t.same()
	t.reopen()
	t.same()
}

// Bytes mean nothing to a store: neither line ends nor zeros nor bytes that are no text.
func anyBytes(t *trial) {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	long := strings.Repeat("0123456789abcdef", 2048) // as long as an entry is
	nasty := []string{"\x00", "\n", "a\n", "\r\n", " ", "\xff\xfe", "é", "e\u0301", "'; --", "%s", `\`, string(all[:]),
		strings.Repeat("\x00", 4096), "before" + strings.Repeat("\x00", 1024), long, long[1:]}
	for _, s := range nasty {
		b := t.batch(s)
		b.Blobs, b.Checkpoint = texts(s), []byte(s)
		t.append(b)
		t.same()
	}
	t.reopen()
	t.same()
	b := t.batch(nasty...)
	b.Blobs = texts(nasty...)
	t.append(b)
	t.same()
	t.reopen()
	t.same()
}

// A log writes up to 1,024 entries at once, with 4 MiB of blobs, and one blob may be larger.
func bigBatch(t *trial) {
	var entries []string
	for i := range 1024 {
		entries = append(entries, fmt.Sprintf("%d %s", i, strings.Repeat("e", 1000+i)))
	}
	b := t.batch(entries...)
	for i := range 64 {
		b.Blobs = append(b.Blobs, fmt.Appendf(nil, "%d %s", i, strings.Repeat("b", 64<<10)))
	}
	b.Checkpoint = []byte("1024")
	t.append(t.batch())
	t.append(b)
	t.same()
	b = t.batch("beside what is large")
	b.Blobs = texts(strings.Repeat("large ", 1<<20))
	t.append(b)
	t.append(t.batch("after it"))
	t.same()
	t.reopen()
	t.same()
}

func conflicts(t *trial) {
	check := func() {
		n := uint64(len(t.twin.entries))
		for _, at := range []uint64{0, n - 1, n + 1, n + 2, 1 << 31, 1 << 32, 1<<32 + n, 1 << 63, 1<<63 + n,
			math.MaxUint64} {
			if at == n {
				continue
			}
			name := fmt.Sprintf("refused at %d of %d", at, n)
			b := t.batch(name, name)
			b.At, b.Blobs, b.Checkpoint = at, texts(name, "kept"), []byte(name)
			for _, b := range []proofgraph.Batch{b, {At: at}, {At: at, Entries: b.Entries}, {At: at, Blobs: b.Blobs},
				{At: at, Checkpoint: b.Checkpoint}} {
				t.conflict(b)
			}
		}
		t.same()
	}
	check()
	for range 3 {
		b := t.batch("a", "b")
		b.Blobs, b.Checkpoint = texts("kept"), fmt.Appendf(nil, "at %d", b.At)
		t.append(b) // the store accepts the next batch
		check()
	}
	t.reopen()
	check()
	t.append(t.batch("c"))
	t.same()
}

func oneWins(t *trial) {
	contend(t, t.store)
	t.reopen()
	t.same()
}

// contend has many callers append at the same index, again and again, each through one of the
// stores.
func contend(t *trial, stores ...proofgraph.Store) {
	const callers = 8
	for round := range t.some(24) {
		var (
			batches [callers]proofgraph.Batch
			errs    [callers]error
			all     sync.WaitGroup
			start   = make(chan struct{})
		)
		for i := range callers {
			name := fmt.Sprintf("caller %d in round %d", i, round)
			batches[i] = t.batch(name, name+" too")
			batches[i].Blobs, batches[i].Checkpoint = texts(name, fmt.Sprintf("round %d", round)), []byte(name)
			all.Go(func() {
				<-start
				errs[i] = stores[i%len(stores)].Append(t.ctx, batches[i])
			})
		}
		close(start)
		all.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Fatalf("two appended at %d", batches[i].At)
			case !errors.Is(err, proofgraph.ErrConflict):
				t.Errorf("Append at %d, while others do the same: %v, want ErrConflict", batches[i].At, err)
			}
		}
		if winner < 0 {
			t.Fatalf("%d callers appended at %d, and nobody's batch was stored", callers, batches[0].At)
		}
		t.twin.add(batches[winner])
		for _, b := range batches {
			t.twin.refuse(b)
		}
	}
	t.same()
}

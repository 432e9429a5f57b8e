package helmtest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

func ranges(t *trial) {
	for _, n := range []int{1, 4, 2} {
		var entries []string
		for range n {
			entries = append(entries, fmt.Sprintf("entry %d", len(t.twin.entries)+len(entries)))
		}
		t.append(t.batch(entries...))
	}
	check := func() {
		n := uint64(len(t.twin.entries))
		for from := range n + 1 {
			for to := from; to <= n; to++ {
				t.sameRange(from, to)
			}
		}
	}
	check()
	t.reopen()
	check()
}

func beyond(t *trial) {
	check := func() {
		n := uint64(len(t.twin.entries))
		for _, r := range [][2]uint64{{0, n + 1}, {n, n + 1}, {n + 1, n + 1}, {n + 1, n}, {n + 1, 0}, {1, 0},
			{n, n - 1}, {0, 1 << 32}, {1 << 32, 1<<32 + n},
			{1 << 63, 1 << 63}, {1 << 63, 1<<63 + n}, {0, math.MaxUint64}, {math.MaxUint64, math.MaxUint64},
			{math.MaxUint64, n}} {
			var errs []error
			entries := 0
			for _, err := range t.store.Entries(t.ctx, r[0], r[1]) {
				if err == nil {
					entries++
				} else {
					errs = append(errs, err)
				}
			}
			if entries != 0 || len(errs) != 1 {
				t.Errorf("Entries %d to %d of %d gives %d entries and the errors %v, want one error", r[0], r[1], n,
					entries, errs)
			}
		}
	}
	check()
	t.append(t.batch("a", "b", "c"))
	check()
	t.reopen()
	check()
	t.same()
}

// An iteration that is left early, or never begun, leaves nothing locked.
func left(t *trial) {
	t.append(t.batch("a", "b", "c", "d"))
	for _, how := range []struct {
		name  string
		leave func()
	}{
		{"that was never begun", func() { t.store.Entries(t.ctx, 0, 4) }},
		{"left at its first entry", func() { t.leave(1, func() {}) }},
		{"left at its last entry", func() { t.leave(4, func() {}) }},
		{"left by a panic", func() {
			defer func() { recover() }()
			t.leave(2, func() { panic("of whoever reads") })
		}},
	} {
		t.step = "after an iteration " + how.name + ": "
		for range 3 {
			how.leave()
		}
		t.append(t.batch(how.name))
		t.same()
	}
	t.step = ""
	t.reopen()
	t.same()
}

// leave ends an iteration at the nth entry.
func (t *trial) leave(n int, with func()) {
	t.Helper()
	seen := 0
	// as a range loop does it, except for what follows the break
	t.store.Entries(t.ctx, 0, 4)(func(contracts.Entry, error) bool {
		if seen++; seen == n {
			with()
		}
		return seen < n
	})
	if seen != n {
		t.Errorf("left at entry %d, it gave %d", n, seen)
	}
}

// A reader of a log fetches the blobs of each entry and may write. Iterations see what was there
// when they began.
func during(t *trial) {
	for i := range 4 {
		b := t.batch(fmt.Sprintf("entry %d", 2*i), fmt.Sprintf("entry %d", 2*i+1))
		b.Blobs, b.Checkpoint = texts(fmt.Sprintf("blob %d", i)), fmt.Appendf(nil, "note %d", i)
		t.append(b)
	}
	i, n := uint64(0), uint64(len(t.twin.entries))
	for e, err := range t.store.Entries(t.ctx, 0, n) {
		if err != nil || i >= n || string(e) != t.twin.entries[i] {
			t.Fatalf("entry %d of an iteration with appends in its loop is %s (%v)", i, brief(e), err)
		}
		b := t.batch(fmt.Sprintf("while entry %d is read", i))
		b.Blobs = texts(fmt.Sprintf("blob while entry %d is read", i))
		t.append(b)
		t.same()
		i++
	}
	if i != n {
		t.Errorf("an iteration with appends in its loop gave %d entries of %d", i, n)
	}
	t.reopen()
	t.same()
}

func blobs(t *trial) {
	large := strings.Repeat("large", 300_000)
	for _, b := range []proofgraph.Batch{
		{Blobs: texts("alone")}, // no entry
		{Blobs: texts("alone")},
		{Blobs: texts("twice", "twice", "")},
		{Entries: t.batch("entry").Entries, Blobs: texts("alone", "new", large)},
		{Entries: t.batch("entry").Entries, Blobs: texts("entry", "")}, // bytes of an entry
		{Entries: t.batch("x", "y", "z").Entries, Blobs: texts("z", "x"), Checkpoint: []byte("note")},
		{Blobs: texts("note", "x", large)},
	} {
		b.At = uint64(len(t.twin.entries))
		t.append(b)
		t.same()
	}
	t.reopen()
	t.same()
	b := t.batch("after")
	b.Blobs = texts("alone", "", "new", "newer")
	t.append(b)
	t.same()
	b.Blobs = texts("alone", "", "never") // of a batch that is refused: existing blobs stay
	t.conflict(b)
	t.same()
	t.reopen()
	t.same()
}

func noBlob(t *trial) {
	check := func() {
		for _, blob := range t.twin.blobs { // names that differ from a blob's in one bit
			for _, i := range []int{0, 15, 31} {
				d := crypto.Sum([]byte(blob))
				d[i] ^= 1
				t.noBlob(d)
			}
		}
		t.noBlob(contracts.Digest{})
		t.noBlob(crypto.Sum([]byte("never stored")))
		t.same()
	}
	check()
	b := t.batch("entry")
	b.Blobs, b.Checkpoint = texts("a", "b", ""), []byte("note")
	t.append(b)
	check()
	t.reopen()
	check()
}

func (t *trial) noBlob(d contracts.Digest) {
	t.Helper()
	if b, err := t.store.Blob(t.ctx, d); !errors.Is(err, proofgraph.ErrNoBlob) {
		t.Errorf("Blob gives %s (%v) for a name that no blob has, want ErrNoBlob", brief(b), err)
	}
}

func checkpoints(t *trial) {
	t.append(t.batch("a"))
	t.same() // none yet
	t.reopen()
	t.same()
	for i, note := range []string{"first", "second, which is longer", "3rd", "3rd", strings.Repeat("long ", 1000),
		"short"} {
		b := t.batch()
		b.Checkpoint = []byte(note)
		t.append(b) // alone
		t.same()
		t.append(t.batch(fmt.Sprintf("entry %d", i)))
		t.same() // it stays
		b = t.batch("with one")
		b.Checkpoint = []byte(note + ", again")
		t.append(b)
		t.same()
		b = t.batch()
		b.Blobs = texts(note)
		t.append(b)
		t.same()
	}
	t.reopen()
	t.same()
	t.append(t.batch("after"))
	t.same()
}

package filestore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lie is a disk, or what stands before a store, that says more than it did. A harness that does not notice is none.
type lie struct {
	name    string
	hook    func() func(o *op) error                  // of the disk
	through func(s proofgraph.Store) proofgraph.Store // of the store
	found   string                                    // what the audit says
}

var lies = []lie{
	{name: "a sync that is none", found: "is not there", hook: func() func(*op) error {
		return func(o *op) error {
			if o.kind == "sync" {
				return nil
			}
			return o.do()
		}
	}},
	{name: "a store that answers before the sync is done", found: "is not there", hook: func() func(*op) error {
		late := func() error { return nil }
		return func(o *op) error {
			if o.is("sync", logKind) {
				late = o.do
				return nil
			}
			if o.is("write", logKind) { // the next one; the answer was given long ago
				if err := late(); err != nil {
					return err
				}
			}
			return o.do()
		}
	}},
	{name: "a directory that is never synced", found: "is not there", hook: func() func(*op) error {
		return func(o *op) error {
			if o.kind == "syncdir" {
				return nil
			}
			return o.do()
		}
	}},
	{name: "an erasure that overwrites nothing", found: "has something of what was erased", hook: func() func(*op) error {
		return func(o *op) error {
			if o.is("write", logKind) && len(o.data) > 1 && bytes.Equal(o.data[:2], fading[:2]) {
				return nil
			}
			return o.do()
		}
	}},
	{name: "an erasure that marks nothing", found: "was erased in life 1, and is of", hook: func() func(*op) error {
		return func(o *op) error {
			if o.is("write", logKind) && bytes.HasPrefix(o.data, fading[:1]) {
				return nil
			}
			return o.do()
		}
	}},
	{name: "a batch that is dropped", found: "an acknowledged receipt is not there", through: func(s proofgraph.Store) proofgraph.Store {
		return &dropper{Store: s, from: 4, drop: func(b proofgraph.Batch) bool { return true }}
	}},
	{name: "decisions that are not written", found: "an effect without a durable decision", through: func(s proofgraph.Store) proofgraph.Store {
		return &dropper{Store: s, from: 4, drop: func(b proofgraph.Batch) bool { return holds(b, contracts.KindDecision) }}
	}},
	{name: "checkpoints that are not written", found: "was handed out", through: func(s proofgraph.Store) proofgraph.Store {
		return &dropper{Store: s, drop: func(b proofgraph.Batch) bool { return b.Checkpoint != nil }}
	}},
	{name: "blobs that are not written", found: "blobs are not there", through: func(s proofgraph.Store) proofgraph.Store { return blobless{s} }},
}

// A dropper acknowledges batches that it does not store, and from the first one on anything.
type dropper struct {
	proofgraph.Store
	from int // how many it stores before
	drop func(b proofgraph.Batch) bool

	mu      sync.Mutex
	dropped bool
}

func (d *dropper) Append(ctx context.Context, b proofgraph.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from--; d.dropped || d.from < 0 && d.drop(b) {
		d.dropped = d.dropped || len(b.Entries) > 0
		return nil
	}
	return d.Store.Append(ctx, b)
}

func holds(b proofgraph.Batch, kind contracts.Kind) bool {
	var r contracts.Reader
	for _, e := range b.Entries {
		if sealed, err := r.Open(e); err == nil && sealed.Kind == kind {
			return true
		}
	}
	return false
}

// blobless stores the entries, and of blobs only those without which there is no log.
type blobless struct{ proofgraph.Store }

func (s blobless) Append(ctx context.Context, b proofgraph.Batch) error {
	if b.At > 1 {
		b.Blobs = nil
	}
	return s.Store.Append(ctx, b)
}

// The harness finds what liars do.
func TestCrashHarnessFindsLiars(t *testing.T) {
	random := rand.New(rand.NewPCG(*crashSeed, 0))
	for _, x := range lies {
		said := map[string]bool{}
		cuts, violations := 0, 0
		for after := 15; after <= 236; after += 12 + everyChange { // odd: it writes and syncs by turns
			r, book := newRAM(), &pages{}
			l := &life{number: 1, notes: book, through: x.through}
			var d disk = r
			if x.hook != nil {
				d = &tap{disk: r, hook: x.hook()}
			}
			_, _ = powered(d, smallSizes, l, after, l.script) // a kernel may notice
			for _, how := range []survival{leavesNone, leavesSectors} {
				a := &audit{notes: book.all(), book: book.copy()}
				a.visit(r.cut(how, random), crashDir, smallSizes)
				if cuts++; len(a.wrong) > 0 {
					violations++
				}
				for _, w := range a.wrong {
					said[w] = true
				}
			}
		}
		all := ""
		for w := range said {
			all += w + "\n"
		}
		if violations == 0 || !strings.Contains(all, x.found) {
			t.Errorf("%s: %d violations in %d power cuts, and none of them says %q:\n%s", x.name, violations, cuts, x.found, all)
		}
		t.Logf("%s: %d of %d power cuts show it", x.name, violations, cuts)
	}
}

// What New does not write, or what it says it wrote, is found out too.
func TestCrashHarnessFindsRecoveryThatIsNone(t *testing.T) {
	r, book := newRAM(), &pages{}
	ctx, cancel := context.WithCancel(t.Context())
	l := &life{number: 1, notes: book, through: func(s proofgraph.Store) proofgraph.Store {
		return &dropper{Store: s, drop: func(b proofgraph.Batch) bool { return holds(b, contracts.KindReceipt) }}
	}}
	_, err := powered(r, smallSizes, l, 0, func() { l.do(ctx, pay("a", 0)) })
	require.NoError(t, err)
	cancel()
	var effect []note // without the answer, which no process could have given
	for _, n := range book.all() {
		if n.Kind == noteEffect || n.Kind == noteBegun {
			effect = append(effect, n)
		}
	}
	if a := (&audit{notes: effect, book: &pages{}}); true {
		a.visit(r.clone(), crashDir, smallSizes)
		if len(a.wrong) > 0 || a.settled != 1 {
			t.Fatal(a.settled, a.wrong)
		}
	}
	a := &audit{notes: effect, book: &pages{}, through: l.through}
	a.visit(r.clone(), crashDir, smallSizes)
	assert.Contains(t, strings.Join(a.wrong, "\n"), "New made", "a decision stays without a receipt, and this was noticed:\n")
}

// Every sentence of an audit can be said: the notes of a sound log are forged, one at a time.
func TestCrashHarnessFindsForgedNotes(t *testing.T) {
	r, book := newRAM(), &pages{}
	l := &life{number: 1, notes: book}
	_, err := powered(r, smallSizes, l, 0, l.script)
	require.NoError(t, err)
	look := func(notes []note) string {
		a := &audit{notes: notes, book: &pages{}}
		a.visit(r.clone(), crashDir, smallSizes)
		return strings.Join(a.wrong, "\n")
	}
	require.Equal(t, "", look(book.all()))
	other := strings.Repeat("ab", 32)
	for i, x := range []struct {
		of    string
		forge func(n *note) bool // false: this note does not do
		found string
	}{
		{noteEffect, func(n *note) bool { n.Hash = other; return true }, "an effect without a durable decision"},
		{noteEffect, func(n *note) bool { n.ID = "a/77"; return true }, "under the decision"},
		{noteEffect, func(n *note) bool { *n = note{Kind: "none"}; return true }, "never happened"},
		{noteReceipt, func(n *note) bool { n.Hash = other; return true }, "an acknowledged receipt is not there"},
		{noteReceipt, func(n *note) bool { n.Index++; return true }, "an acknowledged receipt is not there"},
		{noteReceipt, func(n *note) bool { n.Reason = "TOOL_PANIC"; return true }, "a caller was told TOOL_PANIC"},
		{noteReceipt, func(n *note) bool { n.Released = !n.Released; return n.Released }, "released: true"},
		{noteEffect, func(n *note) bool { n.Kind = noteSurely; return true }, "never happened"},
		{noteBegun, func(n *note) bool { n.Hash = other; return true }, "the log that began is not there"},
		{noteClosed, func(n *note) bool { n.Session = "a"; return true }, "was closed, and is not"},
		{noteClosed, func(n *note) bool { n.Kind = noteTrouble; return true }, "life 1"},
		{noteReceipt, func(n *note) bool { *n = note{Kind: noteSeen, Index: n.Index, Hash: other}; return true }, "an auditor saw"},
		{noteMark, func(n *note) bool { n.Index, n.Mark = 1<<20, forgedMark(t); return true }, "STALE"},
	} {
		notes, done := book.all(), false
		for j := range notes {
			if n := notes[j]; n.Kind == x.of && x.forge(&n) {
				notes[j], done = n, true
				break
			}
		}
		if wrong := look(notes); !done || !strings.Contains(wrong, x.found) {
			t.Errorf("forgery %d of a note of kind %s: %q, want %q", i, x.of, wrong, x.found)
		}
	}
	var effect note
	for _, n := range book.all() {
		if n.Kind == noteEffect {
			effect = n
		}
	}
	assert.Contains(t, look(append(book.all(), effect)), "two effects of one decision", "an effect twice")
	effect.Kind = noteSurely
	assert.Contains(t, look(append(book.all(), effect)), "surely did not run", "an effect that surely was not")
}

// forgedMark is a checkpoint of the log as it never was: longer.
func forgedMark(t *testing.T) string {
	t.Helper()
	m := proofgraph.NewMemory()
	l := &life{number: 1, notes: &pages{}}
	require.NoError(t, l.begin(m, steady(), rand.NewChaCha8([32]byte{1})))
	for i := range 60 {
		if d, _ := l.do(context.Background(), pay(fmt.Sprint("s", i), 0)); !d.Allowed() {
			t.Fatal(d.Err())
		}
	}
	c, err := l.k.Checkpoint(context.Background())
	require.NoError(t, err)
	return string(c.Note)
}

package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A defect is in a disk or a store that reports more than it did. The harness must notice it.
type defect struct {
	name    string
	hook    func() func(o *disktest.Op) error         // of the disk
	through func(s proofgraph.Store) proofgraph.Store // of the store
	found   string                                    // what the audit says
}

var defects = []defect{
	{name: "a sync that is none", found: "not a segment of a log", hook: func() func(*disktest.Op) error {
		return func(o *disktest.Op) error {
			if o.Kind == "sync" {
				return nil
			}
			return o.Do()
		}
	}},
	{name: "a store that answers before the sync is done", found: "is not there",
		hook: func() func(*disktest.Op) error {
			late := func() error { return nil }
			return func(o *disktest.Op) error {
				if o.Is("sync", logKind) {
					late = o.Do
					return nil
				}
				if o.Is("write", logKind) { // the next one, long after the answer
					if err := late(); err != nil {
						return err
					}
				}
				return o.Do()
			}
		}},
	{name: "a state that is not synced", found: "not a state that was saved",
		hook: func() func(*disktest.Op) error {
			return func(o *disktest.Op) error {
				if o.Is("sync", stateName+newKind) {
					return nil
				}
				return o.Do()
			}
		}},
	{name: "a directory that is never synced", found: "is not there", hook: func() func(*disktest.Op) error {
		return func(o *disktest.Op) error {
			if o.Kind == "syncdir" {
				return nil
			}
			return o.Do()
		}
	}},
	{name: "an erasure that overwrites nothing", found: "has something of what was erased",
		hook: func() func(*disktest.Op) error {
			return func(o *disktest.Op) error {
				if o.Is("write", logKind) && len(o.Data) > 1 && bytes.Equal(o.Data[:2], overwritten[:2]) {
					return nil
				}
				return o.Do()
			}
		}},
	{name: "an erasure that marks nothing", found: "was erased in process 1, and is of",
		hook: func() func(*disktest.Op) error {
			return func(o *disktest.Op) error {
				if o.Is("write", logKind) && bytes.HasPrefix(o.Data, overwritten[:1]) {
					return nil
				}
				return o.Do()
			}
		}},
	{name: "a batch that is dropped", found: "an acknowledged receipt is not there",
		through: func(s proofgraph.Store) proofgraph.Store {
			return &dropper{Store: s, from: 4, drop: func(b proofgraph.Batch) bool { return true }}
		}},
	{name: "decisions that are not written", found: "an effect without a durable decision",
		through: func(s proofgraph.Store) proofgraph.Store {
			return &dropper{Store: s, from: 4,
				drop: func(b proofgraph.Batch) bool { return holds(b, contracts.KindDecision) }}
		}},
	{name: "checkpoints that are not written", found: "was handed out",
		through: func(s proofgraph.Store) proofgraph.Store {
			return &dropper{Store: s, drop: func(b proofgraph.Batch) bool { return b.Checkpoint != nil }}
		}},
	{name: "blobs that are not written", found: "blobs are not there",
		through: func(s proofgraph.Store) proofgraph.Store { return blobless{s} }},
}

// A dropper acknowledges batches that it does not store, and after the first of them every batch.
type dropper struct {
	proofgraph.Store
	from int // how many it stores first
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

// A blobless store keeps the entries, and only those blobs without which there is no log.
type blobless struct{ proofgraph.Store }

func (s blobless) Append(ctx context.Context, b proofgraph.Batch) error {
	if b.At > 1 {
		b.Blobs = nil
	}
	return s.Store.Append(ctx, b)
}

// HarnessFindsLiars runs kernels over defective disks and stores: an audit must find each defect.
func HarnessFindsLiars(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(*Seed, 0))
	afters := []int{0}                                           // when all is done, also the state
	for after := 15; after <= 261; after += 12 + everyChange() { // it writes, syncs and writes the end by turns
		afters = append(afters, after)
	}
	for _, x := range defects {
		said := map[string]bool{}
		cuts, violations := 0, 0
		for _, after := range afters {
			r, recorded := disktest.NewRAM(), &memoryEvents{}
			l := &process{number: 1, events: recorded, through: x.through}
			var d disk.Disk = r
			if x.hook != nil {
				d = &disktest.Tap{Disk: r, Hook: x.hook()}
			}
			_, _ = untilPowerCut(d, smallSizes, l, after, l.script) // a kernel may notice
			for _, how := range []disktest.Survival{disktest.LeavesNone, disktest.LeavesSectors} {
				a := &audit{events: recorded.all(), recorder: recorded.copy()}
				a.open(r.Cut(how, random), logDir, smallSizes)
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
		assert.True(t, violations != 0 && strings.Contains(all, x.found),
			"%s: %d violations in %d power cuts, and none of them says %q:\n%s", x.name, violations, cuts, x.found, all)
		t.Logf("%s: %d of %d power cuts show it", x.name, violations, cuts)
	}
}

// HarnessFindsRecoveryThatIsNone drops the entries that New writes: an audit must find that.
func HarnessFindsRecoveryThatIsNone(t *testing.T) {
	t.Parallel()
	r, recorded := disktest.NewRAM(), &memoryEvents{}
	ctx, cancel := context.WithCancel(t.Context())
	l := &process{number: 1, events: recorded, through: func(s proofgraph.Store) proofgraph.Store {
		return &dropper{Store: s, drop: func(b proofgraph.Batch) bool { return holds(b, contracts.KindReceipt) }}
	}}
	_, err := untilPowerCut(r, smallSizes, l, 0, func() { l.call(ctx, pay("a", 0)) })
	require.NoError(t, err)
	cancel()
	var effect []event // without the answer, which no process could have given
	for _, n := range recorded.all() {
		if n.Kind == eventEffect || n.Kind == eventBegun {
			effect = append(effect, n)
		}
	}
	if a := (&audit{events: effect, recorder: &memoryEvents{}}); true {
		a.open(r.Clone(), logDir, smallSizes)
		if len(a.wrong) > 0 || a.settled != 1 {
			t.Fatal(a.settled, a.wrong)
		}
	}
	a := &audit{events: effect, recorder: &memoryEvents{}, through: l.through}
	a.open(r.Clone(), logDir, smallSizes)
	assert.Contains(t, strings.Join(a.wrong, "\n"), "New made",
		"a decision stays without a receipt, and this was noticed")
}

// HarnessFindsForgedNotes forges the events of a sound log, one at a time: an audit must find each
// forgery. So every check of an audit can fail.
func HarnessFindsForgedNotes(t *testing.T) {
	t.Parallel()
	r, recorded := disktest.NewRAM(), &memoryEvents{}
	l := &process{number: 1, events: recorded}
	_, err := untilPowerCut(r, smallSizes, l, 0, l.script)
	require.NoError(t, err)
	look := func(events []event) string {
		a := &audit{events: events, recorder: &memoryEvents{}}
		a.open(r.Clone(), logDir, smallSizes)
		return strings.Join(a.wrong, "\n")
	}
	require.Equal(t, "", look(recorded.all()))
	other := strings.Repeat("ab", 32)
	for i, x := range []struct {
		of    string
		forge func(n *event) bool // returns false if it cannot forge this event
		found string
	}{
		{eventEffect, func(n *event) bool { n.Hash = other; return true }, "an effect without a durable decision"},
		{eventEffect, func(n *event) bool { n.ID = "a/77"; return true }, "under the decision"},
		{eventEffect, func(n *event) bool { *n = event{Kind: "none"}; return true }, "never happened"},
		{eventReceipt, func(n *event) bool { n.Hash = other; return true }, "an acknowledged receipt is not there"},
		{eventReceipt, func(n *event) bool { n.Index++; return true }, "an acknowledged receipt is not there"},
		{eventReceipt, func(n *event) bool { n.Reason = "TOOL_PANIC"; return true }, "a caller was told TOOL_PANIC"},
		{eventReceipt, func(n *event) bool { n.Released = !n.Released; return n.Released }, "released: true"},
		{eventEffect, func(n *event) bool { n.Kind = eventDenied; return true }, "never happened"},
		{eventBegun, func(n *event) bool { n.Hash = other; return true }, "the log that began is not there"},
		{eventClosed, func(n *event) bool { n.Session = "a"; return true }, "was closed, and is not"},
		{eventClosed, func(n *event) bool { n.Kind = eventTrouble; return true }, "process 1"},
		{eventReceipt, func(n *event) bool { *n = event{Kind: eventSeen, Index: n.Index, Hash: other}; return true },
			"an auditor saw"},
		{eventCheckpoint, func(n *event) bool { n.Index, n.Checkpoint = 1<<20, forgedCheckpoint(t); return true },
			"STALE"},
	} {
		events, done := recorded.all(), false
		for j := range events {
			if n := events[j]; n.Kind == x.of && x.forge(&n) {
				events[j], done = n, true
				break
			}
		}
		wrong := look(events)
		assert.True(t, done && strings.Contains(wrong, x.found), "forgery %d of an event of kind %s: %q, want %q", i,
			x.of, wrong, x.found)
	}
	var effect event
	for _, n := range recorded.all() {
		if n.Kind == eventEffect {
			effect = n
		}
	}
	assert.Contains(t, look(append(recorded.all(), effect)), "two effects of one decision", "an effect twice")
	effect.Kind = eventDenied
	assert.Contains(t, look(append(recorded.all(), effect)), "surely did not run", "an effect that surely was not")
}

// forgedCheckpoint returns a checkpoint of a longer log.
func forgedCheckpoint(t *testing.T) string {
	t.Helper()
	m := proofgraph.NewMemory()
	l := &process{number: 1, events: &memoryEvents{}}
	require.NoError(t, l.start(m, testClock(), rand.NewChaCha8([32]byte{1})))
	for i := range 60 {
		if d, _ := l.call(context.Background(), pay(fmt.Sprint("s", i), 0)); !d.Allowed() {
			t.Fatal(d.Err())
		}
	}
	c, err := l.k.Checkpoint(context.Background())
	require.NoError(t, err)
	return string(c.Note)
}

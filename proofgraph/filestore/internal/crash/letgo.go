package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// The events of a kernel that lets go: Index is the number of entries.
const (
	eventCovered = "covered" // Kernel.Condense returned
	eventDropped = "dropped" // Kernel.Drop returned
)

var letGoSizes = Sizes{Segment: 128 << 10, Ahead: 16 << 10}

// A letGo is a log of many calls that may go, and what an audit of it knows.
type letGo struct {
	*testing.T
	disk    *disktest.RAM // of a closed store
	events  *memoryEvents
	lines   []line
	named   map[contracts.Digest]bool // blobs that their entries name
	members uint64                    // entries that may go

	audits, packs, stubs, whole, forgotten, violations atomic.Int64
}

// clockAt returns a clock that begins so many hours after that of other tests.
func clockAt(hours int) func() time.Time {
	now := testClock()
	return func() time.Time { return now().Add(time.Duration(hours) * time.Hour) }
}

func newLetGo(t *testing.T) *letGo {
	t.Helper()
	g := &letGo{T: t, disk: disktest.NewRAM(), events: &memoryEvents{}}
	s, err := Open(g.disk, logDir, letGoSizes)
	require.NoError(t, err)
	l := &process{number: 1, events: g.events, floor: true}
	require.NoError(t, l.start(s, clockAt(0), rand.NewChaCha8([32]byte{1})))
	ctx := context.Background()
	for i := range 14 {
		session := fmt.Sprint("a", i)
		for j := range 45 {
			in := pay(session, i*j)
			switch j % 15 {
			case 3:
				in.Tool, in.Args = "fail", []byte(`{}`)
			case 7:
				in.Session = "" // main
			case 11:
				in = keyed(session, fmt.Sprint("key-", j))
			case 13:
				l.callWithSecret(ctx, session, uint64(100*i+j))
				continue
			}
			l.call(ctx, in)
		}
		if i < 13 {
			require.NoError(t, l.closeSession(ctx, session))
		}
	}
	for range 5 {
		l.eraseSecret(3)
	}
	require.NoError(t, l.checkpoint())
	require.NoError(t, l.k.Close())
	g.lines, err = readLog(s)
	require.NoError(t, err)
	g.named, err = namedBlobs(s)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return g
}

// run is a process a day later: it condenses, lets go, and goes on. It stops if failed returns true
// for an error.
func (g *letGo) run(d disk.Disk, recorded *memoryEvents, failed func(l *process, err error) bool) error {
	s, err := Open(d, logDir, letGoSizes)
	if err != nil {
		return err
	}
	defer s.Close()
	l := &process{number: 2, events: recorded, floor: true}
	if err := l.start(s, clockAt(48), rand.NewChaCha8([32]byte{2})); err != nil {
		return err
	}
	defer l.k.Close()
	ctx := context.Background()
	calls := uint64(0)
	call := func() error {
		calls++
		l.call(ctx, pay("later", 10))
		l.callWithSecret(ctx, "later", calls)
		return nil
	}
	for _, do := range []func() error{
		call,
		func() error {
			c, err := l.k.Condense(ctx, time.Time{})
			if err == nil {
				l.record(event{Kind: eventCovered, Index: c.Members})
			}
			return err
		},
		call,
		func() error {
			d, err := l.k.Drop(ctx)
			if err == nil {
				l.record(event{Kind: eventDropped, Index: d.Entries})
			}
			return err
		},
		call,
		func() error { l.eraseSecret(0); return nil },
		l.checkpoint,
	} {
		if err := do(); err != nil && failed(l, err) {
			return err
		}
	}
	return nil
}

// inspect audits a disk: each entry is there, or its stub. A kernel over it ends what was begun.
func (g *letGo) inspect(left *disktest.RAM, recorded *memoryEvents, what string) {
	before := left.Clone()
	a := &audit{events: recorded.all(), recorder: recorded}
	g.audit(a, left)
	if len(a.wrong) == 0 {
		return
	}
	if g.violations.Add(1) <= 3 {
		dir, err := os.MkdirTemp("", "crash-letgo-")
		if err == nil {
			err = before.Save(dir)
		}
		g.Errorf("%s, -crash.seed %d: the disk before the audit is in %s (%v):\n%s", what, *Seed, dir, err,
			strings.Join(a.wrong, "\n"))
	}
}

func (g *letGo) audit(a *audit, left *disktest.RAM) {
	a.search(left, logDir)
	s, err := Open(left, logDir, letGoSizes)
	if err != nil {
		a.errorf("%v", err)
		return
	}
	defer s.Close()
	log, err := readLog(s)
	if err != nil {
		a.errorf("reading the log: %v", err)
		return
	}
	a.checkEvents(log)
	a.checkReceipts(log)
	a.checkCheckpoint(s)
	a.checkErased(s)
	stubs := g.compare(a, log)
	covered, dropped := false, uint64(0)
	for _, n := range a.events {
		covered = covered || n.Kind == eventCovered
		if n.Kind == eventDropped {
			dropped = n.Index
		}
	}
	if stubs < dropped {
		a.errorf("%d entries were let go of, and %d are stubs", dropped, stubs)
	}
	l := &process{number: 3, events: a.recorder, floor: true}
	if err := l.start(s, clockAt(49), rand.NewChaCha8([32]byte{3})); err != nil {
		a.errorf("New: %v", err)
		return
	}
	defer l.k.Close()
	ctx := context.Background()
	c, err := l.k.Condense(ctx, time.Time{})
	if err != nil || covered && c.Members != 0 {
		a.errorf("Condense again, which covers %d entries: %v", c.Members, err)
	}
	d, err := l.k.Drop(ctx)
	if err != nil || d.Waiting != 0 {
		a.errorf("Drop again, with %d entries left: %v", d.Waiting, err)
	}
	if x, _ := l.call(ctx, pay("a13", 0)); !x.Allowed() {
		a.errorf("the kernel does not work any more: %v", x.Err())
	}
	if err := l.checkpoint(); err != nil {
		a.errorf("Checkpoint: %v", err)
	}
	if log, err = readLog(s); err != nil {
		a.errorf("reading the log again: %v", err)
		return
	}
	if n := g.compare(a, log); n != g.members {
		a.errorf("%d stubs, and %d entries were to go", n, g.members)
	}
	g.checkForgotten(a, s)
	if g.audits.Add(1)%4 == 1 {
		g.verify(a, s)
	}
}

// namedBlobs returns the blobs that the entries of a store name, but for those of stubs.
func namedBlobs(s Store) (map[contracts.Digest]bool, error) {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil {
		return nil, err
	}
	named := map[contracts.Digest]bool{}
	var r contracts.Reader
	for e, err := range s.Entries(ctx, 0, size) {
		if err != nil {
			return nil, err
		}
		if contracts.IsStub(e) {
			continue
		}
		sealed, err := r.Open(e)
		if err != nil {
			return nil, err
		}
		st, err := sealed.Statement()
		if err != nil {
			return nil, err
		}
		entry.Blobs(st, func(d contracts.Digest, _ entry.Role) { named[d] = true })
	}
	return named, nil
}

// checkForgotten looks for blobs that no entry names any more. When all has gone that may, none is
// left, whatever has happened before.
func (g *letGo) checkForgotten(a *audit, s Store) {
	named, err := namedBlobs(s)
	if err != nil {
		a.errorf("reading the log again: %v", err)
		return
	}
	for d := range g.named {
		if named[d] {
			continue
		}
		if _, err := s.Blob(context.Background(), d); !errors.Is(err, proofgraph.ErrNoBlob) {
			a.errorf("no entry names blob %v any more, and it is still there: %v", d, err)
		}
		g.forgotten.Add(1)
	}
}

// compare compares entries with those that there were, and returns how many are stubs.
func (g *letGo) compare(a *audit, log []line) (stubs uint64) {
	if len(log) < len(g.lines) {
		a.errorf("%d entries, and there were %d", len(log), len(g.lines))
		return 0
	}
	for i, x := range log {
		if x.stub {
			stubs++
		}
		if i >= len(g.lines) {
			if x.stub {
				a.errorf("entry %d is a stub, and too young", i)
			}
			continue
		}
		want := g.lines[i]
		if want.stub = x.stub; x.stub {
			want.args = x.args // which no stub has
		}
		if x != want {
			a.errorf("entry %d is %+v, and was %+v", i, x, want)
		}
	}
	g.stubs.Add(int64(stubs))
	g.whole.Add(int64(uint64(len(log)) - stubs))
	return stubs
}

// verify verifies the evidence of a log that has let all go that may.
func (g *letGo) verify(a *audit, s Store) {
	b, err := pack(s)
	if err != nil {
		a.errorf("%v", err)
		return
	}
	g.packs.Add(1)
	wrong, report := verifyPack(b, lastCheckpoint(a.recorder.(*memoryEvents).all()))
	for _, w := range append(wrong, checkMissing(report, a.events)...) {
		a.errorf("%s", w)
	}
	kept, err := evidence.VerifyStore(context.Background(), s, evidence.Options{Trust: trustState, Origin: origin})
	if err != nil || !kept.Success(evidence.Logged) {
		a.errorf("evidence: %v: %v", kept.Level, err)
	}
	var n uint64
	for _, r := range report.Condensed {
		n += r.Stubs
	}
	if n != g.members {
		a.errorf("evidence: %d stubs, and %d entries were to go", n, g.members)
	}
}

// LetGo cuts the power after each change to the disk that Kernel.Condense and Kernel.Drop make, and
// the calls around them; and it lets each change fail. In all cases each entry is itself or its
// stub, nothing else is lost, the next kernel ends what was begun, and no blob is left then that no
// entry names.
func LetGo(t *testing.T) {
	t.Parallel()
	g := newLetGo(t)
	whole, recorded := g.disk.Clone(), g.events.copy()
	tap := &disktest.Tap{Disk: whole}
	require.NoError(t, g.run(tap, recorded, func(*process, error) bool { return true }))
	for _, n := range recorded.all() {
		if n.Kind == eventDropped {
			g.members = n.Index
		}
	}
	require.Greater(t, g.members, uint64(1024))
	g.inspect(whole, recorded, "without a crash")
	changes := tap.Changes
	var sealed, failed atomic.Int64
	parallel(changes/everyChange(), func(after int) {
		after = after*everyChange() + 1
		random := rand.New(rand.NewPCG(*Seed, uint64(after)))
		g.cut(after, disktest.Survivals[random.IntN(len(disktest.Survivals))], random,
			fmt.Sprintf("power lost after change %d of %d", after, changes))
		if after%2 == 0 && *wantedCuts == 0 {
			return
		}
		ill := faults[random.IntN(len(faults))]
		p, recorded := &faultyDisk{RAM: g.disk.Clone(), fault: ill, at: after, random: random}, g.events.copy()
		_ = g.run(p.tap(), recorded, func(l *process, err error) bool {
			failed.Add(1)
			if l.k.Err() != nil {
				sealed.Add(1)
				return true
			}
			d, again := l.k.Drop(context.Background())
			assert.NoError(t, again, "change %d of %d %s; %v; and Drop again", after, changes, ill.name, err)
			if again == nil && d.Entries > 0 {
				l.record(event{Kind: eventDropped, Index: d.Entries})
			}
			return false
		})
		g.inspect(p.Cut(disktest.LeavesSectors, random), recorded,
			fmt.Sprintf("change %d of %d %s, and then the power went", after, changes, ill.name))
	})
	t.Logf("%d changes, %d audits, %d packs, %d entries whole, %d stubs of %d entries that go, %d blobs gone, %d errors, "+
		"%d sealed, violations %d", changes, g.audits.Load(), g.packs.Load(), g.whole.Load(), g.stubs.Load(), g.members,
		g.forgotten.Load(), failed.Load(), sealed.Load(), g.violations.Load())
	assert.True(t, int(g.audits.Load()) > changes/everyChange() && g.packs.Load() > 2 &&
		g.forgotten.Load() > 100*g.audits.Load(), "too few cases")
}

// cut cuts the power after so many changes.
func (g *letGo) cut(after int, how disktest.Survival, random *rand.Rand, what string) {
	r, recorded := g.disk.Clone(), g.events.copy()
	var off atomic.Bool
	tap := &disktest.Tap{Disk: r, Hook: func(o *disktest.Op) error {
		if off.Load() {
			return disktest.ErrPower
		}
		err := o.Do()
		if o.Changes && o.N == after {
			off.Store(true)
		}
		return err
	}}
	if err := g.run(tap, recorded, func(*process, error) bool { return true }); err != nil && !off.Load() {
		g.Errorf("%s: %v", what, err)
	}
	g.inspect(r.Cut(how, random), recorded, fmt.Sprintf("%s, which left %s", what, how))
}

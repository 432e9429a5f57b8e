package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A condensedLog is a store under a load without a kernel: batches that follow from their numbers
// are appended, condensed and erased. Everything that is begun and acknowledged is recorded.
type condensedLog struct {
	s      Store
	events recorder
	during func(moment string) // nil: nothing is called
}

// The events of such a load. Index is the number of a batch, or of a round of condensing, and Upto
// of how many batches.
const (
	eventStoring    = "storing"
	eventStored     = "stored"
	eventCondensing = "condensing" // Condense will be called
	eventCondenses  = "condenses"  // it was called
	eventCondensed  = "condensed"
)

const momentCondensed = "condensed" // Condense has ended, and the caller does not know it yet

// The batch of a number has two entries, a blob of its own and one that is erased later. Every
// third has the blob of an earlier batch, too: it is there already, or there again.
func entriesOf(n int) []contracts.Entry {
	return []contracts.Entry{
		fmt.Appendf(nil, "entry %d: %0*d", 2*n, 200+n*97%900, n), fmt.Appendf(nil, "entry %d: %0300d", 2*n+1, n),
	}
}

func blobOf(n int) []byte { return fmt.Appendf(nil, "blob %d: %0*d", n, 300+n*131%900, n) }

func secretOf(n int) []byte { return fmt.Appendf(nil, "secret of batch %d. %0400d", n, n) }

func blobsOf(n int) [][]byte {
	list := [][]byte{blobOf(n), secretOf(n)}
	if n%3 == 0 {
		list = append(list, blobOf(n/2))
	}
	return list
}

func stubOf(e contracts.Entry) []byte {
	s := contracts.Stub{Entry: e.Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"}}
	return s.Append(nil)
}

// goes reports whether a round condenses a batch. Later rounds condense more.
func goes(round, n int) bool { return n*7%5 < round%5 }

func (l *condensedLog) append(n int) error {
	l.events.add(event{Kind: eventStoring, Index: uint64(n)})
	b := proofgraph.Batch{At: uint64(2 * n), Entries: entriesOf(n), Blobs: blobsOf(n)}
	if n%4 == 0 {
		b.Checkpoint = fmt.Appendf(nil, "checkpoint %d", n)
	}
	err := l.s.Append(context.Background(), b)
	if err == nil {
		l.events.add(event{Kind: eventStored, Index: uint64(n)})
	}
	return err
}

// condense condenses the batches of a round that are below upto.
func (l *condensedLog) condense(round, upto int) error {
	what := event{Kind: eventCondensing, Index: uint64(round), ID: strconv.Itoa(upto)}
	l.events.add(what)
	err := l.s.(proofgraph.Condenser).Condense(context.Background(), func(yield func(uint64, []byte) bool) {
		for n := range upto {
			if !goes(round, n) {
				continue
			}
			for i, e := range entriesOf(n) {
				if !yield(uint64(2*n+i), stubOf(e)) {
					return
				}
			}
		}
	}, func(yield func(contracts.Digest) bool) {
		l.events.add(event{Kind: eventCondenses, Index: what.Index, ID: what.ID})
		for n := range upto {
			if goes(round, n) && !yield(crypto.Sum(blobOf(n))) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if l.during != nil {
		l.during(momentCondensed)
	}
	what.Kind = eventCondensed
	l.events.add(what)
	return nil
}

func (l *condensedLog) erase(n int) error {
	d := crypto.Sum(secretOf(n))
	l.events.add(event{Kind: eventErasing, Hash: d.String()})
	if err := l.s.EraseBlob(context.Background(), d); err != nil {
		return err
	}
	l.events.add(event{Kind: eventErased, Hash: d.String()})
	l.events.add(event{Kind: eventForgotten, Secret: fmt.Sprintf("secret of batch %d.", n)})
	return nil
}

// script is a small load with everything in it. It ends if failed returns true for an error.
func (l *condensedLog) script(failed func(error) bool) {
	n := 0
	grow := func(to int) func() error {
		return func() error {
			for ; n < to; n++ {
				if err := l.append(n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	condense := func(round, upto int) func() error { return func() error { return l.condense(round, upto) } }
	erase := func(n int) func() error { return func() error { return l.erase(n) } }
	for _, do := range []func() error{
		grow(12), erase(1), condense(1, 8), erase(5), grow(16), condense(2, 16), // with the last segment
		erase(15), condense(2, 16), grow(19), condense(3, 17), erase(0), grow(21),
	} {
		if err := do(); err != nil && failed(err) {
			return
		}
	}
}

// A condensedAudit compares a log with what was recorded of the load.
type condensedAudit struct {
	events       []event
	spans        map[int]span
	batches      int             // that the log has
	stubs, whole int             // of entries
	kept, gone   int             // of blobs
	rounds       map[[2]int]bool // begun: number of a round and of batches
	wrong        []string
}

func (a *condensedAudit) errorf(format string, args ...any) {
	if len(a.wrong) < 20 {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

// A span is the time of one call: the numbers of the events before it, in it, and when it was
// acknowledged; 0: there is none.
type span struct{ began, in, ended int }

// spans returns the calls that events are of, by the event with which each began.
func spans(events []event) map[int]span {
	began := map[string]string{
		eventStored: eventStoring, eventErased: eventErasing, eventCondensed: eventCondensing, eventCondenses: eventCondensing,
	}
	key := func(kind string, n event) string { return fmt.Sprint(kind, " ", n.Index, " ", n.ID, " ", n.Hash) }
	all, last := map[int]span{}, map[string]int{}
	for i, n := range events {
		if kind, ok := began[n.Kind]; ok {
			call := all[last[key(kind, n)]]
			if n.Kind == eventCondenses {
				call.in = i + 1
			} else {
				call.ended = i + 1
			}
			all[last[key(kind, n)]] = call
		} else {
			all[i], last[key(n.Kind, n)] = span{began: i + 1}, i
		}
	}
	return all
}

// A blobName names a blob: that of a batch, or its secret.
type blobName struct {
	batch  int
	secret bool
}

func (b blobName) bytes() []byte {
	if b.secret {
		return secretOf(b.batch)
	}
	return blobOf(b.batch)
}

// of returns the calls that append a blob, and those that forget or erase it.
func (a *condensedAudit) of(b blobName) (puts, forgets []span) {
	d := crypto.Sum(b.bytes()).String()
	for i, n := range a.events {
		switch n.Kind {
		case eventStoring:
			if k := int(n.Index); k == b.batch || !b.secret && k%3 == 0 && k/2 == b.batch {
				puts = append(puts, a.spans[i])
			}
		case eventCondensing:
			if upto, _ := strconv.Atoi(n.ID); !b.secret && b.batch < upto && goes(int(n.Index), b.batch) {
				forgets = append(forgets, a.spans[i])
			}
		case eventErasing:
			if n.Hash == d {
				forgets = append(forgets, a.spans[i])
			}
		}
	}
	return puts, forgets
}

// inspect reads everything.
func (a *condensedAudit) inspect(s proofgraph.Store) {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil || size%2 != 0 {
		a.errorf("%d entries: %v", size, err)
		return
	}
	a.batches, a.rounds, a.spans = int(size/2), map[[2]int]bool{}, spans(a.events)
	acknowledged := map[[2]int]bool{}
	note := -1
	for _, n := range a.events {
		switch n.Kind {
		case eventStored:
			if int(n.Index) >= a.batches {
				a.errorf("batch %d was acknowledged, and there are %d", n.Index, a.batches)
			}
			if n.Index%4 == 0 {
				note = int(n.Index)
			}
		case eventCondensing, eventCondensed:
			upto, _ := strconv.Atoi(n.ID)
			what := [2]int{int(n.Index), upto}
			a.rounds[what] = true
			acknowledged[what] = acknowledged[what] || n.Kind == eventCondensed
		}
	}
	condensed := func(rounds map[[2]int]bool, n int) bool {
		for x, yes := range rounds {
			if yes && n < x[1] && goes(x[0], n) {
				return true
			}
		}
		return false
	}
	i := 0
	for e, err := range s.Entries(ctx, 0, size) {
		if err != nil {
			a.errorf("entry %d: %v", i, err)
			return
		}
		want := entriesOf(i / 2)[i%2]
		switch {
		case bytes.Equal(e, want):
			a.whole++
			if condensed(acknowledged, i/2) {
				a.errorf("entry %d was condensed, and is there again", i)
			}
		case bytes.Equal(e, stubOf(want)):
			a.stubs++
			if !condensed(a.rounds, i/2) {
				a.errorf("entry %d is a stub, and nobody condensed it", i)
			}
		default:
			a.errorf("entry %d is neither itself nor its stub: %q", i, e)
		}
		i++
	}
	for n := range a.batches {
		a.blob(s, blobName{n, false})
		a.blob(s, blobName{n, true})
	}
	if c, err := s.Checkpoint(ctx); err != nil || note >= 0 && !strings.HasPrefix(string(c), "checkpoint ") {
		a.errorf("the checkpoint is %q, and that of batch %d was acknowledged: %v", c, note, err)
	} else if got, _ := strconv.Atoi(strings.TrimPrefix(string(c), "checkpoint ")); got < note {
		a.errorf("the checkpoint is of batch %d, and that of batch %d was acknowledged", got, note)
	}
}

// blob looks for a blob. It must be there if an append of it was acknowledged that began when each
// call that forgets it had begun, and it must not be if a call that forgets it was acknowledged
// that began when each append of it had ended.
func (a *condensedAudit) blob(s proofgraph.Store, name blobName) {
	blob := name.bytes()
	puts, forgets := a.of(name)
	there, not := false, false
	for _, p := range puts {
		later := p.ended != 0
		for _, f := range forgets {
			later = later && (f.ended != 0 && f.ended < p.began || f.in != 0 && f.in < p.began)
		}
		there = there || later
	}
	for _, f := range forgets {
		later := f.ended != 0
		for _, p := range puts {
			later = later && p.ended != 0 && p.ended < f.began
		}
		not = not || later
	}
	b, err := s.Blob(context.Background(), crypto.Sum(blob))
	switch {
	case err == nil && !bytes.Equal(b, blob), err != nil && !errors.Is(err, proofgraph.ErrNoBlob):
		a.errorf("%.20q is %d bytes: %v", blob, len(b), err)
	case err != nil && there:
		a.errorf("%.20q is not there", blob)
	case err == nil && not:
		a.errorf("%.20q is there again", blob)
	case err == nil:
		a.kept++
	default:
		a.gone++
	}
}

// open opens a directory, inspects the log, and lets the load go on: what was begun is ended, and
// more is appended. Then all of it is inspected again.
func (a *condensedAudit) open(d disk.Disk, dir string, z Sizes, recorded recorder) {
	secrets := &audit{events: a.events}
	secrets.search(d, dir)
	s, err := Open(d, dir, z)
	if err != nil {
		a.errorf("%v", err)
		return
	}
	secrets.search(d, dir)
	a.wrong = append(a.wrong, secrets.wrong...)
	a.inspect(s)
	l := &condensedLog{s: s, events: recorded}
	byRound := func(x, y [2]int) int { return slices.Compare(x[:], y[:]) }
	for _, x := range slices.SortedFunc(maps.Keys(a.rounds), byRound) {
		if err := l.condense(x[0], min(x[1], a.batches)); err != nil {
			a.errorf("condensing again: %v", err)
		}
	}
	for n := a.batches; n < a.batches+2; n++ {
		if err := l.append(n); err != nil {
			a.errorf("appending again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		a.errorf("%v", err)
	}
}

// A condenseTest counts what the tests of condensed logs do, from several goroutines.
type condenseTest struct {
	*testing.T
	audits, stubs, whole, kept, gone, violations atomic.Int64
}

// inspect audits a disk, and the disk that the audit leaves.
func (t *condenseTest) inspect(left *disktest.RAM, z Sizes, recorded *memoryEvents, what string) {
	before := left.Clone()
	for i := range 2 {
		a := &condensedAudit{events: recorded.all()}
		a.open(left, logDir, z, recorded)
		if i == 1 && len(a.events) > 0 {
			t.audits.Add(1)
			t.stubs.Add(int64(a.stubs))
			t.whole.Add(int64(a.whole))
			t.kept.Add(int64(a.kept))
			t.gone.Add(int64(a.gone))
		}
		if len(a.wrong) == 0 {
			continue
		}
		if t.violations.Add(1) <= 3 {
			dir, err := os.MkdirTemp("", "crash-condense-")
			if err == nil {
				err = before.Save(dir)
			}
			t.Errorf("%s, -crash.seed %d, audit %d: the disk before it is in %s (%v):\n%s", what, *Seed, i+1, dir, err,
				strings.Join(a.wrong, "\n"))
		}
		return
	}
}

func (t *condenseTest) report(what string, atLeast int) {
	t.Helper()
	t.Logf("%d %s: %d entries whole, %d stubs, %d blobs there, %d gone, violations %d", t.audits.Load(), what,
		t.whole.Load(), t.stubs.Load(), t.kept.Load(), t.gone.Load(), t.violations.Load())
	assert.True(t, int(t.audits.Load()) >= atLeast && t.whole.Load() > 0 && t.stubs.Load() > 0 && t.kept.Load() > 0 &&
		t.gone.Load() > 0, "too few cases")
}

// untilCut runs the script on a disk whose power goes after so many changes; 0: it stays on.
func untilCut(d disk.Disk, z Sizes, recorded *memoryEvents, after int) (changes int, err error) {
	return untilCutThrough(d, z, recorded, after, func(s Store) Store { return s })
}

func untilCutThrough(
	d disk.Disk, z Sizes, recorded *memoryEvents, after int, through func(Store) Store,
) (changes int, err error) {
	var off atomic.Bool
	t := &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if off.Load() {
			return disktest.ErrPower
		}
		err := o.Do()
		if o.Changes && o.N == after {
			off.Store(true)
		}
		return err
	}}
	s, err := Open(t, logDir, z)
	if err == nil {
		(&condensedLog{s: through(s), events: recorded}).script(func(e error) bool {
			err = e
			return true
		})
		s.Close()
	}
	if off.Load() {
		err = nil
	}
	return t.Changes, err
}

// CondensePower cuts the power after each change that a load with Condense makes to the disk, and
// each time loses what was not synced in some ways. Once it cuts the power again while the log is
// opened and condensed again.
func CondensePower(tt *testing.T) {
	tt.Parallel()
	t := &condenseTest{T: tt}
	for _, z := range someSizes[:2] {
		changes, err := untilCut(disktest.NewRAM(), z, &memoryEvents{}, 0)
		require.NoError(t, err)
		require.Greater(t, changes, 150, "not the load that this test was made for")
		parallel(changes/everyChange(), func(after int) {
			after = after*everyChange() + 1
			r, recorded, random := disktest.NewRAM(), &memoryEvents{}, rand.New(rand.NewPCG(*Seed, uint64(after)))
			_, err := untilCut(r, z, recorded, after)
			assert.NoError(t, err)
			for i, how := range disktest.Survivals {
				if i%3 == after%3 || *wantedCuts > 0 {
					t.inspect(r.Cut(how, random), z, recorded.copy(),
						fmt.Sprintf("%v: power lost after change %d of %d, which left %s", z, after, changes, how))
				}
			}
			left := r.Cut(disktest.Survivals[random.IntN(len(disktest.Survivals))], random)
			again, how := 1+random.IntN(60), disktest.Survivals[random.IntN(len(disktest.Survivals))]
			t.again(left, z, recorded, again)
			t.inspect(left.Cut(how, random), z, recorded,
				fmt.Sprintf("%v: power lost after change %d of %d, and again after %d, which left %s", z, after, changes,
					again, how))
		})
	}
	t.report("power cuts", 500/everyChange())
}

// again goes on over a disk until its power goes after so many changes.
func (t *condenseTest) again(d disk.Disk, z Sizes, recorded *memoryEvents, after int) {
	var off atomic.Bool
	tap := &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if off.Load() {
			return disktest.ErrPower
		}
		err := o.Do()
		off.Store(o.Changes && o.N == after)
		return err
	}}
	a := &condensedAudit{events: recorded.all()}
	a.open(tap, logDir, z, recorded)
	if !off.Load() && len(a.wrong) > 0 {
		t.Errorf("%s", strings.Join(a.wrong, "\n"))
	}
}

// CondenseDiskFails lets each change of the disk fail in turn, in each way. If it fails in
// Condense, the store goes on, unless it was ending the last segment; and calling Condense again
// does what is left.
func CondenseDiskFails(tt *testing.T) {
	tt.Parallel()
	t := &condenseTest{T: tt}
	var condenses, deaths, failures atomic.Int64
	for i, z := range someSizes[:2] {
		step := everyChange() * (1 + 2*i)
		changes, err := untilCut(disktest.NewRAM(), z, &memoryEvents{}, 0)
		require.NoError(t, err)
		parallel(changes/step, func(at int) {
			at = at*step + 1
			random := rand.New(rand.NewPCG(*Seed, uint64(at)))
			for i, ill := range faults {
				if ill.of == "" && i%2 != at%2 && *wantedCuts == 0 {
					continue
				}
				p, recorded := &faultyDisk{RAM: disktest.NewRAM(), fault: ill, at: at, random: random}, &memoryEvents{}
				what := fmt.Sprintf("%v: change %d of %d %s", z, at, changes, ill.name)
				fatal := p.fatal(recorded)
				s, err := Open(fatal.tap, logDir, z)
				if err != nil {
					continue // it fails when the log begins
				}
				dead := false
				l := &condensedLog{s: s, events: recorded}
				l.script(func(err error) bool {
					assert.ErrorIs(t, err, p.err, "%s", what)
					failures.Add(1)
					if !fatal.condensing {
						return true
					}
					size, _ := s.Size(t.Context())
					dead = s.Append(t.Context(), proofgraph.Batch{At: size}) != nil
					assert.Equal(t, fatal.ending, dead, "%s, %s of %s: the store is dead: %v", what, p.hit.Kind, p.hit.Path,
						dead)
					if condenses.Add(1); dead {
						deaths.Add(1)
					}
					return dead
				})
				if p.hit == nil {
					s.Close()
					continue
				}
				t.inspect(p.Cut(disktest.Survivals[at%len(disktest.Survivals)], random), z, recorded.copy(),
					what+"; then the power went")
				s.Close()
				t.inspect(p.Clone(), z, recorded.copy(), what+"; then it was opened again")
			}
		})
	}
	t.report("disks that failed", 500/everyChange())
	t.Logf("%d calls failed, %d of Condense, after %d of which the store was dead", failures.Load(), condenses.Load(),
		deaths.Load())
	assert.True(t, condenses.Load() > deaths.Load() && deaths.Load() > 0, "too few cases")
}

// A fatality says what the operation that failed was for.
type fatality struct {
	tap        *disktest.Tap
	condensing bool // in a call of Condense
	ending     bool // of the last segment
}

// fatal taps a faulty disk.
func (p *faultyDisk) fatal(recorded *memoryEvents) *fatality {
	f := &fatality{tap: p.tap()}
	fail := f.tap.Hook
	began := false // the last name that was changed is that of the next segment
	f.tap.Hook = func(o *disktest.Op) error {
		if o.Kind == "rename" && filepath.Ext(o.Path) == logKind {
			_, err := p.RAM.View(o.Path)
			began = err != nil
		}
		err := fail(o)
		if p.hit == o {
			all := recorded.all()
			f.condensing = len(all) > 0 && all[len(all)-1].Kind == eventCondenses
			inLog := strings.HasSuffix(o.Path, logKind) && (o.Kind == "write" || o.Kind == "sync")
			f.ending = inLog || began && (o.Kind == "rename" || o.Kind == "syncdir")
		}
		return err
	}
	return f
}

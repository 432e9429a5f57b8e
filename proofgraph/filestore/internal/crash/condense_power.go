package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

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

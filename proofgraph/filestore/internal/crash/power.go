package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

var (
	Seed       = flag.Uint64("crash.seed", 1, "of all random choices of the crash tests")
	wantedCuts = flag.Int("crash.cuts", 0, "power cuts under load; 0: few, and those at each change in fewer ways")
)

const logDir = "/log"

var (
	smallSizes = Sizes{Segment: 8 << 10, Ahead: 2 << 10}
	someSizes  = []Sizes{smallSizes, {Segment: 40 << 10, Ahead: 4 << 10}, {Segment: 1 << 20, Ahead: 64 << 10}}
)

// testClock returns a clock that advances by a millisecond whenever it is read.
func testClock() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.UnixMilli(1_600_000_000_000 + looks.Add(1)) }
}

// untilPowerCut runs one process on a disk whose power goes after so many changes, or stays on if
// after is 0. It returns the number of changes. Without power no operation of the disk is done.
func untilPowerCut(d disk.Disk, z Sizes, l *process, after int, work func()) (changes int, err error) {
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
		if err = l.start(s, testClock(), rand.NewChaCha8([32]byte{byte(l.number)})); err == nil {
			work()
			l.k.Close()
		}
		s.Close()
	}
	if off.Load() {
		err = nil // of course
	}
	return t.Changes, err
}

// A powerCuts counts what the tests of power cuts do, from several goroutines.
type powerCuts struct {
	*testing.T
	mu sync.Mutex
	counts
	audits, torn, violations int
}

// inspect audits the disk that a power cut left. If something is wrong, it saves the disk as it was
// before the audit.
func (b *powerCuts) inspect(left *disktest.RAM, z Sizes, recorded *memoryEvents, what string) bool {
	before := left.Clone()
	b.mu.Lock()
	b.audits++
	a := &audit{events: recorded.all(), recorder: recorded, brief: b.audits%3 != 0 && *wantedCuts == 0}
	b.mu.Unlock()
	torn := a.open(left, logDir, z)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.torn += torn
	b.add(a.counts)
	if len(a.wrong) == 0 {
		return true
	}
	if b.violations++; b.violations <= 3 {
		dir, err := os.MkdirTemp("", "crash-power-")
		if err == nil {
			err = before.Save(dir)
		}
		b.Errorf("%s, -crash.seed %d: the disk before the audit is in %s (%v):", what, *Seed, dir, err)
		for _, w := range a.wrong {
			b.Error(w)
		}
	}
	return false
}

// PowerAtEachChange cuts the power after each change that a small load makes to the disk, and each
// time loses what was not synced in several ways. Once it cuts the power again during the recovery;
// and once an auditor has read the log just before.
func PowerAtEachChange(t *testing.T) {
	t.Parallel()
	b := &powerCuts{T: t}
	for _, z := range someSizes[:2] {
		script := func(d disk.Disk, after int) (changes int, recorded *memoryEvents) {
			recorded = &memoryEvents{}
			l := &process{number: 1, events: recorded}
			changes, err := untilPowerCut(d, z, l, after, l.script)
			require.NoError(t, err)
			return changes, recorded
		}
		changes, recorded := script(disktest.NewRAM(), 0)
		if changes < 60 || len(recorded.all()) < 25 {
			t.Fatalf("%d changes, %d events: not the load that this test was made for", changes, len(recorded.all()))
		}
		parallel(changes/everyChange(), func(after int) {
			after = after*everyChange() + 1
			r, random := disktest.NewRAM(), rand.New(rand.NewPCG(*Seed, uint64(after)))
			_, recorded := script(r, after)
			for i, how := range disktest.Survivals {
				if i%3 == after%3 || *wantedCuts > 0 {
					b.inspect(r.Cut(how, random), z, recorded.copy(),
						fmt.Sprintf("%v: power lost after change %d of %d, which left %s", z, after, changes, how))
				}
			}
			b.twice(r.Cut(disktest.Survivals[1+random.IntN(len(disktest.Survivals)-1)], random), z, recorded.copy(),
				1+random.IntN(14), random, fmt.Sprintf("%v: power lost after change %d of %d", z, after, changes))
			if after%2 == 0 || *wantedCuts > 0 {
				b.viewed(r.Clone(), z, recorded, random, fmt.Sprintf("%v: power lost after change %d of %d", z, after,
					changes))
			}
		})
	}
	b.report("power cuts", 500/everyChange())
}

// twice cuts the power once more while a kernel begins over the disk that the first cut left.
func (b *powerCuts) twice(
	left *disktest.RAM, z Sizes, recorded *memoryEvents, after int, random *rand.Rand, what string,
) {
	_, err := untilPowerCut(left, z, &process{number: 2, events: recorded}, after, func() {})
	assert.NoError(b, err, "%s", what)
	how := disktest.Survivals[random.IntN(len(disktest.Survivals))]
	b.inspect(left.Cut(how, random), z, recorded,
		fmt.Sprintf("%s, and again after change %d, which left %s", what, after, how))
}

// viewed has an auditor read the log just before the power goes: what they saw must last.
func (b *powerCuts) viewed(r *disktest.RAM, z Sizes, recorded *memoryEvents, random *rand.Rand, what string) {
	if !r.Dirs[logDir] {
		return // nothing to see
	}
	a := &audit{events: recorded.all(), recorder: recorded}
	a.view(r, logDir)
	for _, w := range a.wrong {
		b.Errorf("%s: just before, %s", what, w)
	}
	b.inspect(r.Cut(disktest.LeavesSectors, random), z, recorded, what+", just after an auditor read it")
}

// PowerUnderLoad cuts the power of kernels under load, which go on over the disk that is left, and
// lose their power again.
func PowerUnderLoad(t *testing.T) {
	t.Parallel()
	b, wanted := &powerCuts{T: t}, *wantedCuts
	if wanted == 0 {
		wanted = max(200/everyChange(), 80)
	}
	parallel((wanted+4)/5, func(directory int) {
		random := rand.New(rand.NewPCG(*Seed, 1<<32|uint64(directory)))
		z := someSizes[random.IntN(len(someSizes))]
		r, recorded := disktest.NewRAM(), &memoryEvents{}
		for number := 1; number <= 5; number++ {
			l := &process{number: number, events: recorded}
			w := &load{process: l, seed: random.Uint64(), callers: 1 + random.IntN(6), calls: 12}
			after, how := 1+random.IntN(120), disktest.Survivals[random.IntN(len(disktest.Survivals))]
			_, err := untilPowerCut(r, z, l, after, w.run)
			assert.NoError(t, err)
			r = r.Cut(how, random)
			if !b.inspect(r, z, recorded,
				fmt.Sprintf("%v: directory %d, process %d, %d callers, power lost after change %d, which left %s", z,
					directory, number, w.callers, after, how)) {
				return
			}
		}
	})
	b.report("power cuts", wanted)
}

func (b *powerCuts) report(what string, atLeast int) {
	b.Helper()
	b.Logf("%d "+what+
		", %d effects, %d decisions, %d receipts, %d acknowledged, %d unknown outcomes settled, %d keys repeated, %d "+
		"packs verified, %d torn tails repaired, %d blobs erased, violations %d",
		b.audits, b.effects, b.decisions, b.receipts, b.acknowledged, b.settled, b.repeated, b.packs, b.torn, b.erased,
		b.violations)
	assert.True(b, b.audits >= atLeast && b.effects != 0 && b.acknowledged != 0 && b.settled != 0 && b.repeated != 0 &&
		b.packs != 0 && b.torn != 0 && b.erased != 0, "too few cases")
}

// parallel calls f for 0 to n-1, two at a time.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

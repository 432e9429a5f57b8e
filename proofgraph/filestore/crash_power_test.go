package filestore

import (
	"errors"
	"flag"
	"fmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	crashSeed = flag.Uint64("crash.seed", 1, "of all random choices of the crash tests")
	crashCuts = flag.Int("crash.cuts", 0, "power cuts under load; 0: few, and those at each change in fewer ways")
)

const crashDir = "/log"

var (
	errPower   = errors.New("the power is off")
	smallSizes = sizes{segment: 8 << 10, ahead: 2 << 10}
	someSizes  = []sizes{smallSizes, {segment: 40 << 10, ahead: 4 << 10}, {segment: 1 << 20, ahead: 64 << 10}}
)

// steady is a clock that goes on by a millisecond whenever it is looked at.
func steady() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.UnixMilli(1_600_000_000_000 + looks.Add(1)) }
}

// powered is one life on a disk: its power goes after so many changes, or stays on if that is 0. It gives the number of changes. What the
// process does without power is in vain: nothing that it asks of the disk is done.
func powered(d disk, z sizes, l *life, after int, work func()) (changes int, err error) {
	var off atomic.Bool
	t := &tap{disk: d, hook: func(o *op) error {
		if off.Load() {
			return errPower
		}
		err := o.do()
		if o.changes && o.n == after {
			off.Store(true)
		}
		return err
	}}
	s, err := open(t, crashDir, Options{}, z)
	if err == nil {
		if err = l.begin(s, steady(), rand.NewChaCha8([32]byte{byte(l.number)})); err == nil {
			work()
			l.k.Close()
		}
		s.Close()
	}
	if off.Load() {
		err = nil // of course
	}
	return t.changes, err
}

// A blackout counts what the tests of power cuts do, from several goroutines.
type blackout struct {
	*testing.T
	mu sync.Mutex
	tally
	audits, torn, violations int
}

// inspect audits what a cut left, and changes it as an audit does. What the disk was like before is kept if something is wrong.
func (b *blackout) inspect(left *ram, z sizes, book *pages, what string) bool {
	before := left.clone()
	b.mu.Lock()
	b.audits++
	a := &audit{notes: book.all(), book: book, brief: b.audits%3 != 0 && *crashCuts == 0}
	b.mu.Unlock()
	torn := a.visit(left, crashDir, z)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.torn += torn
	b.add(a.tally)
	if len(a.wrong) == 0 {
		return true
	}
	if b.violations++; b.violations <= 3 {
		dir, err := os.MkdirTemp("", "crash-power-")
		if err == nil {
			err = before.save(dir)
		}
		b.Errorf("%s, -crash.seed %d: the disk before the audit is in %s (%v):", what, *crashSeed, dir, err)
		for _, w := range a.wrong {
			b.Error(w)
		}
	}
	return false
}

// The power goes after each change that a small load makes to the disk, and each time what was not synced is lost in several ways. Once, the
// power goes again while that is being recovered from; and once, an auditor has seen the log just before.
func TestCrashPowerAtEachChange(t *testing.T) {
	b := &blackout{T: t}
	for _, z := range someSizes[:2] {
		script := func(d disk, after int) (changes int, book *pages) {
			book = &pages{}
			l := &life{number: 1, notes: book}
			changes, err := powered(d, z, l, after, l.script)
			require.NoError(t, err)
			return changes, book
		}
		changes, book := script(newRAM(), 0)
		if changes < 60 || len(book.all()) < 25 {
			t.Fatalf("%d changes, %d notes: not the load that this test was made for", changes, len(book.all()))
		}
		each(changes/everyChange, func(after int) {
			after = after*everyChange + 1
			r, random := newRAM(), rand.New(rand.NewPCG(*crashSeed, uint64(after)))
			_, book := script(r, after)
			for i, how := range survivals {
				if i%3 == after%3 || *crashCuts > 0 {
					b.inspect(r.cut(how, random), z, book.copy(), fmt.Sprintf("%v: power lost after change %d of %d, which left %s", z, after, changes, how))
				}
			}
			b.twice(r.cut(survivals[1+random.IntN(len(survivals)-1)], random), z, book.copy(), 1+random.IntN(14), random, fmt.Sprintf("%v: power lost after change %d of %d", z, after, changes))
			if after%2 == 0 || *crashCuts > 0 {
				b.watched(r.clone(), z, book, random, fmt.Sprintf("%v: power lost after change %d of %d", z, after, changes))
			}
		})
	}
	b.report("power cuts", 500/everyChange)
}

// twice turns the power off once more while a kernel begins over what the first time left.
func (b *blackout) twice(left *ram, z sizes, book *pages, after int, random *rand.Rand, what string) {
	_, err := powered(left, z, &life{number: 2, notes: book}, after, func() {})
	assert.NoError(b, err, "%s", what)
	how := survivals[random.IntN(len(survivals))]
	b.inspect(left.cut(how, random), z, book, fmt.Sprintf("%s, and again after change %d, which left %s", what, after, how))
}

// watched has an auditor read the log just before the power goes: what he saw must last.
func (b *blackout) watched(r *ram, z sizes, book *pages, random *rand.Rand, what string) {
	if !r.dirs[crashDir] {
		return // nothing to see
	}
	a := &audit{notes: book.all(), book: book}
	a.watch(r, crashDir)
	for _, w := range a.wrong {
		b.Errorf("%s: just before, %s", what, w)
	}
	b.inspect(r.cut(leavesSectors, random), z, book, what+", just after an auditor read it")
}

// Kernels under load lose their power at some moment, go on over what is left, lose it again.
func TestCrashPowerUnderLoad(t *testing.T) {
	b, wanted := &blackout{T: t}, *crashCuts
	if wanted == 0 {
		wanted = 200 / everyChange
	}
	each((wanted+4)/5, func(directory int) {
		random := rand.New(rand.NewPCG(*crashSeed, 1<<32|uint64(directory)))
		z := someSizes[random.IntN(len(someSizes))]
		r, book := newRAM(), &pages{}
		for number := 1; number <= 5; number++ {
			l := &life{number: number, notes: book}
			w := &load{life: l, seed: random.Uint64(), callers: 1 + random.IntN(6), calls: 12}
			after, how := 1+random.IntN(120), survivals[random.IntN(len(survivals))]
			_, err := powered(r, z, l, after, w.run)
			assert.NoError(t, err)
			r = r.cut(how, random)
			if !b.inspect(r, z, book, fmt.Sprintf("%v: directory %d, life %d, %d callers, power lost after change %d, which left %s", z, directory, number, w.callers, after, how)) {
				return
			}
		}
	})
	b.report("power cuts", wanted)
}

func (b *blackout) report(what string, atLeast int) {
	b.Helper()
	b.Logf("%d "+what+", %d effects, %d decisions, %d receipts, %d acknowledged, %d unknown outcomes settled, %d keys repeated, %d packs verified, %d torn tails repaired, %d blobs erased, violations %d",
		b.audits, b.effects, b.decisions, b.receipts, b.acknowledged, b.settled, b.repeated, b.packs, b.torn, b.erased, b.violations)
	if b.audits < atLeast || b.effects == 0 || b.acknowledged == 0 || b.settled == 0 || b.repeated == 0 || b.packs == 0 || b.torn == 0 || b.erased == 0 {
		b.Errorf("that is less than was to be seen")
	}
}

// each calls f for 0 to n-1, two at a time.
func each(n int, f func(i int)) {
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

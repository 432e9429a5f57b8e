package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A fault is how one operation of a disk fails. The disk works again afterwards, so a store that
// goes on regardless does harm.
type fault struct {
	name string
	err  error
	of   string // the kind of operation; "": any
	do   func(o *disktest.Op, r *rand.Rand)
}

var faults = []fault{
	{"fails", syscall.EIO, "", func(*disktest.Op, *rand.Rand) {}},
	{"is done, and said to have failed", syscall.EIO, "", func(o *disktest.Op, _ *rand.Rand) { _ = o.Do() }},
	{"finds the disk full after a part", syscall.ENOSPC, "write",
		func(o *disktest.Op, r *rand.Rand) { _ = o.Part(r.IntN(len(o.Data) + 1)) }},
	{"fails and drops what it was to keep", syscall.EIO, "sync",
		func(o *disktest.Op, _ *rand.Rand) { o.File.(*disktest.RAMFile).Forget(false) }},
	{"fails and shows what it will never keep", syscall.EIO, "sync",
		func(o *disktest.Op, _ *rand.Rand) { o.File.(*disktest.RAMFile).Forget(true) }},
}

// A faultyDisk is a disk of which one operation fails.
type faultyDisk struct {
	*disktest.RAM
	fault
	at     int // which change fails, or which reading operation
	reads  bool
	random *rand.Rand
	hit    *disktest.Op
	aside  bool // what failed was of making the log's hashes, or of its state
}

func (p *faultyDisk) tap() *disktest.Tap {
	return &disktest.Tap{Disk: p.RAM, Hook: func(o *disktest.Op) error {
		if o.N != p.at || o.Changes == p.reads {
			return o.Do()
		}
		if p.of != "" && p.of != o.Kind {
			return o.Do()
		}
		p.hit, p.aside = o, isAside()
		p.do(o, p.random)
		return p.err
	}}
}

// isAside reports whether the store is making the hashes of its log, or the kernel its state. Both
// read segments.
func isAside() bool {
	var stack [64]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "filestore.(*tree).extend") || strings.Contains(f.Function, "helm.(*states).") {
			return true
		}
		if !more {
			return false
		}
	}
}

// derived reports whether the store can do without the file of the operation that failed.
func (p *faultyDisk) derived() bool {
	if p.aside || strings.HasSuffix(p.hit.Path, hashesName) {
		return true
	}
	// an index is removed before a blob is erased; other directories are not the log's
	return strings.Contains(p.hit.Path, indexKind) && p.hit.Kind != "remove" || !strings.HasPrefix(p.hit.Path, logDir)
}

// DiskFails lets each change of the disk fail in turn, in each way. The store is dead then, the
// kernel sealed, and its callers know whether their calls ran; reading goes on. After that, with
// the power on, or off and on again, an audit finds what it must find after a crash.
func DiskFails(t *testing.T) {
	t.Parallel()
	b, failed := &powerCuts{T: t}, map[string]int{}
	for i, z := range someSizes[:2] {
		step := everyChange() * (1 + 3*i)
		whole := &process{number: 1, events: &memoryEvents{}}
		changes, err := untilPowerCut(disktest.NewRAM(), z, whole, 0, whole.script)
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
				p.run(b, z, recorded, what)
				if p.hit == nil {
					continue
				}
				b.mu.Lock()
				failed[p.hit.Kind]++
				b.mu.Unlock()
				b.inspect(p.Cut(disktest.Survivals[at%len(disktest.Survivals)], random), z, recorded.copy(),
					what+"; then the power went")
				again := p.Clone()
				if b.inspect(again, z, recorded, what+"; then it was opened again") && p.of == "sync" {
					b.inspect(again.Cut(disktest.LeavesNone, random), z, recorded,
						what+"; then it was opened again, and then the power went")
				}
			}
		})
	}
	b.report("disks that failed and were opened again", 500/everyChange())
	t.Logf("failures, of each kind of operation: %v", failed)
	for _, kind := range []string{"mkdir", "lock", "create", "write", "sync", "rename", "syncdir"} {
		assert.False(t, failed[kind] == 0 && everyChange() == 1, "no %s failed", kind)
	}
}

// run runs the script on a disk that fails once, and checks the answers of store and kernel.
func (p *faultyDisk) run(b *powerCuts, z Sizes, recorded *memoryEvents, what string) {
	l := &process{number: 1, events: recorded}
	s, err := Open(p.tap(), logDir, z)
	if err == nil {
		defer s.Close()
		if err = l.start(s, testClock(), rand.NewChaCha8([32]byte{1})); err == nil {
			defer l.k.Close()
			l.script()
		}
	}
	switch {
	case p.hit == nil:
		assert.NoError(b, err, "%s", what)
		return
	case s == nil || l.k == nil:
		assert.False(b, !errors.Is(err, p.err) && !p.derived(), "%s: opening says %v", what, err)
		return
	case p.derived():
		return
	}
	ctx := context.Background()
	d, _ := l.call(ctx, pay("after", 0))
	assert.True(b, errors.Is(d.Err(), helm.ErrDenied) && d.Reason == "KERNEL_SEALED" && errors.Is(d.Err(), p.err),
		"%s: the kernel goes on: %v", what, d.Err())
	size, _ := s.Size(ctx)
	first := s.Append(ctx, proofgraph.Batch{At: size})
	second := s.Append(ctx, proofgraph.Batch{At: size})
	assert.True(b, errors.Is(first, p.err) && second == first, "%s: a dead store says %v, then %v", what, first, second)
	a := &audit{events: recorded.all(), recorder: recorded}
	log, err := readLog(s)
	if err != nil {
		a.errorf("a dead store does not read: %v", err)
	}
	a.checkEvents(log)
	a.checkReceipts(log)
	for _, w := range a.wrong {
		b.Errorf("%s: before anything was opened again: %s", what, w)
	}
}

// ReadingFails lets each reading operation of open and New fail in turn, over a disk that a power
// cut left. A file that cannot be read is not taken for one that is missing: nothing is lost.
func ReadingFails(t *testing.T) {
	t.Parallel()
	b, failed := &powerCuts{T: t}, 0
	random := rand.New(rand.NewPCG(*Seed, 0))
	for after := 20; after < 261; after += 20 + 4*everyChange() {
		z, r, recorded := smallSizes, disktest.NewRAM(), &memoryEvents{}
		l := &process{number: 1, events: recorded}
		_, err := untilPowerCut(r, z, l, after, l.script)
		require.NoError(t, err)
		left := r.Cut(disktest.LeavesSectors, random)
		for at := 1; ; at++ {
			p := &faultyDisk{RAM: left.Clone(), fault: faults[0], at: at, reads: true}
			events := recorded.copy()
			s, err := Open(p.tap(), logDir, z)
			if err == nil {
				l := &process{number: 2, events: events}
				if err = l.start(s, nil, nil); err == nil {
					l.k.Close()
				}
				err = errors.Join(err, s.Close(), l.stateless)
			}
			if p.hit == nil {
				break
			}
			failed++
			what := fmt.Sprintf("reading operation %d, %s of %s, failed after a power cut at change %d", at, p.hit.Kind,
				p.hit.Path, after)
			assert.False(t, !errors.Is(err, syscall.EIO) && !p.derived(), "%s: it was not noticed: %v", what, err)
			if at%everyChange() == 0 {
				b.inspect(p.Clone(), z, events, what)
			}
		}
	}
	t.Logf("%d reading operations failed, %d disks were opened again, violations %d", failed, b.audits, b.violations)
	assert.True(t, failed >= 100, "too few cases")
}

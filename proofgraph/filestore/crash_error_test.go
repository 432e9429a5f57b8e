package filestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An ailment is how one operation of a disk fails. The disk is well again afterwards: whoever goes on as if nothing had been does harm.
type ailment struct {
	name string
	err  error
	of   string // the kind of operation; "": any
	do   func(o *op, r *rand.Rand)
}

var ailments = []ailment{
	{"fails", syscall.EIO, "", func(*op, *rand.Rand) {}},
	{"is done, and said to have failed", syscall.EIO, "", func(o *op, _ *rand.Rand) { _ = o.do() }},
	{"finds the disk full after a part", syscall.ENOSPC, "write", func(o *op, r *rand.Rand) { _ = o.part(r.IntN(len(o.data) + 1)) }},
	{"fails and drops what it was to keep", syscall.EIO, "sync", func(o *op, _ *rand.Rand) { o.file.(*ramFile).forget(false) }},
	{"fails and shows what it will never keep", syscall.EIO, "sync", func(o *op, _ *rand.Rand) { o.file.(*ramFile).forget(true) }},
}

// A patient is a disk of which one operation fails.
type patient struct {
	*ram
	ailment
	at     int // the how manieth change fails, or the how manieth reading operation
	reads  bool
	random *rand.Rand
	hit    *op
}

func (p *patient) tap() *tap {
	return &tap{disk: p.ram, hook: func(o *op) error {
		if o.n != p.at || o.changes == p.reads {
			return o.do()
		}
		if p.of != "" && p.of != o.kind {
			return o.do()
		}
		p.hit = o
		p.do(o, p.random)
		return p.err
	}}
}

// derived tells whether what fails can do without.
func (p *patient) derived() bool {
	return strings.Contains(p.hit.path, indexKind) && p.hit.kind != "remove" // that is done before something is erased
}

// Each change of the disk fails in its turn, in each way. The store is dead then, the kernel sealed, and its callers know whether their calls
// ran; reading goes on. After that, with the power on or off and on again, everything is as after a crash.
func TestCrashDiskFails(t *testing.T) {
	b, failed := &blackout{T: t}, map[string]int{}
	for i, z := range someSizes[:2] {
		step := everyChange * (1 + 3*i)
		whole := &life{number: 1, notes: &pages{}}
		changes, err := powered(newRAM(), z, whole, 0, whole.script)
		require.NoError(t, err)
		each(changes/step, func(at int) {
			at = at*step + 1
			random := rand.New(rand.NewPCG(*crashSeed, uint64(at)))
			for i, ill := range ailments {
				if ill.of == "" && i%2 != at%2 && *crashCuts == 0 {
					continue
				}
				p, book := &patient{ram: newRAM(), ailment: ill, at: at, random: random}, &pages{}
				what := fmt.Sprintf("%v: change %d of %d %s", z, at, changes, ill.name)
				p.fall(b, z, book, what)
				if p.hit == nil {
					continue
				}
				b.mu.Lock()
				failed[p.hit.kind]++
				b.mu.Unlock()
				b.inspect(p.cut(survivals[at%len(survivals)], random), z, book.copy(), what+"; then the power went")
				again := p.clone()
				if b.inspect(again, z, book, what+"; then it was opened again") && p.of == "sync" {
					b.inspect(again.cut(leavesNone, random), z, book, what+"; then it was opened again, and then the power went")
				}
			}
		})
	}
	b.report("disks that failed and were opened again", 500/everyChange)
	t.Logf("failures, of each kind of operation: %v", failed)
	for _, kind := range []string{"mkdir", "lock", "create", "write", "sync", "rename", "syncdir"} {
		if failed[kind] == 0 && everyChange == 1 {
			t.Errorf("no %s failed", kind)
		}
	}
}

// fall runs the script on a disk that fails once, and looks whether what noticed it behaves.
func (p *patient) fall(b *blackout, z sizes, book *pages, what string) {
	l := &life{number: 1, notes: book}
	s, err := open(p.tap(), crashDir, Options{}, z)
	if err == nil {
		defer s.Close()
		if err = l.begin(s, steady(), rand.NewChaCha8([32]byte{1})); err == nil {
			defer l.k.Close()
			l.script()
		}
	}
	switch {
	case p.hit == nil:
		assert.NoError(b, err, "%s", what)
		return
	case s == nil || l.k == nil:
		if !errors.Is(err, p.err) && !p.derived() {
			b.Errorf("%s: opening says %v", what, err)
		}
		return
	case p.derived():
		return
	}
	ctx := context.Background()
	d, _ := l.do(ctx, pay("after", 0))
	if !errors.Is(d.Err(), helm.ErrDenied) || d.Reason != "KERNEL_SEALED" || !errors.Is(d.Err(), p.err) {
		b.Errorf("%s: the kernel goes on: %v", what, d.Err())
	}
	size, _ := s.Size(ctx)
	first := s.Append(ctx, proofgraph.Batch{At: size})
	if second := s.Append(ctx, proofgraph.Batch{At: size}); !errors.Is(first, p.err) || second != first {
		b.Errorf("%s: a dead store says %v, then %v", what, first, second)
	}
	a := &audit{notes: book.all(), book: book}
	log, err := readLog(s)
	if err != nil {
		a.fault("a dead store does not read: %v", err)
	}
	a.hold(log)
	a.happened(log)
	for _, w := range a.wrong {
		b.Errorf("%s: before anything was opened again: %s", what, w)
	}
}

// Each time that opening and New read a disk which a power cut left, it fails in its turn. What cannot be read is not taken for what is not
// there: nothing is lost.
func TestCrashReadingFails(t *testing.T) {
	b, failed := &blackout{T: t}, 0
	random := rand.New(rand.NewPCG(*crashSeed, 0))
	for after := 20; after < 236; after += 20 + 4*everyChange {
		z, r, book := smallSizes, newRAM(), &pages{}
		l := &life{number: 1, notes: book}
		_, err := powered(r, z, l, after, l.script)
		require.NoError(t, err)
		left := r.cut(leavesSectors, random)
		for at := 1; ; at++ {
			p := &patient{ram: left.clone(), ailment: ailments[0], at: at, reads: true}
			notes := book.copy()
			s, err := open(p.tap(), crashDir, Options{}, z)
			if err == nil {
				l := &life{number: 2, notes: notes}
				if err = l.begin(s, nil, nil); err == nil {
					l.k.Close()
				}
				s.Close()
			}
			if p.hit == nil {
				break
			}
			failed++
			what := fmt.Sprintf("reading operation %d, %s of %s, failed after a power cut at change %d", at, p.hit.kind, p.hit.path, after)
			if !errors.Is(err, syscall.EIO) && !p.derived() {
				t.Errorf("%s: nobody noticed: %v", what, err)
			}
			if at%everyChange == 0 {
				b.inspect(p.clone(), z, notes, what)
			}
		}
	}
	t.Logf("%d reading operations failed, %d disks were opened again, violations %d", failed, b.audits, b.violations)
	if failed < 100 {
		t.Error("that is less than was to be seen")
	}
}

package filestore

import (
	"bytes"
	"fmt"
	"github.com/stretchr/testify/require"
	"math/rand/v2"
	"testing"
)

// Making a torn tail undone, or an erasure complete, is itself cut short, at each byte of each of its writes. What that leaves is still a torn
// tail, or an erasure that was begun.
func TestCrashRepairAtEachByte(t *testing.T) {
	random := rand.New(rand.NewPCG(*crashSeed, 2))
	torn, cuts := 0, 0
	step, stride := 23+4*everyChange, 97
	if *crashCuts > 0 {
		step, stride = 5, 7
	}
	for after := 20; after < 236; after += step {
		r, book := newRAM(), &pages{}
		l := &life{number: 1, notes: book}
		_, err := powered(r, smallSizes, l, after, l.script)
		require.NoError(t, err)
		for _, how := range survivals {
			left := r.cut(how, random)
			writes, erased := mended(left.clone(), 0, 0)
			if !erased {
				continue
			}
			torn++
			for n, size := range writes {
				for part := 0; part < size; part += everyChange {
					if part > 25 && part%stride > 0 {
						continue
					}
					cuts++
					again := left.clone()
					mended(again, n+1, part)
					what := fmt.Sprintf("change %d, which left %s; then write %d of the repair was cut after %d bytes of %d", after, how, n+1, part, size)
					require.Equal(t, "", reopened(again, book), "power lost after %s", what)
				}
			}
		}
	}
	t.Logf("%d torn tails and erasures, whose repair was cut short %d times", torn, cuts)
	if torn < 5 || cuts < 300 {
		t.Error("that is less than was to be seen")
	}
}

// mended opens a disk and gives the sizes of the writes to the log that this takes, and whether they erase anything. The power goes when so
// many bytes of the nth are written.
func mended(r *ram, n, part int) (writes []int, erased bool) {
	off := false
	t := &tap{disk: r, hook: func(o *op) error {
		if off {
			return errPower
		}
		if o.is("write", logKind) {
			writes, erased = append(writes, len(o.data)), erased || o.erases() || bytes.HasPrefix(o.data, fading[:1])
			if len(writes) == n {
				off = true
				_ = o.part(part)
				return errPower
			}
		}
		return o.do()
	}}
	if s, err := open(t, crashDir, Options{}, smallSizes); err == nil {
		s.Close()
	}
	return writes, erased
}

// reopened says what is wrong with the log, without a kernel over it.
func reopened(r *ram, book *pages) string {
	s, err := open(r, crashDir, Options{}, smallSizes)
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	log, err := readLog(s)
	if err != nil {
		return err.Error()
	}
	a := &audit{notes: book.all()}
	a.hold(log)
	a.happened(log)
	a.forgotten(s)
	a.searched(r, crashDir)
	if len(a.wrong) > 0 {
		return a.wrong[0]
	}
	return ""
}

package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// RepairAtEachByte cuts the power while a torn tail is removed, or an erasure finished, at each
// byte of each of the writes. What is left must still be a torn tail, or an erasure that was begun.
func RepairAtEachByte(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(*Seed, 2))
	torn, cuts := 0, 0
	step, stride := 17+4*everyChange(), 97
	if *wantedCuts > 0 {
		step, stride = 5, 7
	}
	for after := 20; after < 261; after += step {
		r, recorded := disktest.NewRAM(), &memoryEvents{}
		l := &process{number: 1, events: recorded}
		_, err := untilPowerCut(r, smallSizes, l, after, l.script)
		require.NoError(t, err)
		for _, how := range disktest.Survivals {
			left := r.Cut(how, random)
			writes, erased := repair(left.Clone(), 0, 0)
			if !erased {
				continue
			}
			torn++
			for n, size := range writes {
				for part := 0; part < size; part += everyChange() {
					if part > 25 && part%stride > 0 {
						continue
					}
					cuts++
					again := left.Clone()
					repair(again, n+1, part)
					what := fmt.Sprintf("change %d, which left %s; then write %d of the repair was cut after %d "+
						"bytes of %d", after, how, n+1, part, size)
					require.Equal(t, "", reopened(again, recorded), "power lost after %s", what)
				}
			}
		}
	}
	t.Logf("%d torn tails and erasures, whose repair was cut short %d times", torn, cuts)
	assert.True(t, torn >= 5 && cuts >= 300, "too few cases")
}

// repair opens a disk and returns the sizes of the writes to the log that this takes, and whether
// they erase anything. The power goes when so many bytes of the nth are written.
func repair(r *disktest.RAM, n, part int) (writes []int, erased bool) {
	off := false
	t := &disktest.Tap{Disk: r, Hook: func(o *disktest.Op) error {
		if off {
			return disktest.ErrPower
		}
		if o.Is("write", logKind) {
			writes, erased = append(writes, len(o.Data)), erased || o.Erases() ||
				bytes.HasPrefix(o.Data, overwritten[:1])
			if len(writes) == n {
				off = true
				_ = o.Part(part)
				return disktest.ErrPower
			}
		}
		return o.Do()
	}}
	if s, err := Open(t, logDir, smallSizes); err == nil {
		s.Close()
	}
	return writes, erased
}

// reopened returns what is wrong with the log, without a kernel over it.
func reopened(r *disktest.RAM, recorded *memoryEvents) string {
	s, err := Open(r, logDir, smallSizes)
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	log, err := readLog(s)
	if err != nil {
		return err.Error()
	}
	a := &audit{events: recorded.all()}
	a.checkEvents(log)
	a.checkReceipts(log)
	a.checkErased(s)
	a.search(r, logDir)
	if len(a.wrong) > 0 {
		return a.wrong[0]
	}
	return ""
}

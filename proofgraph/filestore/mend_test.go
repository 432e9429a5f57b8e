package filestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// until is a disk that a process reaches until it has made so many changes; then nothing is done
// any more. It tells whether it came to that.
func until(d disk.Disk, changes int) (_ disk.Disk, gone *bool) {
	gone = new(bool)
	return &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if *gone {
			return errors.New("the process has ended")
		}
		err := o.Do()
		*gone = o.Changes && o.N == changes
		return err
	}}, gone
}

// A process is killed at any change that it makes, which the system still shows, and while the next
// one mends that the power goes. What was acknowledged is there whatever is left.
func TestPowerGoesWhileAKillIsMended(t *testing.T) {
	t.Parallel()
	const n, changes = 12, 8
	cuts := 0
	for kill, killed := 1, true; killed; kill += stride() {
		shown, acknowledged := disktest.NewRAM(), 0
		d, gone := until(shown, kill)
		if s, err := open(d, dir, Options{}, small); err == nil {
			for acknowledged < n && s.Append(t.Context(), batch(acknowledged)) == nil {
				acknowledged++
			}
		}
		killed = *gone
		for after := 1; after <= changes; after++ {
			r := shown.Clone()
			d, _ := until(r, after)
			_, _ = open(d, dir, Options{}, small) // its power goes, and it is gone
			random := rand.New(rand.NewPCG(uint64(kill), uint64(after)))
			for _, how := range disktest.Survivals {
				what := fmt.Sprintf("killed after change %d, power lost after change %d of mending, which left %s",
					kill, after, how)
				s, err := open(r.Cut(how, random), dir, Options{}, small)
				require.NoError(t, err, "%s", what)
				there := int(s.entries / 2)
				if err := matches(s, there); err != nil || there < acknowledged {
					t.Fatalf("%s: %d batches of %d acknowledged: %v", what, there, acknowledged, err)
				}
				cuts++
			}
		}
	}
	if cuts < 1000/stride() {
		t.Errorf("%d power cuts", cuts)
	}
}

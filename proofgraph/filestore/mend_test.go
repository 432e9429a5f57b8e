package filestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// until returns a disk that does nothing any more after so many changes, and whether that happened.
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

// A process is killed at any of its changes, which the system still shows, and then the power goes
// while the next process repairs the log. The acknowledged batches are there, whatever the power
// cut leaves.
func TestPowerGoesWhileAKillIsMended(t *testing.T) {
	t.Parallel()
	race.Alone(t)
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
				err = matches(s, there)
				require.True(t, err == nil && there >= acknowledged, "%s: %d batches of %d acknowledged: %v", what,
					there, acknowledged, err)
				cuts++
			}
		}
	}
	assert.True(t, cuts >= 1000/stride(), "%d power cuts", cuts)
}

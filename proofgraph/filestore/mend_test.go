package filestore

import (
	"errors"
	"fmt"
	"github.com/stretchr/testify/require"
	"math/rand/v2"
	"testing"
)

// until is a disk that a process reaches until it has made so many changes; then nothing is done any more. It tells whether it came to that.
func until(d disk, changes int) (_ disk, gone *bool) {
	gone = new(bool)
	return &tap{disk: d, hook: func(o *op) error {
		if *gone {
			return errors.New("the process has ended")
		}
		err := o.do()
		*gone = o.changes && o.n == changes
		return err
	}}, gone
}

// A process is killed at any change that it makes, which the system still shows, and while the next one mends that the power goes. What was
// acknowledged is there whatever is left.
func TestPowerGoesWhileAKillIsMended(t *testing.T) {
	const n, changes = 12, 8
	cuts := 0
	for kill, killed := 1, true; killed; kill++ {
		shown, acknowledged := newRAM(), 0
		d, gone := until(shown, kill)
		if s, err := open(d, dir, Options{}, small); err == nil {
			for acknowledged < n && s.Append(t.Context(), batch(acknowledged)) == nil {
				acknowledged++
			}
		}
		killed = *gone
		for after := 1; after <= changes; after++ {
			r := shown.clone()
			d, _ := until(r, after)
			_, _ = open(d, dir, Options{}, small) // its power goes, and it is gone
			random := rand.New(rand.NewPCG(uint64(kill), uint64(after)))
			for _, how := range survivals {
				what := fmt.Sprintf("killed after change %d, power lost after change %d of mending, which left %s", kill, after, how)
				s, err := open(r.cut(how, random), dir, Options{}, small)
				require.NoError(t, err, "%s", what)
				there := int(s.entries / 2)
				if err := matches(s, there); err != nil || there < acknowledged {
					t.Fatalf("%s: %d batches of %d acknowledged: %v", what, there, acknowledged, err)
				}
				cuts++
			}
		}
	}
	if cuts < 1000 {
		t.Errorf("%d power cuts", cuts)
	}
}

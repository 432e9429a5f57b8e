package crash

import (
	"context"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A condensingLiar is a store whose Condense does something else.
type condensingLiar struct {
	Store
	does func(
		c proofgraph.Condenser, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
	) error
}

func (l condensingLiar) Condense(
	_ context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	return l.does(l.Store.(proofgraph.Condenser), stubs, blobs)
}

var condensingLiars = []struct {
	name  string
	does  func(c proofgraph.Condenser, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest]) error
	found string
}{
	{"does nothing", func(
		_ proofgraph.Condenser, _ iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
	) error {
		blobs(func(contracts.Digest) bool { return true })
		return nil
	}, "was condensed, and is there again"},
	{"keeps blobs", func(
		c proofgraph.Condenser, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
	) error {
		blobs(func(contracts.Digest) bool { return true })
		return c.Condense(context.Background(), stubs, func(func(contracts.Digest) bool) {})
	}, "is there again"},
	{"forgets one more", func(
		c proofgraph.Condenser, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
	) error {
		return c.Condense(context.Background(), stubs, func(yield func(contracts.Digest) bool) {
			if yield(crypto.Sum(secretOf(3))) {
				blobs(yield)
			}
		})
	}, `"secret of batch 3. 0" is not there`},
	{"condenses one more", func(
		c proofgraph.Condenser, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
	) error {
		return c.Condense(context.Background(), func(yield func(uint64, []byte) bool) {
			before := uint64(0)
			for i, line := range stubs {
				if before < 4 && i > 4 && !yield(4, stubOf(entriesOf(2)[0])) {
					return
				}
				if before = i; !yield(i, line) {
					return
				}
			}
		}, blobs)
	}, "entry 4 is a stub, and nobody condensed it"},
}

// CondenseFindsLiars runs the load over defective disks and stores: an audit must find each defect.
func CondenseFindsLiars(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(*Seed, 3))
	find := func(name, found string, hook func() func(*disktest.Op) error, through func(Store) Store) {
		all, cuts := "", 0
		for after := 40; after <= 320; after += 3 + everyChange() {
			r, recorded := disktest.NewRAM(), &memoryEvents{}
			var d disk.Disk = r
			if hook != nil {
				d = &disktest.Tap{Disk: r, Hook: hook()}
			}
			_, _ = untilCutThrough(d, smallSizes, recorded, after, through)
			for _, how := range []disktest.Survival{disktest.LeavesNone, disktest.LeavesPrefix} {
				a := &condensedAudit{events: recorded.all()}
				a.open(r.Cut(how, random), logDir, smallSizes, recorded.copy())
				all += strings.Join(a.wrong, "\n")
				cuts++
			}
		}
		assert.Contains(t, all, found, "%s: %d power cuts", name, cuts)
	}
	honest := func(s Store) Store { return s }
	for _, x := range defects {
		if x.hook != nil && x.name != "an erasure that marks nothing" {
			found := map[string]string{
				"a sync that is none":                          "not a segment of a log",
				"a store that answers before the sync is done": "was acknowledged, and there are",
				"a directory that is never synced":             "was condensed, and is there again",
				"an erasure that overwrites nothing":           x.found,
			}[x.name]
			find(x.name, found, x.hook, honest)
		}
	}
	for _, x := range condensingLiars {
		find("a store that "+x.name, x.found, nil, func(s Store) Store { return condensingLiar{s, x.does} })
	}
}

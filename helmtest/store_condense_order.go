package helmtest

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// Blobs go first: when one of the stubs can be read, a blob that is to be forgotten is there only
// if it came in a batch of whose entries none is a stub. So a caller that goes on after an end in
// the middle finds in the entries that are left what is still to be forgotten.
func condensesBlobsFirst(t *trial) {
	t.condenser()
	for i, after := range []int{0, 1, 2, 5, 9, 13} {
		o := newOrder(t, fmt.Sprintf("round %d,", i))
		_ = t.condenser().Condense(t.ctx, func(yield func(uint64, []byte) bool) {
			for n, index := range o.late {
				o.check()
				line := t.twin.stub(index, t.twin.entries)
				if n == after {
					line = []byte("short")
				}
				if !yield(index, line) {
					return
				}
			}
		}, digests(o.blobs))
		for range 2 {
			o.check()
			t.settle("a line that is no stub", o.blobs)
			t.same()
			t.reopen()
		}
		t.condense(o.late, o.blobs...)
		t.same()
	}
}

// An ordered is some batches that go, and the order in which that is done.
type ordered struct {
	*trial
	first uint64   // the first entry
	late  []uint64 // the entries that are condensed now; the others are stubs before
	blobs []string // one of each batch, which has two entries
}

func newOrder(t *trial, name string) *ordered {
	o := &ordered{trial: t, first: uint64(len(t.twin.entries))}
	for i := range 8 {
		b := t.batch(fmt.Sprintf("%s entry %d", name, 2*i), fmt.Sprintf("%s entry %d", name, 2*i+1))
		o.blobs = append(o.blobs, fmt.Sprintf("%s blob %d", name, i))
		b.Blobs = texts(o.blobs[i])
		t.append(b)
	}
	early := []uint64{o.first + 2, o.first + 11}
	t.condense(early)
	for i := o.first; i < o.first+16; i++ {
		if i != early[0] && i != early[1] {
			o.late = append(o.late, i)
		}
	}
	return o
}

// check reads entries, and then blobs.
func (o *ordered) check() {
	o.Helper()
	list, err := read(o.ctx, o.store, o.first, o.first+16)
	if err != nil {
		return // same reports it
	}
	begun := false
	for _, i := range o.late {
		begun = begun || contracts.IsStub(list[i-o.first])
	}
	for i, blob := range o.blobs {
		stub := contracts.IsStub(list[2*i]) || contracts.IsStub(list[2*i+1])
		_, err := o.store.Blob(o.ctx, crypto.Sum([]byte(blob)))
		if begun && stub && !errors.Is(err, proofgraph.ErrNoBlob) {
			o.Errorf("there are stubs, also in the batch of %q, which is to be forgotten and is there: %v", blob, err)
		}
	}
}

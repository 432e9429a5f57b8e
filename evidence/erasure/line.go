package erasure

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
)

// A line is a line of the log. No blob is kept for a stub.
type line struct{ *entry.Line }

// decision returns the hash of the entry that has the decision of an entry's call, or that of a
// message, which belongs to no call. The stub of a receipt does not have it.
func (x line) decision() (contracts.Digest, bool) {
	switch s, st := x.Stub, x.Entry; {
	case s != nil:
		return x.Hash, s.Decision != nil
	case st.Judgement() != nil, st.Message != nil:
		return x.Hash, true
	case st.Receipt != nil:
		return st.Receipt.DecisionHash, true
	}
	return contracts.Digest{}, false
}

// blobs calls f for each blob that an entry names.
func (x line) blobs(f func(contracts.Digest, entry.Role)) {
	if x.Entry != nil {
		entry.Blobs(x.Entry, f)
	}
}

// hashOf returns the leaf hash of an entry.
func (r *eraser) hashOf(ctx context.Context, index uint64) (hash contracts.Digest, err error) {
	err = errors.New("the store does not have it")
	if index < r.Size {
		err = r.each(ctx, index, index+1, func(_ uint64, x line) error {
			hash = x.Hash
			return nil
		})
	}
	return hash, err
}

// halves are decisions of which stubs are left, by hash and by index, until their receipts are
// read.
type halves struct {
	at   map[contracts.Digest]uint64
	hash map[uint64]contracts.Digest
}

// knowsCaller returns an error for a receipt that may be of a selected caller, if nobody can tell:
// of its decision the stub is left, which has no caller.
func (r *eraser) knowsCaller(index uint64, x line) error {
	if len(r.callers) == 0 {
		return nil
	}
	switch h, s := &r.half, x.Stub; {
	case s != nil && s.Decision != nil:
		if h.at == nil {
			h.at, h.hash = map[contracts.Digest]uint64{}, map[uint64]contracts.Digest{}
		}
		h.at[x.Hash], h.hash[index] = index, x.Hash
	case s != nil:
		delete(h.at, h.hash[s.Receipt.Decision])
		delete(h.hash, s.Receipt.Decision)
	case x.Entry.Receipt != nil:
		if decision, ok := h.at[x.Entry.Receipt.DecisionHash]; ok && !r.calls[x.Entry.Receipt.DecisionHash] {
			return fmt.Errorf("entry %d is a receipt, and of its decision, entry %d, a stub is left, which has no "+
				"caller: let go of the receipt too, with Kernel.Drop, or select it", index, decision)
		}
	}
	return nil
}

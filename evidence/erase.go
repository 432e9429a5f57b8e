package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A Selection says of which calls nothing but their entries is to be kept: of all that any of its fields names.
type Selection struct {
	Receipts []contracts.Digest // hashes of entries: a receipt, or the decision that it is of
	Entries  []uint64           // the same by index
	Sessions []string           // as calls asked for them, also where they were refused and are in none; "main" for those that named none
	Callers  []contracts.Caller // by ID and Tenant, both as they were given to Guard, the zero Caller where none was; Roles must be nil
}

// Erasure says what [Erase] did. Each list of digests is sorted and without repeats; all are nil where there is nothing to list.
type Erasure struct {
	Size   uint64             // of the log, in entries, when it was read
	Calls  []Call             // that were selected, by their decisions, in log order
	Erased []contracts.Digest // were there, and are not any more
	Kept   []contracts.Digest // an entry that was not selected names the same bytes: the output null, a policy document
	Gone   []contracts.Digest // were not there: erased before, or never kept
}

// Erase erases what a store keeps of calls beside their entries, which stay: the inputs of each judgement, denied ones too, with arguments
// and presented envelopes, the output and the facts. A store that is no [proofgraph.Eraser] is an error, and so is a receipt or an index that
// is not in the log as one; a session or a caller that has no calls is not. After an error call it again: what is gone stays gone.
//
// The log may be one that a kernel writes to. Calls that it enters while Erase runs are not selected, and what an entry comes to name at the
// moment at which it is erased is put back; so erase calls of sessions that are closed, or again when they are.
//
// Every verifier goes on to verify packs of the log. What was erased is named in [Report].Erased, beside what was never kept, and which verdicts
// cannot be made again in Replay. A kernel over the log goes by what is left, and denies what it can no longer know: POLICY.md, same and
// approvals.
//
// What entries say stays: who called which tool when, in which session, under which idempotency key, with what result, and the digests of
// what was erased, by which a guess can be checked. So does whatever left the store: copies of it, packs that were written before, what a
// file system or a drive has not overwritten, what tools, hosts and models kept.
func Erase(ctx context.Context, s proofgraph.Store, which Selection) (Erasure, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	e, ok := s.(proofgraph.Eraser)
	switch {
	case s == nil:
		return Erasure{}, errors.New("evidence: erase: no store was given")
	case !ok:
		return Erasure{}, errors.New("evidence: erase: the store cannot erase: it has no method EraseBlob")
	}
	r, err := newEraser(s, which)
	if err == nil {
		err = r.survey(ctx)
	}
	if err == nil {
		err = r.erase(ctx, e)
	}
	if err != nil {
		return Erasure{}, fmt.Errorf("evidence: erase: %w", err)
	}
	return r.Erasure, nil
}

// erase erases one blob after the other, and looks before each at what came to the log meanwhile.
func (r *eraser) erase(ctx context.Context, e proofgraph.Eraser) error {
	all := make([]contracts.Digest, 0, len(r.wanted))
	for d := range r.wanted {
		all = append(all, d)
	}
	slices.SortFunc(all, compareDigests)
	for i, d := range all {
		if err := r.one(ctx, e, d); err != nil {
			return fmt.Errorf("blob %s, after %d of %d: %w; mend that and call it again: what is gone stays gone", d, i, len(all), err)
		}
	}
	return nil
}

func (r *eraser) one(ctx context.Context, e proofgraph.Eraser, d contracts.Digest) error {
	size, err := r.store.Size(ctx)
	if err == nil {
		err = r.others(ctx, size)
	}
	if err != nil {
		return err
	}
	b, err := r.store.Blob(ctx, d)
	switch gone := errors.Is(err, proofgraph.ErrNoBlob); {
	case gone:
		r.Gone = append(r.Gone, d)
	case !r.wanted[d]:
		r.Kept = append(r.Kept, d)
	default:
		if err := e.EraseBlob(ctx, d); err != nil { // of damaged bytes, too
			return err
		}
		return r.settle(context.WithoutCancel(ctx), d, b)
	}
	return nil
}

// settle looks once more, for an entry may have come to name the bytes in the moment in which they were erased: then they are put back. It may
// be a policy, without whose documents nobody could verify the log again.
func (r *eraser) settle(ctx context.Context, d contracts.Digest, b []byte) error {
	for {
		size, err := r.store.Size(ctx)
		if err == nil {
			err = r.others(ctx, size)
		}
		switch {
		case err != nil:
			return err
		case r.wanted[d]:
			r.Erased = append(r.Erased, d)
			return nil
		case crypto.Sum(b) != d:
			return errors.New("an entry came to name it while it was erased, and its bytes were damaged")
		}
		err = r.store.Append(ctx, proofgraph.Batch{At: size, Blobs: [][]byte{b}})
		if err == nil {
			r.Kept = append(r.Kept, d)
			return nil
		}
		if !errors.Is(err, proofgraph.ErrConflict) { // with which others were faster, who append all the time
			return err
		}
	}
}

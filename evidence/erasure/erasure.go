// Package erasure erases what a store keeps besides the entries: inputs of calls with their
// arguments and envelopes, outputs and facts, of the calls of a receipt, a session or a caller; and
// the texts of user messages, of a session or one by one.
//
// The log stays as it is. What was proved of it stays proved, and checkpoints that were kept stay
// valid. Digests of the erased blobs are left, by which a guess can be checked. Copies of a store,
// packs that were given out earlier, backups and the worn cells of a drive are out of reach.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// A Selection names calls and user messages of which nothing but their entries is to be kept: all
// that any of its fields names.
type Selection struct {
	// Receipts are hashes of entries: a receipt, the decision that it belongs to, or a message.
	Receipts []contracts.Digest
	Entries  []uint64 // the same by index

	// Sessions are names as calls asked for them, also if they were refused and belong to none.
	// "main" stands for calls that named none. Messages of these sessions are selected too.
	Sessions []string

	// Callers are by ID and Tenant, both as they were given to Guard; the zero Caller if none was
	// given. Roles must be nil. Messages have no caller.
	Callers []contracts.Caller
}

// Erasure is what [Erase] did. Each list of digests is sorted and has no repeats; an empty list is
// nil.
type Erasure struct {
	Size   uint64             // of the log, in entries, when it was read
	Calls  []Call             // that were selected, by their decisions, in log order
	Erased []contracts.Digest // were there, and no longer are
	Kept   []contracts.Digest // another entry names the same bytes: the output null, a policy document
	Gone   []contracts.Digest // were not there: erased earlier, or never kept
}

// Call names a call by its decision.
type Call struct {
	Index uint64
	ID    string // session/seq
}

// Erase erases what a store keeps of the selected calls besides their entries: the inputs of each
// judgement, also of denials, with arguments and presented envelopes, the output and the facts; and
// the texts of the selected messages.
// Errors are a store that is no [proofgraph.Eraser], and a receipt or an index that is not in the
// log as one; a session or a caller without calls is no error. After an error call Erase again:
// what is gone stays gone.
//
// A kernel may be writing to the log. Calls that it enters while Erase runs are not selected. If an
// entry comes to name a blob at the moment at which it is erased, the blob is put back. So erase
// calls of sessions that are closed, or again when they are.
//
// Of calls of which only stubs are left ([proofgraph.Condenser]) nothing is kept that could be
// erased. They are among the Calls, but for those selected by their caller, whom no stub names. If
// the store has let go of a decision and not yet of its receipt, Erase by a caller is an error that
// says so.
//
// Every verifier still verifies packs of the log. Erased blobs are listed in
// evidence.Report.Erased, together with those that were never kept, and verdicts that cannot be
// made again in its Replay. A kernel over the log goes by what is left and denies what it can no
// longer know: see docs/POLICY.md, sections 4, 6, 11 and 12.
//
// What entries say stays: who called which tool when, in which session, under which idempotency key
// and with what result, and the digests of what was erased, by which a guess can be checked. So
// does all that left the store: copies of it, packs that were written earlier, what a file system
// or a drive has not overwritten, what tools, hosts and models kept.
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

// erase erases the blobs in the order of their digests.
func (r *eraser) erase(ctx context.Context, e proofgraph.Eraser) error {
	all := make([]contracts.Digest, 0, len(r.wanted))
	for d := range r.wanted {
		all = append(all, d)
	}
	slices.SortFunc(all, entry.Compare)
	for i, d := range all {
		if err := r.eraseBlob(ctx, e, d); err != nil {
			return fmt.Errorf("blob %s, after %d of %d: %w; mend that and call it again: what is gone stays gone",
				d, i, len(all), err)
		}
	}
	return nil
}

// eraseBlob erases one blob, unless an entry that was not selected names it. It reads what the log
// gained meanwhile first.
func (r *eraser) eraseBlob(ctx context.Context, e proofgraph.Eraser, d contracts.Digest) error {
	if _, err := r.catchUp(ctx); err != nil {
		return err
	}
	b, err := r.store.Blob(ctx, d)
	switch gone := errors.Is(err, proofgraph.ErrNoBlob); {
	case gone:
		r.Gone = append(r.Gone, d)
	case !r.wanted[d]:
		r.Kept = append(r.Kept, d)
	default:
		if err := e.EraseBlob(ctx, d); err != nil { // also if the bytes are damaged
			return err
		}
		return r.confirm(context.WithoutCancel(ctx), d, b)
	}
	return nil
}

// confirm reads the log once more after a blob was erased. If an entry came to name the blob at
// that moment, confirm puts it back: the entry may be a policy, and without its documents nobody
// could verify the log again.
func (r *eraser) confirm(ctx context.Context, d contracts.Digest, b []byte) error {
	for {
		size, err := r.catchUp(ctx)
		switch {
		case err != nil:
			return err
		case r.wanted[d]:
			r.Erased = append(r.Erased, d)
			return nil
		case crypto.Sum(b) != d:
			return errors.New("an entry came to name it while it was erased, and its bytes were damaged")
		}
		if err = r.putBack(ctx, proofgraph.Batch{At: size, Blobs: [][]byte{b}}); err == nil {
			r.Kept = append(r.Kept, d)
			return nil
		}
		// The log grew, or was not to be had: look again.
		if !errors.Is(err, proofgraph.ErrConflict) && !errors.Is(err, proofgraph.ErrMoved) {
			return err
		}
	}
}

// putBack writes blobs. To a store that is shared a writer does that, wherever the log ends.
func (r *eraser) putBack(ctx context.Context, b proofgraph.Batch) error {
	s, ok := r.store.(proofgraph.Shared)
	if !ok {
		return r.store.Append(ctx, b)
	}
	origin, err := r.origin(ctx)
	if err != nil {
		return err
	}
	w, err := s.Join(ctx, origin)
	if err != nil {
		return err
	}
	_, err = w.Turn(ctx, proofgraph.Ask{})
	if err == nil {
		err = w.End(ctx, proofgraph.Change{Batch: b})
	}
	return errors.Join(err, w.Leave(ctx))
}

// origin reads the name of the log.
func (r *eraser) origin(ctx context.Context) (string, error) {
	for e, err := range r.store.Entries(ctx, 0, 1) {
		if err != nil {
			return "", err
		}
		st, err := entry.Open(new(contracts.Reader), e)
		if err != nil {
			return "", err
		}
		if st.Genesis != nil {
			return st.Genesis.Origin, nil
		}
	}
	return "", errors.New("the log has no genesis")
}

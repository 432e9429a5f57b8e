package helm

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/archivist"
	"github.com/helmkernel/helm/internal/cosigned"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
)

// Checkpoint signs the log as it is now, stores the signed note durably and returns it. A pack
// reaches to the latest checkpoint.
func (k *Kernel) Checkpoint(ctx context.Context) (proofgraph.Checkpoint, error) {
	if k.none() {
		return proofgraph.Checkpoint{}, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := k.enter(0); err != nil {
		return proofgraph.Checkpoint{}, err
	}
	defer k.leave()
	return k.shared.checkpoint(ctx)
}

// ErrOlder is returned by [Kernel.Cosigned] for a checkpoint of the log that is not the latest one.
var ErrOlder = cosigned.ErrOlder

// Cosigned keeps cosignatures of the log's latest checkpoint: a host has a checkpoint cosigned
// (Options.Checkpoint.Done is the place for it) and passes the note with the lines of witnesses.
// Those lines that verify by Options.Checkpoint.Witnesses are durable in the store when Cosigned
// returns nil, and so in packs that are written after that. A note of up to 16 lines is stored: the
// log's, and the latest of each witness. All other lines are dropped. It is an error if none
// verifies.
//
// Of a note that has not the three lines of the latest checkpoint nothing is stored. If it is of an
// earlier one, signed by a log key, and the log begins with those entries, the error is [ErrOlder].
// A quorum that has cosigned it counts all the same, until the process ends.
//
// All kernels over the log take cosignatures, also those that are closed, and while the kernel that
// [New] made closes. When the log is sealed none does. If the lines cannot be stored it is sealed.
func (k *Kernel) Cosigned(ctx context.Context, note []byte) error {
	if k.none() {
		return errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	sh := k.shared
	if err := sh.options.cosigned.Add(ctx, sh.log, sh.options.Store, sh.trust.Load(), note); err != nil {
		return fmt.Errorf("helm: cosigned: %w", err)
	}
	return nil
}

// Inclusion returns the proof that the first size entries of the log have the one with that index,
// as evidence.Inclusion does: see there for what was checked. Size is at most the number of durable
// entries. It reads the store alone, so it goes on when the kernel is sealed or closed, until the
// store is. All kernels over the log return the same.
func (k *Kernel) Inclusion(ctx context.Context, index, size uint64) ([]contracts.Digest, error) {
	if k.none() {
		return nil, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	proof, err := proofs.Inclusion(ctx, k.shared.options.Store, index, size)
	if err != nil {
		return nil, fmt.Errorf("helm: inclusion: %w", err)
	}
	return proof, nil
}

// Consistency returns the proof that the first to entries of the log begin with the first from, as
// evidence.Consistency does. From is at least 1. Otherwise it is like [Kernel.Inclusion].
func (k *Kernel) Consistency(ctx context.Context, from, to uint64) ([]contracts.Digest, error) {
	if k.none() {
		return nil, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	proof, err := proofs.Consistency(ctx, k.shared.options.Store, from, to)
	if err != nil {
		return nil, fmt.Errorf("helm: consistency: %w", err)
	}
	return proof, nil
}

// Condensed is what [Kernel.Condense] wrote.
type Condensed struct {
	Entries    []contracts.Ref       // the condense entries, in order
	Members    uint64                // the entries of their sets, which the store may let go of
	Checkpoint proofgraph.Checkpoint // of the log with the condense entries
}

// Condense says in the log which entries its store may let go of: calls that ran, with their
// receipts, in sessions that were closed or in "main", if the policy by which they were judged has
// condense and they are older than that asks. See docs/FORMATS.md section 7 for the exact rules.
// Nothing that is younger at before goes; if before is zero, or later than now, it is now.
//
// For each set of entries, of at least 1,024, Condense writes a condense entry, and then it makes a
// checkpoint. If there is no such set it writes none. Nothing goes from the store yet:
// [Kernel.Drop] lets go. Between the two is the time for auditors to verify what goes, whole. But
// from the condense entry on the kernel itself knows these entries no more: an Intent with one of
// them in After is DENY INTENT_MALFORMED.
//
// Calls go on meanwhile. The first Condense after [New] reads the whole log, and each later one
// from the first entry on that could still go. There is one Condense or Drop at a time; others
// wait, until ctx ends. What was written when ctx ends or the store fails to read stays. If an
// entry cannot be signed or stored the kernel seals.
func (k *Kernel) Condense(ctx context.Context, before time.Time) (Condensed, error) {
	c, err := k.condense(ctx, before)
	if err != nil {
		return Condensed{}, fmt.Errorf("helm: condense: %w", err)
	}
	return c, nil
}

func (k *Kernel) condense(ctx context.Context, before time.Time) (Condensed, error) {
	if k.none() {
		return Condensed{}, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := k.enter(0); err != nil {
		return Condensed{}, err
	}
	defer k.leave()
	sh := k.shared
	if sh.joined {
		return Condensed{}, errJoined
	}
	until, err := sh.options.clock.Now()
	if err != nil {
		return Condensed{}, err
	}
	if !before.IsZero() {
		until = min(until, contracts.TimeOf(before))
	}
	w, err := sh.archive.Condense(ctx, sh.log, until, sh.writeCondense)
	if err != nil {
		return Condensed{}, err
	}
	c, err := sh.checkpoint(ctx)
	if err != nil {
		return Condensed{}, err
	}
	return Condensed{w.Entries, w.Members, c}, nil
}

// writeCondense writes a condense entry and returns when it is durable.
func (sh *shared) writeCondense(c *contracts.Condense, set iter.Seq[uint64]) (contracts.Ref, error) {
	slot, err := sh.signCondense(c, set)
	if err == nil {
		err = slot.Wait()
	}
	if err != nil {
		return contracts.Ref{}, err
	}
	sh.marks.Forget(set, slot.Index()) // no call that named them waits for its place any more
	return contracts.Ref{Index: slot.Index(), Hash: slot.Hash()}, nil
}

func (sh *shared) signCondense(c *contracts.Condense, set iter.Seq[uint64]) (*proofgraph.Slot, error) {
	s := sh.session(contracts.SessionKernel)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := sh.clock(s)
	if err == nil && at < c.Until {
		err = fmt.Errorf("the clock has run back since: entries of %v were to go at %v", c.Until, at)
	}
	if err != nil {
		return nil, err
	}
	write := func(proofgraph.Place) (*contracts.Statement, error) { return &contracts.Statement{Condense: c}, nil }
	return sh.log.Place(proofgraph.Draft{Chain: s.chain, Time: at, Forget: set, Write: write})
}

// ErrNoCondenser is returned by [Kernel.Drop] if the store is no [proofgraph.Condenser].
var ErrNoCondenser = archivist.ErrNoCondenser

// Dropped is what [Kernel.Drop] let go of.
type Dropped struct {
	Entries uint64 // the entries that became stubs
	Blobs   uint64 // the arguments, outputs and facts that no entry names any more
	Waiting uint64 // the entries of sets that no checkpoint covers yet, or too few witnesses
}

// Drop has the store let go of the entries that condense entries cover ([Kernel.Condense]), for
// good. In the place of each the store keeps a stub of some 300 bytes, from which the log can still
// be verified, though not what the entry said. Arguments, outputs and facts go unless an entry that
// stays names them; policies, texts of the user and modules stay.
//
// It lets go only of what a condense entry below the latest checkpoint covers. With
// Options.Checkpoint.Quorum that is a condense entry below a size that so many of its witnesses
// have cosigned ([Kernel.Cosigned]). What has to wait goes with a later Drop.
//
// Calls go on meanwhile. Drop reads the log. There is one Condense or Drop at a time; others wait,
// until ctx ends. It is an error, and nothing goes, if the store has other entries than the
// condense entries cover. If ctx ends, or the store fails, some of the entries are stubs and others
// are not; the kernel goes on, and a later Drop does the rest.
func (k *Kernel) Drop(ctx context.Context) (Dropped, error) {
	d, err := k.drop(ctx)
	if err != nil {
		return Dropped{}, fmt.Errorf("helm: drop: %w", err)
	}
	return d, nil
}

func (k *Kernel) drop(ctx context.Context) (Dropped, error) {
	if k.none() {
		return Dropped{}, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := k.enter(0); err != nil {
		return Dropped{}, err
	}
	defer k.leave()
	sh := k.shared
	if sh.joined {
		return Dropped{}, errJoined
	}
	below := sh.marked.Load()
	if sh.options.Checkpoint.Quorum > 0 {
		below = min(below, sh.options.cosigned.Size())
	}
	let, err := sh.archive.Drop(ctx, below)
	if err != nil {
		return Dropped{}, err
	}
	return Dropped{let.Entries, let.Blobs, let.Waiting}, nil
}

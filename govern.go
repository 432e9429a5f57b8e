package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Govern puts a trust event in force: it adds or revokes a key, replaces the roots, ends a grant,
// or freezes or unfreezes the system. The event is a [contracts.TrustEvent], signed by as many
// roots as the trust state requires: see [contracts.TrustRecord]. Its entry in the log is durable
// when Govern returns nil. It holds for the entries after it: a call that was judged before but is
// recorded after it is judged again. All kernels over one log have one trust state, so k may be a
// narrowed one.
//
// Govern refuses, with nothing written and nothing changed: an event of another log; one for
// another version of the state; one with too few signatures, with one of a signer who has no say,
// or with one that does not verify; one without the proof of a key that it adds; one that would
// change nothing. The error states the requirement: the next version, the log's name, the roots who
// have not signed. There is no other way to learn the version, and no need to know it before: an
// event of any other version is refused with the next one. If the registry of [Options] has no
// roots, or there is none, nothing can ever change. If ctx ends before anything is written Govern
// returns an error, and nothing has changed; later ctx does not count.
//
// While the system is frozen every call is SYSTEM_FROZEN, with a receipt, and so is a repeat of an
// idempotency key. Calls that were permitted before run on and get their receipts. Checkpoints,
// swaps, new overlays and the closing of sessions go on.
//
// An event that revokes the Key or the LogKey with which k was made is the last entry of this
// kernel. It is signed, by that Key too, and when it is durable the kernel is sealed, with a cause
// that says which keys there are. Govern returns nil. Calls that still run then end as under any
// seal: nothing is released, and the next [New], with another key, settles them. So add that key
// first. Better, close the kernel, begin the next one with the new key, and have that one enter the
// revocation.
//
// If the entry cannot be signed or stored, the kernel is sealed and the error says why.
func (k *Kernel) Govern(ctx context.Context, event contracts.Envelope) error {
	if k.none() {
		return errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	_, done, err := inspect(ctx)
	if err != nil {
		return fmt.Errorf("helm: govern: nothing was changed: %w", err)
	}
	t, err := contracts.ParseTrust(bytes.Clone(event))
	if err != nil {
		return fmt.Errorf("helm: govern: %w", err)
	}
	if err := k.enter(0); err != nil {
		return err
	}
	defer k.leave()
	if err := k.shared.log.Refresh(ctx); err != nil {
		return fmt.Errorf("helm: govern: nothing was changed: %w", err)
	}
	slot, err := k.shared.govern(t, done)
	for n := 0; err == proofgraph.ErrMoved && n < maxMoved; n++ {
		slot, err = k.shared.govern(t, done)
	}
	if err == errEnded {
		err = fmt.Errorf("nothing was changed: %w", contextError(ctx))
	}
	if err == nil {
		err = slot.Wait()
	}
	if err != nil {
		return fmt.Errorf("helm: govern: %w", err)
	}
	return nil
}

// govern signs the entry of an event, which may not be durable then.
func (sh *shared) govern(t *contracts.TrustRecord, done <-chan struct{}) (*proofgraph.Slot, error) {
	s := sh.session(contracts.SessionKernel)
	s.mu.Lock()
	defer s.mu.Unlock() // until then nobody else changes the state
	if ended(done) {
		return nil, errEnded
	}
	now, _ := sh.clock(s) // it stands still if it fails
	index, err := sh.log.Next()
	if err != nil {
		return nil, err
	}
	state := sh.trust.Load()
	next, err := state.Apply(t, sh.options.Origin, index) // before a place is taken: all is verified here
	if err != nil {
		return nil, err
	}
	take := func(at proofgraph.Place) (err error) {
		if sh.trust.Load() != state { // another kernel has changed it
			return proofgraph.ErrMoved
		}
		// Others may have come between, and a state says at which entry its keys began and ended.
		if placed := at.Index(); placed != index {
			if next, err = state.Apply(t, sh.options.Origin, placed); err != nil {
				return err
			}
		}
		sh.trust.Store(next)
		return nil
	}
	write := func(proofgraph.Place) (*contracts.Statement, error) { return &contracts.Statement{Trust: t}, nil }
	end := sh.options.revokedSigner(next, index+1)
	return sh.log.Place(proofgraph.Draft{Chain: s.chain, Time: now, Take: take, Write: write, End: end, Turn: true,
		Undo: func() { sh.trust.Store(state) }})
}

// OpenBundle verifies that a document is a bundle (P1) which a publisher signed, and returns a copy
// of it, for [guardian.Compile]. It uses the present trust state: a publisher's key that was
// added by [Kernel.Govern] counts, and a revoked one does not, whatever it signed before. On error
// it returns no document, and the error says why. A sealed kernel opens no bundles; a closed one
// does.
//
// A signature cannot say which versions there were. [Kernel.Swap] and [New] refuse to go back to an
// older one.
//
// Before there is a kernel, registry.OpenBundle takes the state that the log begins with. A later
// state is known only after the log was read. So over a log with trust events begin with the bundle
// that was in force, and swap in the next one.
func (k *Kernel) OpenBundle(signed contracts.Envelope, doc contracts.Document) (contracts.Document, error) {
	if k.none() {
		return contracts.Document{}, errNoKernel
	}
	// The trust state of a sealed kernel may be one that the log does not have.
	err := k.shared.log.Err()
	if err == nil {
		err = k.shared.log.Refresh(context.Background())
	}
	if err != nil && !errors.Is(err, errClosed) {
		return contracts.Document{}, err
	}
	return registry.OpenBundle(k.shared.trust.Load(), signed, doc)
}

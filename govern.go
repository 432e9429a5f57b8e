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

// Govern puts a trust event into force: a key is added or revoked, the roots are replaced, a grant is ended, the system is frozen or unfrozen.
// The event is a [contracts.TrustEvent], signed by as many as the trust state wants: see [contracts.TrustRecord]. It is entered in the log,
// durably when Govern returns nil, and holds for what stands behind it: a call that was judged before and stands behind it is judged again.
// All kernels over one log have one trust state, so k may be a narrowed one.
//
// Refused, with nothing written and nothing changed: an event of another log, for another version of the state, with a signature too few,
// of one who has no say or that does not verify, without the proof of a key that it adds, or that would change nothing. The error says what
// is wanted: the next version, the log's name, the roots who have not signed. There is no other way to ask for the version, and no need to
// know it before: an event of any version that is not the next is refused with that which is. Where the registry of [Options] has no roots,
// or there is none, nothing can ever change. A ctx that ends before anything was written is an error, and nothing has changed; later it
// does not count.
//
// While the system is frozen every call is SYSTEM_FROZEN, with a receipt, and so is a repeat of an idempotency key. Calls that were permitted
// before run on and get their receipts. Checkpoints, swaps, new overlays and the closing of sessions go on.
//
// An event that revokes the Key or the LogKey with which k was made is the last entry of this kernel: it is signed, by that Key too, and
// when it is durable the kernel is sealed, with a cause that says which keys there are. Govern returns nil. What runs then ends as under any
// seal: nothing is released, and the next [New], with another key, settles it. So add that key first; better, close the kernel, begin the
// next one with the new key, and have that one enter the revocation.
//
// Where the entry cannot be signed or stored, the kernel is sealed and the error says why.
func (k *Kernel) Govern(ctx context.Context, event contracts.Envelope) error {
	if k.none() {
		return errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	_, done, err := look(ctx)
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
	slot, err := k.govern(t, done)
	if errors.Is(err, errEnded) {
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
func (k *Kernel) govern(t *contracts.TrustRecord, done <-chan struct{}) (*proofgraph.Slot, error) {
	s := k.session(contracts.SessionKernel)
	s.mu.Lock()
	defer s.mu.Unlock() // until then nobody else moves the state
	if over(done) {
		return nil, errEnded
	}
	now := k.trust.Load()
	var index uint64
	var next *registry.State
	under := func(at uint64) (err error) {
		switch {
		case next == nil:
			index = at
			return errMoved
		case at != index: // others came between: a state says at which entry its keys began and ended
			if next, err = now.Apply(t, k.options.Origin, at); err != nil {
				return err
			}
		}
		k.trust.Store(next)
		return nil
	}
	at := k.clock(s)
	if _, err := k.log.Place(s.chain, at, nil, under); err != errMoved { // where it would stand: no place is taken before all is verified
		return nil, err
	}
	var err error
	if next, err = now.Apply(t, k.options.Origin, index); err != nil {
		return nil, err
	}
	var slot *proofgraph.Slot
	if cause := k.unseated(next, index+1); cause != nil {
		slot, err = k.log.PlaceLast(s.chain, at, nil, under, cause)
	} else {
		slot, err = k.log.Place(s.chain, at, nil, under)
	}
	if err != nil {
		return nil, err
	}
	defer slot.Void(errUnsigned)
	return slot, slot.Sign(&contracts.Statement{Trust: t})
}

// unseated is why this kernel cannot go on in a trust state: a key that it signs with is revoked.
func (k *Kernel) unseated(s *registry.State, index uint64) error {
	const next = "helm: a trust event revoked the %s that this kernel signs with: go on with helm.New and %s"
	if _, ok := s.Key(k.keyID, registry.Kernel, index); !ok {
		return fmt.Errorf(next, "Key", holders(s, registry.Kernel))
	}
	if _, ok := s.Key(k.logID, registry.Log, index); !ok {
		return fmt.Errorf(next, "LogKey", holders(s, registry.Log))
	}
	return nil
}

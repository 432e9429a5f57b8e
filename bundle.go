package helm

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// OpenBundle verifies that a document is a bundle (P1) which a publisher signed, and gives a copy of it, for [guardian.Compile]. It goes by the
// trust state of now: a publisher's key that was added by [Kernel.Govern] counts, and one that was revoked does not, whatever it signed before.
// The error says what is wrong, and there is no document then. A kernel that is sealed opens none; one that was closed does.
//
// Which versions there were a signature cannot say. That an older one does not come back is for [Kernel.Swap] and [New] to refuse.
//
// Where there is no kernel yet, registry.OpenBundle goes by the state that the log begins with. A later state is known when the log was read: so
// over a log with trust events begin with the bundle that was in force, and put the next one in its place.
func (k *Kernel) OpenBundle(signed contracts.Envelope, doc contracts.Document) (contracts.Document, error) {
	if k.none() {
		return contracts.Document{}, errNoKernel
	}
	if err := k.log.Err(); err != nil && !errors.Is(err, errClosed) { // the trust state of now may be one that the log does not have
		return contracts.Document{}, err
	}
	return registry.OpenBundle(k.trust.Load(), signed, doc)
}

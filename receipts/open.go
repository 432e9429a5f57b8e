package receipts

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Open verifies a receipt: its bytes, its form, that a kernel key of the trust state which is valid at the index signed it, and what it says by
// itself. index is the receipt's place in the log. Whatever is not a receipt is refused, and then the Receipt is zero.
func Open(e contracts.Entry, trust *registry.State, index uint64) (contracts.Receipt, error) {
	var reader contracts.Reader
	sealed, ferr := reader.Open(e)
	if ferr != nil {
		return refused(ferr)
	}
	if sealed.Kind != contracts.KindReceipt {
		return refused(errors.New("the entry is no receipt"))
	}
	if key, ok := sealed.Key(); !ok || key != sealed.KeyID {
		return refused(errors.New("KEY: the envelope and the header name different keys"))
	}
	key, ok := trust.Key(sealed.KeyID, registry.Kernel, index)
	if !ok {
		return refused(errors.New("KEY: not a kernel key of the trust state that is valid at this index"))
	}
	if !crypto.Verify(key, crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload), sealed.Sig) {
		return refused(errors.New("SIGNATURE: does not verify"))
	}
	st, ferr := sealed.Statement()
	if ferr != nil {
		return refused(ferr)
	}
	return *st.Receipt, nil
}

func refused(err error) (contracts.Receipt, error) {
	return contracts.Receipt{}, fmt.Errorf("receipts: open: %w", err)
}

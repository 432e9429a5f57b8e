package receipts

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Open verifies a receipt: its bytes, its form, that it is signed by a kernel key of the trust
// state that is valid at the index, and that its fields agree. index is the receipt's index in the
// log as the caller knows it. It only selects the valid keys: Open does not prove the index, nor
// that the receipt is in any log. Packs do (see package evidence). If anything is not as it should
// be, Open returns an error and the zero Receipt.
func Open(e contracts.Entry, trust *registry.State, index uint64) (contracts.Receipt, error) {
	st, err := open(e, contracts.KindReceipt, trust, index)
	if err != nil {
		return contracts.Receipt{}, err
	}
	return *st.Receipt, nil
}

// OpenDecision verifies the decision that a receipt names, an ALLOW, in the same way.
func OpenDecision(e contracts.Entry, trust *registry.State, index uint64) (contracts.DecisionRecord, error) {
	st, err := open(e, contracts.KindDecision, trust, index)
	if err != nil {
		return contracts.DecisionRecord{}, err
	}
	return *st.Decision, nil
}

func open(e contracts.Entry, kind contracts.Kind, trust *registry.State, index uint64) (*contracts.Statement, error) {
	refused := func(err error) (*contracts.Statement, error) { return nil, fmt.Errorf("receipts: open: %w", err) }
	var reader contracts.Reader
	sealed, err := reader.Open(e)
	if err != nil {
		return refused(err)
	}
	if sealed.Kind != kind {
		return refused(fmt.Errorf("the entry is no %s", kind))
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
	st, err := sealed.Statement()
	if err != nil {
		return refused(err)
	}
	return st, nil
}

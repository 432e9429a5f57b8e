package approval

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

// Once the inputs of a call that was approved are erased, it is not known which request was used.
// So every request for the same call that is not younger counts as used, whether the log is read
// or a state that knew more before.
func TestErasedInputsFromAState(t *testing.T) {
	kerneltest.OneWriter(t, "no state is kept of a log that others write to")
	t.Parallel()
	for _, fromState := range []bool{false, true} {
		b := kerneltest.NewBank(t)
		first := b.AskToPay()
		b.Pass(time.Second)
		second := b.AskToPay()
		d, _ := b.MustPay(b.Approve(first, kerneltest.Ann))
		b.Pass(time.Second)
		third := b.AskToPay()
		b.Close() // it makes a state
		whole := b.Store.Store
		read := kerneltest.ReadStore{Store: whole, OnBlob: func(x contracts.Digest) ([]byte, error) {
			if x == d.Record.InputsHash {
				return nil, proofgraph.ErrNoBlob
			}
			return whole.Blob(context.Background(), x)
		}}
		b.Store.Store = read
		if fromState {
			remembers := whole.(proofgraph.Rememberer)
			saved, err := remembers.State(context.Background())
			require.NoError(t, err)
			require.NotNil(t, saved)
			b.Store.Store = struct {
				kerneltest.ReadStore
				proofgraph.Rememberer
			}{read, remembers}
		}
		b.Open()
		b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(second, kerneltest.Bob))
		b.MustPay(b.Approve(third, kerneltest.Bob))
		for _, e := range b.Events {
			require.NotEqual(t, "state", e.Why, "%v", e.Err)
		}
	}
}

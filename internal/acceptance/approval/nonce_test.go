package approval

import (
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// talk makes a call one of another session.
func talk(session string) func(*helm.Intent) {
	return func(i *helm.Intent) { i.Session = session }
}

// The author of a nonce may sign it for two sessions, and it is still one approval: of two calls at
// once one runs. After a restart, with the first session closed, the other is told that it was
// used.
func TestApprovalOfOneNonceForTwoSessions(t *testing.T) {
	t.Parallel()
	for range 8 {
		b := kerneltest.NewBank(t)
		first := b.AskToPay()
		second := b.Ask("pay", kerneltest.Rent, talk("other"))
		second.Nonce = first.Nonce
		yes := map[string]contracts.Envelope{"chat": b.Approve(first, kerneltest.Ann),
			"other": b.Approve(second, kerneltest.Ann)}
		var ran, used atomic.Int64
		kerneltest.AtOnce(8, func(i int) {
			session := []string{"chat", "other"}[i%2]
			switch d, r := b.Do("pay", kerneltest.Rent, talk(session), kerneltest.With(yes[session])); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case d.Reason == contracts.ReasonApprovalInvalid && r.Record.Outcome == contracts.Denied:
				used.Add(1)
			default:
				t.Errorf("%s: %s", d.Reason, d.Why)
			}
		})
		assert.Equal(t, int64(1), ran.Load())
		assert.Equal(t, int64(7), used.Load())
		assert.Equal(t, int64(1), b.Runs.Load())
		b.MustPass()
	}
	b := kerneltest.NewBank(t)
	first, second := b.AskToPay(), b.Ask("pay", kerneltest.Rent, talk("other"))
	second.Nonce = first.Nonce
	b.MustPay(b.Approve(first, kerneltest.Ann))
	require.NoError(t, b.Kernel.CloseSession(t.Context(), "chat"))
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, talk("other"),
		kerneltest.With(b.Approve(second, kerneltest.Ann)))
	b.Reopen()
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, talk("other"),
		kerneltest.With(b.Approve(second, kerneltest.Ann)))
	b.MustAgree(b.MustPass())
}

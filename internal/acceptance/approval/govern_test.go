package approval

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
)

// An approver counts after the entry of the event that adds them and until the one that revokes
// them, also after a restart, and also for a call that is being judged when the event gets its
// place.
func TestGovernApprovers(t *testing.T) {
	t.Parallel()
	var now func()
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		clock := o.Now
		o.Now = func() time.Time { // read with the session locked, before the judgement
			if now != nil {
				f := now
				now = nil
				f()
			}
			return clock()
		}
	})
	adding := func() {
		b.Govern(b.Adding(kerneltest.Stranger, "fay", registry.Approver, "owner"), kerneltest.BankRoot)
	}
	revoking := func() { b.Govern(b.Revoking(kerneltest.Stranger), kerneltest.BankRoot) }

	yes := kerneltest.With(b.ApprovedRent(kerneltest.Stranger))
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, yes) // not yet
	now = adding
	b.MustDo("pay", kerneltest.Rent, yes)                                     // judged again, after the event
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, yes) // once

	b.Pass(time.Minute) // a request at another time is another one
	again := kerneltest.With(b.ApprovedRent(kerneltest.Stranger))
	b.Reopen()
	b.MustDo("pay", kerneltest.Rent, again)

	b.Pass(time.Minute)
	last := b.AskToPay()
	now = revoking
	b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(last, kerneltest.Stranger))
	b.MustPay(b.Approve(last, kerneltest.Bob))
	b.MustFollowTrust()
	b.MustPass()
}

// While the system is frozen no approval is asked for and none is used. Afterwards it is as good as
// before.
func TestFreezeKeepsApprovals(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	yes := kerneltest.With(b.ApprovedRent(kerneltest.Ann))
	b.Govern(b.Freezing(), kerneltest.BankRoot)
	b.MustNotDo(contracts.ReasonSystemFrozen, "pay", kerneltest.Rent, yes)
	b.MustNotPay(contracts.ReasonSystemFrozen)
	b.Govern(b.Unfreezing(), kerneltest.BankRoot)
	b.MustDo("pay", kerneltest.Rent, yes)
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, yes)
	b.MustFollowTrust()
	b.MustPass()
}

// An approval and the revocation of its approver, sent at the same time, have one order in the log,
// and the verdict is the one of that order.
func TestGovernRacesApproval(t *testing.T) {
	t.Parallel()
	allowed := atomic.Int64{}
	for range 8 {
		b := kerneltest.NewBank(t)
		yes := kerneltest.With(b.ApprovedRent(kerneltest.Ann))
		revoke := kerneltest.SignEvent(t, b.Revoking(kerneltest.Ann), kerneltest.BankRoot)
		done := make(chan error)
		go func() { done <- b.Kernel.Govern(t.Context(), revoke) }()
		d, _ := b.Do("pay", kerneltest.Rent, yes)
		assert.NoError(t, <-done)
		switch {
		case d.Allowed():
			allowed.Add(1)
		case d.Reason != contracts.ReasonApprovalInvalid:
			t.Errorf("%s", d.Reason)
		}
		b.MustFollowTrust()
		b.MustVerify()
	}
	t.Logf("%d of 8 before the revocation", allowed.Load())
}

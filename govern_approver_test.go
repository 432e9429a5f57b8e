package helm_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// An approver counts from the entry behind the event that adds her, up to the one that revokes her, and over a restart: also for the call that is
// being judged just when the event gets its place.
func TestGovernApprovers(t *testing.T) {
	var now func()
	b := newBank(t, func(o *helm.Options) {
		clock := o.Now
		o.Now = func() time.Time { // asked for with the session locked, before the judgement
			if now != nil {
				f := now
				now = nil
				f()
			}
			return clock()
		}
	})
	adding := func() { b.govern(b.adding(seedX, "fay", registry.Approver, "owner"), seedRoot) }
	revoking := func() { b.govern(b.revoking(seedX), seedRoot) }

	yes := with(b.approve(b.ask("pay", rent), seedX))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, yes) // not yet
	now = adding
	b.mustDo("pay", rent, yes)                                     // judged again, behind the event
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, yes) // once

	b.pass(time.Minute) // a request of another time is another
	again := with(b.approve(b.ask("pay", rent), seedX))
	b.reopen()
	b.mustDo("pay", rent, again)

	b.pass(time.Minute)
	last := b.ask("pay", rent)
	now = revoking
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(last, seedX)))
	b.mustDo("pay", rent, with(b.approve(last, seedBob)))
	b.mustRule()
	b.mustPass()
}

// While the system is frozen an approval is neither asked for nor used up: when that is over it is as good as before.
func TestFreezeKeepsApprovals(t *testing.T) {
	b := newBank(t)
	yes := with(b.approve(b.ask("pay", rent), seedAnn))
	b.govern(b.freezing(), seedRoot)
	b.mustNotDo(contracts.ReasonSystemFrozen, "pay", rent, yes)
	b.mustNotDo(contracts.ReasonSystemFrozen, "pay", rent)
	b.govern(b.thawing(), seedRoot)
	b.mustDo("pay", rent, yes)
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, yes)
	b.mustRule()
	b.mustPass()
}

// Of an approval and the revocation of its approver, sent off together, the log has one order, and the verdict is that of it.
func TestGovernRacesApproval(t *testing.T) {
	allowed := atomic.Int64{}
	for range 8 {
		b := newBank(t)
		yes := with(b.approve(b.ask("pay", rent), seedAnn))
		revoke := signed(t, b.revoking(seedAnn), seedRoot)
		done := make(chan error)
		go func() { done <- b.k.Govern(t.Context(), revoke) }()
		d, _ := b.do("pay", rent, yes)
		if err := <-done; err != nil {
			t.Error(err)
		}
		switch {
		case d.Allowed():
			allowed.Add(1)
		case d.Reason != contracts.ReasonApprovalInvalid:
			t.Errorf("%s", d.Reason)
		}
		b.mustRule()
		b.mustVerify()
	}
	t.Logf("%d of 8 before the revocation", allowed.Load())
}

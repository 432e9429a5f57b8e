package helm

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Budgets. What a call costs is peeked at while it is judged, and reserved with its place in the log: so charges stand in the log in the order
// in which they were made, whatever the number of callers. What a receipt does not keep is given back with the receipt's place.

// take is called with the place of the call's entry taken. A call is judged anew, too, where one of another session has consumed meanwhile
// what it was approved by.
func (c *call) take(uint64) error {
	if err := c.stands(); err != nil {
		return err
	}
	if len(c.nonces) > 0 && c.consumed.has(c.nonces...) {
		return errMoved
	}
	if c.lost = len(c.charges) > 0 && !c.ledger.Reserve(c.charges, c.inputs.State.Budgets); !c.lost && len(c.nonces) > 0 {
		c.consumed.add(c.nonces)
	}
	return nil
}

// yield judges the call anew where another took what it was to be charged: on the balances that were found then, so it is a denial, which
// stands in the same place.
func (c *call) yield(a *answer) {
	record, state, why := c.policy.Decide(&c.inputs, c.state, found{priors{c}, c.inputs.State.Budgets})
	c.inputs.State = state
	if record.Verdict == contracts.Allow { // a fault of ours: nothing was reserved
		c.forget(a)
		record, why.What = c.policy.Refuse(c.inputs, contracts.ReasonFailClosedError), "a budget was lost and found"
	}
	a.record, a.reason, a.why = record, record.Reason, why.String()
}

// found is the past in which balances are what they were when the call's place was taken. What was read for conditions that come after is read
// no more, for inputs hold what was read and nothing else.
type found struct {
	priors
	balances []contracts.Balance
}

// Spent is the balance that was found.
func (f found) Spent(c contracts.Charge) uint64 {
	for i := range f.balances {
		if b := &f.balances[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			return b.Spent
		}
	}
	return crypto.MaxInt
}

// refunds names the budgets that give a call's charges back.
func (c *call) refunds(a *answer, reason contracts.ReasonCode) []string {
	if len(a.record.Charges) == 0 {
		return nil
	}
	return c.policy.Refunds(c.inputs.Tool, reason)
}

// giveBack settles charges with the place of their receipt taken.
func (k *Kernel) giveBack(charges []contracts.Charge, r *contracts.Receipt) func(uint64) error {
	if len(charges) == 0 {
		return nil
	}
	return func(uint64) error { return k.ledger.Settle(charges, r.Settled, r.Reason) }
}

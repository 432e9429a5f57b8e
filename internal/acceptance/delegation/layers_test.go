package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Budgets, floors and overlays hold under every grant, also if they depend on the caller.
func TestDelegationLeavesNothing(t *testing.T) {
	t.Parallel()
	chain := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})
	layer := func(layer, more string) string {
		return "helm: policy/v1\nlayer: " + layer + "\nname: x\nversion: 1\n" + more
	}
	const no, is = "rules:\n  - {id: 'no', deny: echo}\n", "rules:\n  - {id: 'no', deny: echo, %s: {caller: id, eq: " +
		"%s, absent: false}}\n"
	for _, c := range []struct {
		layer, more string
		reason      contracts.ReasonCode
		rule        string
	}{
		{"P2", "for: {caller: agent}\n" + no, contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", "for: {caller: ann}\n" + no, contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", "for: {caller: carl}\n" + no, contracts.ReasonAllow, "P1:shop:clerks"},
		{"P2", "for: {caller: agent}\nonly: outer\n", contracts.ReasonPolicyViolation, "P2:x:only"},
		{"P2", fmt.Sprintf(is, "when", "ann"), contracts.ReasonPolicyViolation, "P2:x:no"},
		{"P2", fmt.Sprintf(is, "unless", "ann"), contracts.ReasonAllow, "P1:shop:clerks"},
		{"P0", fmt.Sprintf(is, "when", "agent"), contracts.ReasonCeilingViolation, "P0:x:no"},
		{"P0", fmt.Sprintf(is, "unless", "ann"), contracts.ReasonCeilingViolation, "P0:x:no"},
		{"P0", fmt.Sprintf(is, "unless", "agent"), contracts.ReasonAllow, "P1:shop:clerks"},
	} {
		w := newAgent(t, layer(c.layer, c.more))
		d, _ := under(w, chain)
		assert.Equal(t, c.reason, d.Reason, "%s %q", c.layer, c.more)
		assert.Equal(t, c.rule, d.Record.Rule, "%s %q", c.layer, c.more)
		assert.Equal(t, w.Runs.Load() == 1, d.Allowed(), "%s %q", c.layer, c.more)
		w.MustVerify()
	}
	w := newAgent(t)
	for range 30 {
		d, _ := under(w, chain)
		require.True(t, d.Allowed(), d.Err())
	}
	w.Runs.Store(0)
	// Lending rights multiplies no balance: not by another grant, to another delegate or for more.
	// Nor does who lends them have one left.
	exceeded := kerneltest.Denied(contracts.ReasonBudgetExceeded)
	d, r := under(w, chain)
	w.MustBe(d, r, exceeded)
	for i := range 10 {
		helper := fmt.Sprint("helper-", i)
		grant := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: helper})
		d, r := under(w, grant, func(in *helm.Intent) { in.Caller.ID = helper })
		w.MustBe(d, r, exceeded)
	}
	d, r = under(w, nil, func(in *helm.Intent) { in.Caller.ID, in.Caller.Roles = "ann", []string{"clerk"} })
	w.MustBe(d, r, exceeded)
	// Another tenant of theirs, and another delegator, have balances of their own.
	d, _ = under(w, chain, func(in *helm.Intent) { in.Caller.Tenant = "umbrella" })
	require.True(t, d.Allowed(), d.Err())
	d, _ = under(w, kerneltest.Chain(t, contracts.Delegation{Delegator: "bob", Delegate: "agent"}))
	require.True(t, d.Allowed(), d.Err())
	w.MustVerify()
}

// A grant that is revoked while the kernel runs, or the key of a link, counts for nothing more: in
// the next call, in a call that was judged before and placed after it, and after a restart. Entries
// before it stay as they were judged.
func TestDelegationRevoked(t *testing.T) {
	t.Parallel()
	chain := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 1},
		contracts.Delegation{Delegator: "bob", Delegate: "agent"})
	undelegate := func(e contracts.Envelope, delegator string) contracts.TrustEvent {
		digest := e.Digest()
		return contracts.TrustEvent{Type: "undelegate", Delegation: &digest, Delegator: delegator}
	}
	revoke := func(name string) contracts.TrustEvent {
		id := crypto.KeyID(kerneltest.NamedPublic(t, name))
		return contracts.TrustEvent{Type: "revoke", ID: &id}
	}
	const invalid = contracts.ReasonDelegationInvalid
	for _, c := range []struct {
		name, by string
		event    contracts.TrustEvent
		reason   contracts.ReasonCode
		says     string
	}{
		{"the leaf", "root", undelegate(chain[0], "bob"), invalid, "grant 0: it was revoked"},
		{"the leaf, by its delegator", "bob", undelegate(chain[0], "bob"), invalid, "grant 0: it was revoked"},
		// an event has no grant
		{"the leaf, by another delegator who names himself", "carl", undelegate(chain[0], "carl"), invalid,
			"grant 0: it was revoked"},
		{"the parent", "ann", undelegate(chain[1], "ann"), invalid, "grant 1: it was revoked"},
		{"the leaf's key", "root", revoke("bob"), invalid, "grant 0: KEY"},
		{"the root delegator's key", "root", revoke("ann"), invalid, "grant 1: KEY"},
		{"another delegator's key", "root", revoke("carl"), contracts.ReasonAllow, ""},
		{"another grant", "ann",
			undelegate(kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})[0], "ann"),
			contracts.ReasonAllow, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var during func() // when the clock is read next: with the session locked, before the judgement
			w := kerneltest.New(t, withDelegators(t), func(o *helm.Options) {
				o.Now = func() time.Time {
					if f := during; f != nil {
						during = nil
						f()
					}
					return kerneltest.Noon
				}
			})
			w.Governed = true
			calls := func(when string, want contracts.ReasonCode) {
				t.Helper()
				d, r := under(w, chain)
				ran := w.Runs.Swap(0) == 1
				assert.Equal(t, want, d.Reason, when)
				assert.Equal(t, want == contracts.ReasonAllow, d.Allowed(), when)
				assert.Equal(t, d.Allowed(), ran, when)
				assert.NotNil(t, r.Entry, when)
				if !d.Allowed() {
					assert.Contains(t, d.Why, c.says, when)
				}
			}
			calls("before", contracts.ReasonAllow)
			during = func() { w.GovernByName(c.event, c.by) }
			calls("between judgement and place", c.reason)
			assert.Nil(t, during, "nothing was revoked")
			calls("after it", c.reason)
			w.Reopen()
			calls("after a restart", c.reason)
			report := w.MustVerify()
			assert.Equal(t, uint64(4), report.Allows+report.Denials)
			assert.Equal(t, uint64(4), report.Replay.Replayed)
			if c.name == "the parent" { // the other implementation takes long
				w.MustAgree(report)
			}
		})
	}
}

// Under a grant the approval asked for is one of the caller: an approval for the delegator, or for
// the call without the grant, is none. The grant is still required.
func TestDelegationApproved(t *testing.T) {
	t.Parallel()
	w := newAgent(t,
		"helm: policy/v1\nlayer: P0\nname: asks\nversion: 1\nrequires:\n  - {id: people, tools: [echo], all: "+
			"[{approval: {roles: [clerk]}}]}\n")
	chain := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"})
	d, r := under(w, chain)
	w.MustBe(d, r, kerneltest.Denied(contracts.ReasonApprovalRequired))
	require.ErrorIs(t, d.Err(), helm.ErrApprovalRequired, "asked")
	require.NotNil(t, d.Pending)
	require.Equal(t, "agent", d.Pending.Caller.ID)
	require.Equal(t, "echo", d.Pending.Tool)
	approved := func(of helm.Caller) func(*helm.Intent) {
		q := *d.Pending
		q.Caller = of
		e, err := q.Approve(kerneltest.NamedKey(t, "dora"))
		require.NoError(t, err)
		return func(in *helm.Intent) { in.Approvals = []contracts.Envelope{e} }
	}
	for _, x := range []struct {
		name   string
		chain  []contracts.Envelope
		change func(*helm.Intent)
		reason contracts.ReasonCode
	}{
		{"of the delegator", chain, approved(helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}),
			contracts.ReasonApprovalInvalid},
		{"of the caller, without a grant", nil, approved(d.Pending.Caller), contracts.ReasonNoPolicyDefined},
		{"of the caller, under another's", kerneltest.Chain(t,
			contracts.Delegation{Delegator: "carl", Delegate: "agent"}), approved(d.Pending.Caller),
			contracts.ReasonNoPolicyDefined},
	} {
		d, r := under(w, x.chain, x.change)
		assert.Equal(t, x.reason, d.Reason, "%s: %s (%s)", x.name, d.Reason, d.Why)
		w.MustBe(d, r, kerneltest.Denied(x.reason))
	}
	d, r = under(w, chain, approved(d.Pending.Caller))
	w.MustBe(d, r, kerneltest.Executed(string(r.Output)))
	assert.NotNil(t, d.Record.Delegation)
	assert.Len(t, d.Record.Approvals, 1)
	report := w.MustVerify()
	assert.Equal(t, uint64(1), report.Allows)
	assert.Zero(t, report.Replay.NotReplayable)
	w.MustAgree(report)
}

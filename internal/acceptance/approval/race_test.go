package approval

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Two approvers answer the same request at the same time, and each repeats the call with the
// approvals so far. Two are required, so the call runs once, with both.
func TestApproversRace(t *testing.T) {
	t.Parallel()
	const account = `{"account":"17"}`
	for i := range 8 {
		b := kerneltest.NewBank(t)
		asked := b.Ask("close", account)
		var mu sync.Mutex
		var given []contracts.Envelope
		var ran atomic.Int64
		kerneltest.AtOnce(2, func(i int) {
			e := b.Approve(asked, []byte{kerneltest.Ann, kerneltest.Cid}[i])
			mu.Lock()
			given = append(given, e)
			have := given[:len(given):len(given)]
			mu.Unlock()
			switch d, r := b.Do("close", account, kerneltest.With(have...)); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case len(have) == 1 && d.Reason == contracts.ReasonApprovalRequired:
			case len(have) == 1 && d.Reason == contracts.ReasonApprovalInvalid:
			default:
				t.Errorf("with %d: %s: %s", len(have), d.Reason, d.Why)
			}
		})
		assert.Equal(t, int64(1), ran.Load(), "%d", i)
		assert.Equal(t, int64(1), b.Runs.Load(), "%d", i)
		b.MustPass()
	}
}

// A swap between a request and its use, while calls run: a call runs under the policy that was
// approved, or does not run.
func TestApprovalRacedBySwap(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	yes := b.ApprovedRent(kerneltest.Ann)
	next := kerneltest.EditedBank(t, "version: 1", "version: 2")
	hash := next.Hash()
	var ran atomic.Int64
	kerneltest.AtOnce(9, func(i int) {
		if i == 4 {
			b.Swap(next)
			return
		}
		d, r := b.Pay(yes)
		if r.Record.Outcome == contracts.Executed {
			ran.Add(1)
			assert.NotEqual(t, hash, d.Record.PolicyHash, "ran under a policy that nobody approved")
		} else if d.Reason != contracts.ReasonApprovalInvalid {
			t.Errorf("%s: %s", d.Reason, d.Why)
		}
	})
	assert.LessOrEqual(t, ran.Load(), int64(1))
	assert.Equal(t, ran.Load(), b.Runs.Load())
	b.MustPass()
}

// An approver's key is revoked while calls run: none is permitted by it from that place of the log
// on.
func TestApprovalRacedByRevocation(t *testing.T) {
	t.Parallel()
	const callers = 12
	b := kerneltest.NewBank(t)
	var session [callers]func(*helm.Intent)
	var yes [callers]contracts.Envelope
	for i := range callers {
		session[i] = func(in *helm.Intent) { in.Session = fmt.Sprint("chat-", i) }
		yes[i] = b.Approve(b.Ask("pay", kerneltest.Rent, session[i]), kerneltest.Ann)
	}
	var ran atomic.Int64
	kerneltest.AtOnce(callers+1, func(i int) {
		if i == callers {
			b.Govern(b.Revoking(kerneltest.Ann), kerneltest.BankRoot)
			return
		}
		switch d, r := b.Do("pay", kerneltest.Rent, session[i], kerneltest.With(yes[i])); {
		case r.Record.Outcome == contracts.Executed:
			ran.Add(1)
		case d.Reason != contracts.ReasonApprovalInvalid:
			t.Errorf("%s: %s", d.Reason, d.Why)
		}
	})
	revoked, before := false, int64(0)
	for i, st := range b.Statements() {
		switch {
		case st.Trust != nil:
			revoked = true
		case st.Decision != nil && revoked:
			t.Errorf("entry %d: permitted by a key that was revoked", i)
		case st.Decision != nil:
			before++
		}
	}
	assert.True(t, revoked, "revoked")
	assert.Equal(t, ran.Load(), before)
	assert.Equal(t, before, b.Runs.Load())
	b.MustPass()
}

// Many callers have an approval each, and the budget is enough for one at a time. The tool fails,
// which returns the charge. A caller that was too slow has consumed nothing, and repeats the call
// until it has run, once.
func TestApprovalsRaceForBudget(t *testing.T) {
	t.Parallel()
	const callers = 8
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t,
			kerneltest.BankPolicy+
				"budgets:\n  - {id: one, tools: [pay], limit: 1, per: all, window: total, cost: 1, refund: error}\n")
	})
	b.Tool = kerneltest.NoOutput(kerneltest.ErrTool)
	var mine [callers]func(*helm.Intent)
	var yes [callers]contracts.Envelope
	for i := range callers {
		mine[i] = func(in *helm.Intent) { in.Session = fmt.Sprint("chat-", i) }
		yes[i] = b.Approve(b.Ask("pay", kerneltest.Rent, mine[i]), kerneltest.Ann)
	}
	try := func(i int) {
		d, _ := b.Do("pay", kerneltest.Rent, mine[i], kerneltest.With(yes[i]))
		for d.Reason == contracts.ReasonBudgetExceeded { // another run has it, and returns it
			d, _ = b.Do("pay", kerneltest.Rent, mine[i], kerneltest.With(yes[i]))
		}
		assert.Equal(t, contracts.ReasonToolError, d.Reason, "%s: %s", d.Reason, d.Why)
		d, _ = b.Do("pay", kerneltest.Rent, mine[i], kerneltest.With(yes[i]))
		used := []contracts.ReasonCode{contracts.ReasonApprovalInvalid, contracts.ReasonBudgetExceeded}
		assert.Contains(t, used, d.Reason, "again")
	}
	kerneltest.Within(t, time.Minute, "callers that wait for a budget", func() { kerneltest.AtOnce(callers, try) })
	assert.EqualValues(t, callers, b.Runs.Load())
	b.MustPass()
}

// Calls of a session are counted when they are allowed: 64 callers at once get no further than one
// after the other.
func TestCallsOfSessionRaced(t *testing.T) {
	t.Parallel()
	floor := "helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\n"
	for _, x := range []struct {
		name, floor string
		most        int64
		rule        string
	}{
		{"ceiling", floor + "ceilings: {calls: 20}\n", 20, "P0:floor:ceilings"},
		{"rule over all", floor + "rules: [{id: enough, deny: [tell], when: {session: calls, ge: 20}}]\n", 20,
			"P0:floor:enough"},
		{"rule over one tool", floor + "rules: [{id: enough, deny: [tell], when: {session: calls, of: tell, ge: 7}}]\n",
			7, "P0:floor:enough"},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := kerneltest.NewBank(t,
				func(o *helm.Options) { o.Policy = kerneltest.Compile(t, kerneltest.BankPolicy, x.floor) })
			var ran atomic.Int64
			round := func() {
				kerneltest.AtOnce(64, func(int) {
					switch d, r := b.Do("tell", `{}`); {
					case r.Record.Outcome == contracts.Executed:
						ran.Add(1)
					case d.Reason == contracts.ReasonCeilingViolation && d.Record.Rule == x.rule &&
						r.Record.Outcome == contracts.Denied:
					default:
						t.Errorf("%s: %s", d.Reason, d.Why)
					}
				})
			}
			round()
			assert.Equal(t, x.most, ran.Load())
			assert.Equal(t, x.most, b.Runs.Load())
			b.Reopen()
			round()
			assert.Equal(t, x.most, ran.Load(), "after a restart")
			d, _ := b.Do("tell", `{}`, kerneltest.InSession("another"))
			assert.NoError(t, d.Err())
			b.Runs.Store(0)
			b.MustNotDo(contracts.ReasonFailClosedError, "tell", `{}`, kerneltest.InSession(""))
			b.MustPass()
		})
	}
}

// A failed run counts as a call, and a denied one does not.
func TestCallsOfSession(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, kerneltest.BankPolicy,
			"helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\nceilings: {calls: 3}\n")
	})
	for i := range 3 {
		b.MustNotPay(contracts.ReasonApprovalRequired)
		b.MustNotDo(contracts.ReasonSchemaViolation, "tell", `{"x":1}`)
		b.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{}, fmt.Errorf("run %d", i)
		}
		d, r := b.Do("tell", `{}`)
		assert.Equal(t, contracts.Failed, r.Record.Outcome)
		assert.ErrorContains(t, d.Err(), "run")
		b.Runs.Store(0)
	}
	b.MustNotDo(contracts.ReasonCeilingViolation, "tell", `{}`)
	b.MustAgree(b.MustPass())
}

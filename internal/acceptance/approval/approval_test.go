package approval

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call is denied and says what must be approved. Once that is signed, the same call runs, once.
// The decision lists what it consumed.
func TestApproval(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	asked := b.AskToPay()
	assert.Equal(t, []string{"pay", "chat", "kim"}, []string{asked.Tool, asked.Session, asked.Caller.ID})
	assert.Equal(t, []string{"owner"}, asked.Roles)
	assert.EqualValues(t, 1, asked.Quorum)
	assert.Equal(t, contracts.TimeOf(b.Now()), asked.NotBefore)
	assert.Equal(t, contracts.TimeOf(b.Now().Add(10*time.Minute)), asked.Expires)
	yes := b.Approve(asked, kerneltest.Ann)
	b.Pass(time.Minute)
	d, _ := b.MustPay(yes)
	assert.True(t, slices.Equal(d.Record.Approvals, []contracts.Digest{yes.Digest()}), "consumed %v",
		d.Record.Approvals)
	b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
	// another approver's, of a used request
	b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(asked, kerneltest.Bob))
	b.Pass(time.Minute)
	if again := b.AskToPay(); again.Nonce == asked.Nonce {
		t.Error("a used request is asked for again")
	} else {
		b.MustPay(b.Approve(again, kerneltest.Bob), yes) // a used one next to a good one changes nothing
	}
	b.MustAgree(b.MustPass())
}

// A request depends on the call alone: the request of a judgement that is repeated is the same, and
// a change to the returned request changes nothing of the decision.
func TestPendingIsACopy(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	d := b.MustNotPay(contracts.ReasonApprovalRequired)
	first := d.Pending.Digest()
	d.Pending.Roles[0], d.Pending.Caller.Roles[0], d.Pending.Nonce = "clerk", "owner", "00"
	d = b.MustNotPay(contracts.ReasonApprovalRequired)
	assert.Equal(t, first, d.Pending.Digest(), "the same call at the same time asks for something else")
	assert.Equal(t, "clerk", d.Record.Caller.Roles[0], "the record shares its roles with the request")
}

// An approval is for one call. Each of these calls differs in one thing from the one that was
// approved: it is denied, and the approval is still good for its own call.
func TestApprovalFitsOneCall(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		tool, args string
		change     func(*helm.Intent)
		kernel     func(b *kerneltest.Bank) *helm.Kernel
	}{
		"amount":     {"pay", `{"to":"landlord","amount":9000}`, nil, nil},
		"payee":      {"pay", `{"to":"mallory","amount":900}`, nil, nil},
		"a default":  {"pay", `{"to":"landlord","amount":900,"note":"x"}`, nil, nil},
		"tool":       {"refund", kerneltest.Rent, nil, nil},
		"session":    {"pay", kerneltest.Rent, kerneltest.InSession("other"), nil},
		"no session": {"pay", kerneltest.Rent, kerneltest.InSession(""), nil},
		"caller":     {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller.ID = "kin" }, nil},
		"nobody":     {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller = helm.Caller{} }, nil},
		"tenant":     {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }, nil},
		"role":       {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller.Roles = []string{"manager"} }, nil},
		"more roles": {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller.Roles = []string{"clerk", "owner"} },
			nil},
		"fewer roles": {"pay", kerneltest.Rent, func(in *helm.Intent) { in.Caller.Roles = nil }, nil},
		"narrowed": {"pay", kerneltest.Rent, nil, func(b *kerneltest.Bank) *helm.Kernel {
			return b.Narrow(b.Kernel, kerneltest.Document(b.T, "helm: policy/v1\nlayer: P2\nname: task\n"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			yes := b.ApprovedRent(kerneltest.Ann)
			root := b.Kernel
			if x.kernel != nil {
				b.Kernel = x.kernel(b)
			}
			change := []func(*helm.Intent){kerneltest.With(yes)}
			if x.change != nil {
				change = append(change, x.change)
			}
			b.MustNotDo(contracts.ReasonApprovalInvalid, x.tool, x.args, change...)
			b.Kernel = root
			b.MustPay(yes)
			b.MustPass()
		})
	}
}

// An approval is for the bytes that were judged: the same call, spelled otherwise, is the same
// call.
func TestApprovalOfSpelling(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	yes := b.ApprovedRent(kerneltest.Ann)
	b.MustDo("pay", "{ \"amount\": 9e2, \"note\": \"none\",\n \"to\": \"landlord\" }", kerneltest.With(yes),
		func(in *helm.Intent) { in.Caller.Roles = []string{"clerk", "clerk"} })
	b.MustPass()
}

// Calls that name no session share one: an approval of one of them is used there, also after a
// restart.
func TestApprovalInMain(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	unnamed := kerneltest.InSession("")
	asked := b.Ask("pay", kerneltest.Rent, unnamed)
	assert.Equal(t, contracts.DefaultSession, asked.Session, "asked for session")
	yes := b.Approve(asked, kerneltest.Ann)
	b.MustDo("pay", kerneltest.Rent, unnamed, kerneltest.With(yes))
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, unnamed, kerneltest.With(yes))
	b.Reopen()
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", kerneltest.Rent, unnamed,
		kerneltest.With(b.Approve(asked, kerneltest.Bob)))
	b.MustPass()
}

// A policy that was swapped in is another policy, whatever it says; so is one with another schema
// of the tool.
func TestApprovalUnderSwap(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]string{
		"next version": {"version: 1", "version: 2"},
		"another schema": {"note: {type: string, default: none}",
			"note: {type: string, default: none}, memo: {type: string}"},
		"another quorum": {"{roles: [owner], ttl: 10m}", "{roles: [owner], quorum: 2, ttl: 10m}"},
		"other roles":    {"{roles: [owner], ttl: 10m}", "{roles: [cook, owner], ttl: 10m}"},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			yes := b.ApprovedRent(kerneltest.Ann)
			b.Swap(kerneltest.EditedBank(t, edits...))
			b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
			if name != "next version" { // otherwise it is a rollback
				b.Swap(kerneltest.Compile(t, kerneltest.BankPolicy))
				b.MustPay(yes)
			}
			b.MustPass()
		})
	}
}

// An approval has its time: not before it, and not from its end on. It may not be longer than the
// policy permits.
func TestApprovalTime(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name       string
		from, till time.Duration // of the approval, after the request
		use        time.Duration
		reason     contracts.ReasonCode
	}{
		{"at once", 0, 10 * time.Minute, 0, contracts.ReasonAllow},
		{"just in time", 0, 10 * time.Minute, 10*time.Minute - time.Millisecond, contracts.ReasonAllow},
		{"expired", 0, 10 * time.Minute, 10*time.Minute + time.Millisecond, contracts.ReasonApprovalExpired},
		{"long expired", 0, 10 * time.Minute, 24 * time.Hour, contracts.ReasonApprovalExpired},
		{"cut short", 0, time.Minute, 2 * time.Minute, contracts.ReasonApprovalExpired},
		{"timelock", 5 * time.Minute, 10 * time.Minute, 5*time.Minute - time.Millisecond,
			contracts.ReasonApprovalExpired},
		{"timelock is over", 5 * time.Minute, 15 * time.Minute, 5 * time.Minute, contracts.ReasonAllow},
		{"longer than the policy lets it", 0, 10*time.Minute + time.Millisecond, 0, contracts.ReasonApprovalInvalid},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			asked := b.AskToPay()
			asked.NotBefore, asked.Expires = asked.NotBefore.Add(x.from), asked.NotBefore.Add(x.till)
			yes := b.Approve(asked, kerneltest.Ann)
			b.Pass(x.use)
			if x.reason == contracts.ReasonAllow {
				b.MustPay(yes)
			} else {
				b.MustNotPay(x.reason, yes)
				b.MustPay(yes, b.ApprovedRent(kerneltest.Bob))
			}
			b.MustPass()
		})
	}
}

// A quorum counts holders, not envelopes: two holders of the roles asked for approve, and one
// refusal ends the request.
func TestApprovalQuorum(t *testing.T) {
	t.Parallel()
	const account = `{"account":"17"}`
	t.Run("two", func(t *testing.T) {
		b := kerneltest.NewBank(t)
		asked := b.Ask("close", account)
		ann, cid := b.Approve(asked, kerneltest.Ann), b.Approve(asked, kerneltest.Cid)
		b.MustNotDo(contracts.ReasonApprovalRequired, "close", account, kerneltest.With(ann))
		b.MustNotDo(contracts.ReasonApprovalRequired, "close", account, kerneltest.With(ann, ann))
		later := asked
		later.NotBefore = later.NotBefore.Add(time.Millisecond)
		b.Pass(time.Second)
		// ann twice
		b.MustNotDo(contracts.ReasonApprovalRequired, "close", account,
			kerneltest.With(ann, b.Approve(later, kerneltest.Ann)))
		b.MustNotDo(contracts.ReasonApprovalInvalid, "close", account,
			kerneltest.With(ann, b.Approve(asked, kerneltest.Dan)))
		d, _ := b.MustDo("close", account, kerneltest.With(ann, cid))
		assert.Len(t, d.Record.Approvals, 2, "consumed")
		b.MustNotDo(contracts.ReasonApprovalInvalid, "close", account, kerneltest.With(ann, cid))
		b.MustNotDo(contracts.ReasonApprovalInvalid, "close", account,
			kerneltest.With(b.Approve(asked, kerneltest.Bob), cid))
		b.MustAgree(b.MustPass())
	})
	t.Run("of different requests", func(t *testing.T) {
		b := kerneltest.NewBank(t)
		first := b.Ask("close", account)
		b.Pass(time.Second)
		second := b.Ask("close", account)
		b.MustDo("close", account, kerneltest.With(b.Approve(first, kerneltest.Ann), b.Approve(second, kerneltest.Bob)))
		b.MustNotDo(contracts.ReasonApprovalInvalid, "close", account,
			kerneltest.With(b.Approve(first, kerneltest.Cid), b.Approve(second, kerneltest.Cid)))
		b.MustPass()
	})
	t.Run("one says no", func(t *testing.T) {
		b := kerneltest.NewBank(t)
		asked := b.Ask("close", account)
		ann, no := b.Approve(asked, kerneltest.Ann), b.Refuse(asked, kerneltest.Cid)
		b.MustNotDo(contracts.ReasonApprovalRefused, "close", account, kerneltest.With(ann, no))
		b.MustNotDo(contracts.ReasonApprovalRefused, "close", account,
			kerneltest.With(ann, b.Approve(asked, kerneltest.Bob), no))
		// one without the role cannot refuse
		b.MustDo("close", account, kerneltest.With(ann, b.Approve(asked, kerneltest.Bob),
			b.Refuse(asked, kerneltest.Dan)))
		b.MustPass()
	})
}

// A refusal is no approval, and ends the request: the model is told not to ask again, and nobody is
// asked by it. A new request may follow.
func TestApprovalRefused(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	asked := b.AskToPay()
	no, yes := b.Refuse(asked, kerneltest.Ann), b.Approve(asked, kerneltest.Bob)
	b.MustNotPay(contracts.ReasonApprovalRefused, no)
	d, r := b.Pay(no)
	assert.True(t, d.Pending == nil && d.Record.Pending == nil && r.Record.Outcome == contracts.Denied, "%+v", d)
	assert.NotErrorIs(t, d.Err(), helm.ErrApprovalRequired)
	assert.False(t, d.Reason.Retryable())
	assert.Contains(t, d.Reason.Advice(), "Do not ask again")
	b.MustNotPay(contracts.ReasonApprovalRefused, no, yes)
	b.MustNotPay(contracts.ReasonApprovalRefused, yes, no)
	b.Pass(time.Second)
	b.MustPay(no, b.ApprovedRent(kerneltest.Bob))
	b.MustAgree(b.MustPass())
}

// An approval is asked for last, and only if it decides: a call that is denied for anything else
// says so, approved or not, and consumes nothing.
func TestApprovalIsAskedLast(t *testing.T) {
	t.Parallel()
	over := "  - {id: few, tools: [pay], limit: 100, per: caller, window: day, cost: {arg: /amount}}\n"
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, kerneltest.BankPolicy+"budgets:\n"+over,
			"helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\nrules: [{id: never, deny: pay, when: {arg: /to, "+
				"eq: mallory}}]\n")
	})
	small, evil := `{"to":"landlord","amount":60}`, `{"to":"mallory","amount":1}`
	b.MustNotPay(contracts.ReasonBudgetExceeded)
	b.MustNotDo(contracts.ReasonCeilingViolation, "pay", evil)
	yes := b.Approve(b.Ask("pay", small), kerneltest.Ann)
	b.Pass(time.Second)
	again := b.Approve(b.Ask("pay", small), kerneltest.Ann)
	b.MustDo("pay", small, kerneltest.With(yes))
	b.MustNotDo(contracts.ReasonBudgetExceeded, "pay", small, kerneltest.With(again))
	b.Pass(24 * time.Hour) // the budget of another day, but the approval has expired
	b.MustNotDo(contracts.ReasonApprovalExpired, "pay", small, kerneltest.With(again))
	b.MustAgree(b.MustPass())
}

// A denial consumes neither the approval nor the key.
func TestApprovalAndKeys(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t, func(o *helm.Options) { o.Keep.Outputs = true })
	key := kerneltest.WithKey("rent-11")
	yes := b.Approve(b.Ask("pay", kerneltest.Rent, key), kerneltest.Ann)
	b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", `{"to":"landlord","amount":901}`, key, kerneltest.With(yes))
	_, first := b.MustDo("pay", kerneltest.Rent, key, kerneltest.With(yes))
	for _, change := range [][]func(*helm.Intent){{key}, {key, kerneltest.With(yes)}} { // a repeat is not judged again
		d, r := b.Do("pay", kerneltest.Rent, change...)
		assert.NoError(t, d.Err(), "the repeat")
		assert.Equal(t, first.Index, r.Index)
		assert.Zero(t, b.Runs.Load())
	}
	b.MustNotDo(contracts.ReasonIdempotencyConflict, "pay", `{"to":"landlord","amount":901}`, key, kerneltest.With(yes))
	b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
	b.MustPass()
}

// A wrapped function takes approvals from its context, and they end with its call: what the tool
// calls has none of them.
func TestApprovalOfWrapped(t *testing.T) {
	t.Parallel()
	type payment struct {
		To     string `json:"to"`
		Amount int    `json:"amount"`
		Note   string `json:"note,omitempty"`
	}
	b := kerneltest.NewBank(t, func(o *helm.Options) { delete(o.Drivers, "pay") })
	paid := 0
	pay := helm.Wrap(b.Kernel, "pay", func(ctx context.Context, p payment) (string, error) {
		paid++
		d, _ := b.Kernel.Guard(ctx, helm.Intent{Tool: "refund", Args: []byte(kerneltest.Rent)})
		assert.Equal(t, contracts.ReasonApprovalRequired, d.Reason, "a call from inside")
		return "paid", nil
	})
	ctx := helm.With(context.Background(), helm.Intent{Session: "chat", Caller: helm.Caller{ID: "kim"}})
	_, err := pay(ctx, payment{To: "landlord", Amount: 900, Note: "none"})
	var e *helm.Error
	require.ErrorIs(t, err, helm.ErrApprovalRequired)
	require.ErrorIs(t, err, helm.ErrDenied)
	require.NotErrorIs(t, err, helm.ErrWithheld)
	require.ErrorAs(t, err, &e)
	require.NotNil(t, e.Pending)
	require.Zero(t, paid)
	approved := helm.With(ctx,
		helm.Intent{Tool: "pay", Approvals: []contracts.Envelope{b.Approve(*e.Pending, kerneltest.Ann)}})
	_, err = pay(approved, payment{To: "landlord", Amount: 901, Note: "none"})
	assert.ErrorIs(t, err, helm.ErrDenied, "swapped")
	assert.NotErrorIs(t, err, helm.ErrApprovalRequired)
	assert.Zero(t, paid)
	out, err := pay(approved, payment{To: "landlord", Amount: 900, Note: "none"})
	assert.NoError(t, err)
	assert.Equal(t, "paid", out)
	assert.Equal(t, 1, paid)
	_, err = pay(approved, payment{To: "landlord", Amount: 900, Note: "none"})
	assert.ErrorIs(t, err, helm.ErrDenied, "used")
	assert.Equal(t, 1, paid)
	b.MustPass()
}

// A call that ran and failed, was withheld, or may have run has used its approval: there may be an
// effect.
func TestApprovalIsUsedByEveryRun(t *testing.T) {
	t.Parallel()
	for name, tool := range map[string]func(context.Context, contracts.Call) (executor.Result, error){
		"failed":   kerneltest.NoOutput(kerneltest.ErrTool),
		"panicked": func(context.Context, contracts.Call) (executor.Result, error) { panic("the tool") },
		"withheld": func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: make([]byte, 2<<20)}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			b.Tool = tool
			yes := b.ApprovedRent(kerneltest.Ann)
			_, r := b.Pay(yes)
			require.NotEqual(t, contracts.Executed, r.Record.Outcome)
			require.Equal(t, int64(1), b.Runs.Swap(0))
			b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
			b.MustPass()
		})
	}
}

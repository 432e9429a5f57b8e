package approval

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kim is the clerk, as the caller whose calls are erased.
var kim = erasure.Selection{Callers: []contracts.Caller{{ID: "kim", Tenant: "acme"}}}

// erase erases from the log of a world, whether or not a kernel uses it.
func erase(w *kerneltest.World, which erasure.Selection) erasure.Erasure {
	w.T.Helper()
	e, err := erasure.Erase(context.Background(), w.Store.Store, which)
	require.NoError(w.T, err)
	return e
}

// onEachStore tests a bank in memory and on disk.
func onEachStore(t *testing.T, test func(t *testing.T, b *kerneltest.Bank), change ...func(*helm.Options)) {
	t.Run("in memory", func(t *testing.T) { test(t, kerneltest.NewBank(t, change...)) })
	t.Run("on disk", func(t *testing.T) {
		s, err := filestore.Open(t.TempDir(), filestore.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		f := &kerneltest.FaultyStore{Store: s}
		b := kerneltest.NewBank(t, append(change, func(o *helm.Options) { o.Store = f })...)
		b.Store = f
		test(t, b)
	})
}

// An approval that was used stays used, whatever is erased of it, in whichever approver's envelope,
// in this process and in later ones.
func TestErasedApprovalStaysUsed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		const one = `{"to":"landlord","amount":1}`
		asked, other := b.AskToPay(), b.Ask("pay", one)
		ann, bob := b.Approve(asked, kerneltest.Ann), b.Approve(asked, kerneltest.Bob)
		b.Pass(time.Second)
		d, _ := b.MustPay(ann)
		e := erase(b.World, kim)
		assert.Len(t, e.Calls, 3)
		assert.Len(t, e.Erased, 3) // no outputs are kept
		for range 3 {
			for _, used := range [][]contracts.Envelope{{ann}, {bob}, {ann, bob}} {
				b.MustNotPay(contracts.ReasonApprovalInvalid, used...)
			}
			erase(b.World, kim)
			b.Reopen()
		}
		b.MustDo("pay", one, kerneltest.With(b.Approve(other, kerneltest.Bob))) // of another call, and not used
		erase(b.World, erasure.Selection{Sessions: []string{"chat"}})
		b.Reopen()
		b.MustNotDo(contracts.ReasonApprovalInvalid, "pay", one, kerneltest.With(b.Approve(other, kerneltest.Ann)))
		b.MustNotPay(contracts.ReasonApprovalInvalid, bob)
		b.Pass(time.Second)
		b.MustPay(b.ApprovedRent(kerneltest.Bob))
		report := b.MustPass()
		assert.NotZero(t, report.Replay.NotReplayable)
		assert.NotNil(t, d.Record.Approvals)
		b.MustAgree(report)
	})
}

// A repeat of a call whose output was erased gets no output and does not run, in the process that
// ran it and in later ones.
func TestErasedOutputIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		key := kerneltest.WithKey("once")
		_, first := b.MustDo("look", look("17"), key)
		d, r := b.Do("look", look("17"), key)
		require.NoError(t, d.Err(), "before")
		require.Equal(t, string(first.Output), string(r.Output))
		require.Zero(t, b.Runs.Load())
		erase(b.World, erasure.Selection{Entries: []uint64{first.Index}})
		for range 2 {
			for range 2 {
				before := b.Size()
				d, r := b.Do("look", look("17"), key)
				assert.Equal(t, contracts.ReasonOutputNotKept, d.Reason)
				assert.Equal(t, contracts.Deny, d.Verdict)
				assert.ErrorIs(t, d.Err(), helm.ErrWithheld)
				assert.Nil(t, r.Output)
				assert.Equal(t, first.Index, r.Index)
				assert.Zero(t, b.Runs.Load(), "runs of the tool")
				assert.Equal(t, before, b.Size())
			}
			b.MustNotDo(contracts.ReasonIdempotencyConflict, "look", look("18"), key)
			b.Reopen()
		}
		report := b.MustVerify()
		assert.Equal(t, uint64(1), report.Replay.NotReplayable)
		assert.Len(t, report.Erased, 2)
		b.MustAgree(report)
	}, func(o *helm.Options) { o.Keep.Outputs = true })
}

// A receipt whose arguments were erased shows nothing any more: after a restart it satisfies no
// requirement.
func TestErasedSightIsNone(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		b.MustDo("look", look("17"))
		erase(b.World, kim)
		b.MustDo("move", there) // this process knows
		b.Reopen()
		for range 2 {
			b.MustNotDo(contracts.ReasonFailClosedError, "move", there)
		}
		b.MustDo("look", look("16"))
		b.MustNotDo(contracts.ReasonFailClosedError, "move", there) // the earlier look still cannot be read
		b.MustDo("look", look("17"))
		b.MustDo("move", there)
		erase(b.World, kim)
		b.Reopen()
		b.MustNotDo(contracts.ReasonFailClosedError, "move", there)
		report := b.MustPass()
		b.MustAgree(report)
	})
}

// A budget is spent as the log says, and no erasure returns a charge.
func TestErasedCallsStaySpent(t *testing.T) {
	t.Parallel()
	spent := kerneltest.Compile(t,
		kerneltest.BankPolicy+"budgets:\n  - {id: few, tools: [tell], limit: 3, per: caller, window: total, cost: 1}\n")
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		b.MustDo("tell", `{}`)
		b.MustDo("tell", `{}`)
		erase(b.World, kim)
		b.MustDo("tell", `{}`)
		erase(b.World, kim)
		b.MustNotDo(contracts.ReasonBudgetExceeded, "tell", `{}`)
		b.Reopen()
		b.MustNotDo(contracts.ReasonBudgetExceeded, "tell", `{}`)
		b.MustAgree(b.MustPass())
	}, func(o *helm.Options) { o.Policy = spent })
}

// The inputs of a call are erased while it runs: it ends as usual. Of a call whose receipt was lost
// they are erased too: the next process settles it, and its charge and approval stay used.
func TestErasedInputsOfAnOpenCall(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		asked := b.AskToPay()
		b.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
			e := erase(b.World, kim)
			assert.NotEmpty(t, e.Calls, "from inside of it")
			assert.NotEmpty(t, e.Erased)
			return executor.Result{Output: c.Args}, nil
		}
		b.MustDo("look", look("17"))
		b.Store.FailIn(2)
		d, r := b.Pay(b.Approve(asked, kerneltest.Ann))
		b.MustBe(d, r, kerneltest.NotStored())
		erase(b.World, kim)
		b.Reopen()
		open := 0
		for _, st := range b.Statements() {
			if st.Receipt != nil && st.Receipt.Reason == contracts.ReasonOutcomeUnknown && st.Session == "chat" {
				open++
			}
		}
		assert.Equal(t, 1, open, "%d settled", open)
		b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(asked, kerneltest.Bob))
		b.MustAgree(b.MustPass())
	})
}

// Everything that can be erased is erased: a kernel begins over such a log and continues it, and
// the log verifies.
func TestEverythingErased(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		b.MustDo("look", look("17"))
		b.MustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"1","to":"2"}`)
		b.Do("look", `{"account":`)
		b.Do("look", look("17"), talk("no such name"))
		b.MustPay(b.ApprovedRent(kerneltest.Ann))
		require.NoError(t, b.Kernel.CloseSession(t.Context(), "chat"))
		b.MustNotDo(contracts.ReasonSessionClosed, "look", look("17"))
		e := erase(b.World, erasure.Selection{Sessions: []string{"chat", "no such name", "main"}, Callers: kim.Callers})
		assert.Len(t, e.Calls, 7)
		assert.Empty(t, e.Kept)
		b.Reopen()
		report := b.MustVerify()
		assert.Zero(t, report.Replay.Replayed+report.Replay.KernelsOwn)
		assert.Equal(t, uint64(7), report.Replay.NotReplayable)
		b.MustAgree(report)
		b.MustNotDo(contracts.ReasonSessionClosed, "look", look("17"))
		b.MustDo("look", look("17"), talk("new"))
		b.MustAgree(b.MustPass())
	})
}

// Calls run while others are erased in the same sessions: each runs once, and the log verifies.
func TestEraseWhileCallsRun(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, b *kerneltest.Bank) {
		const callers, rounds = 4, 12
		kerneltest.AtOnce(callers+1, func(i int) {
			session := talk(fmt.Sprint("s", i%2))
			for n := range rounds {
				if i == callers {
					if n%4 == 0 {
						erase(b.World, kim)
					}
					continue
				}
				d, r := b.Do("look", look(fmt.Sprint(i)), session,
					func(in *helm.Intent) { in.Idempotency = fmt.Sprint(i, n/2) })
				switch {
				case d.Err() == nil && r.Output != nil:
				case d.Reason == contracts.ReasonOutputNotKept && n%2 == 1 && errors.Is(d.Err(), helm.ErrWithheld):
				default:
					t.Errorf("%s: %v", d.Reason, d.Err())
				}
				d, r = b.Do("move", fmt.Sprintf(`{"from":"0","to":"%d"}`, i), session)
				assert.NoError(t, d.Err())
				assert.NotNil(t, r.Output)
			}
		})
		assert.EqualValues(t, callers*(rounds/2+rounds), b.Runs.Swap(0), "runs")
		erase(b.World, kim)
		b.Reopen()
		b.MustNotDo(contracts.ReasonFailClosedError, "move", `{"from":"0","to":"1"}`, talk("s1"))
		report := b.MustVerify()
		b.MustAgree(report)
	}, func(o *helm.Options) { o.Keep.Outputs = true })
}

package helm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// kim is the clerk, as who wants to be forgotten is named.
var kim = evidence.Selection{Callers: []contracts.Caller{{ID: "kim", Tenant: "acme"}}}

// erase erases from the log of a world, whether or not a kernel is at work on it.
func (w *world) erase(which evidence.Selection) evidence.Erasure {
	w.t.Helper()
	e, err := evidence.Erase(context.Background(), w.store.Store, which)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// onEachStore tests a bank in memory and on disk.
func onEachStore(t *testing.T, test func(t *testing.T, b *bank), change ...func(*helm.Options)) {
	t.Run("in memory", func(t *testing.T) { test(t, newBank(t, change...)) })
	t.Run("on disk", func(t *testing.T) {
		s, err := filestore.Open(t.TempDir(), filestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f := &faulty{Store: s}
		b := newBank(t, append(change, func(o *helm.Options) { o.Store = f })...)
		b.store = f
		test(t, b)
	})
}

// What was approved and used is used, whatever is erased of it, by whichever approver's envelope and in whichever process: the one that knows,
// and those that come after it.
func TestErasedApprovalStaysUsed(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		const one = `{"to":"landlord","amount":1}`
		asked, other := b.ask("pay", rent), b.ask("pay", one)
		ann, bob := b.approve(asked, seedAnn), b.approve(asked, seedBob)
		b.pass(time.Second)
		d, _ := b.mustDo("pay", rent, with(ann))
		e := b.erase(kim)
		if len(e.Calls) != 3 || len(e.Erased) != 3 { // no outputs are kept
			t.Errorf("%d calls, %d erased", len(e.Calls), len(e.Erased))
		}
		for range 3 {
			for _, used := range [][]contracts.Envelope{{ann}, {bob}, {ann, bob}} {
				b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(used...))
			}
			b.erase(kim)
			b.reopen()
		}
		b.mustDo("pay", one, with(b.approve(other, seedBob))) // another call's, and not used
		b.erase(evidence.Selection{Sessions: []string{"chat"}})
		b.reopen()
		b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", one, with(b.approve(other, seedAnn)))
		b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(bob))
		b.pass(time.Second)
		b.mustDo("pay", rent, with(b.approve(b.ask("pay", rent), seedBob)))
		report := b.mustPass()
		if report.Replay.NotReplayable == 0 || d.Record.Approvals == nil {
			t.Errorf("%+v", report.Replay)
		}
		b.mustAgree(report)
	})
}

// A repeat of a call whose output was erased gets no output, and does not run: in the process that ran it, and after it.
func TestErasedOutputIsNotMadeAgain(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		key := func(in *helm.Intent) { in.Idempotency = "once" }
		_, first := b.mustDo("look", look("17"), key)
		if d, r := b.do("look", look("17"), key); d.Err() != nil || string(r.Output) != string(first.Output) || b.runs.Load() != 0 {
			t.Fatalf("before: %v", d.Err())
		}
		b.erase(evidence.Selection{Entries: []uint64{first.Index}})
		for range 2 {
			for range 2 {
				before := b.size()
				d, r := b.do("look", look("17"), key)
				if d.Reason != contracts.ReasonOutputNotKept || d.Verdict != contracts.Deny || !errors.Is(d.Err(), helm.ErrWithheld) || r.Output != nil || r.Index != first.Index ||
					b.runs.Load() != 0 || b.size() != before {
					t.Errorf("%v %s: %v; output %q, %d runs", d.Verdict, d.Reason, d.Err(), r.Output, b.runs.Load())
				}
			}
			b.mustNotDo(contracts.ReasonIdempotencyConflict, "look", look("18"), key)
			b.reopen()
		}
		report := b.mustVerify()
		if report.Replay.NotReplayable != 1 || len(report.Erased) != 2 {
			t.Errorf("%+v, %d erased", report.Replay, len(report.Erased))
		}
		b.mustAgree(report)
	}, func(o *helm.Options) { o.Keep.Outputs = true })
}

// What somebody saw cannot be shown any more where its arguments were erased: after a restart nobody goes by it.
func TestErasedSightIsNone(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		b.mustDo("look", look("17"))
		b.erase(kim)
		b.mustDo("move", there) // this process knows
		b.reopen()
		for range 2 {
			b.mustNotDo(contracts.ReasonFailClosedError, "move", there)
		}
		b.mustDo("look", look("16"))
		b.mustNotDo(contracts.ReasonFailClosedError, "move", there) // of the earlier look it still cannot be told
		b.mustDo("look", look("17"))
		b.mustDo("move", there)
		b.erase(kim)
		b.reopen()
		b.mustNotDo(contracts.ReasonFailClosedError, "move", there)
		report := b.mustPass()
		b.mustAgree(report)
	})
}

// A budget is spent by what the log says, and no erasure gives anything back.
func TestErasedCallsStaySpent(t *testing.T) {
	spent := compile(t, bankText+"budgets:\n  - {id: few, tools: [tell], limit: 3, per: caller, window: total, cost: 1}\n")
	onEachStore(t, func(t *testing.T, b *bank) {
		b.mustDo("tell", `{}`)
		b.mustDo("tell", `{}`)
		b.erase(kim)
		b.mustDo("tell", `{}`)
		b.erase(kim)
		b.mustNotDo(contracts.ReasonBudgetExceeded, "tell", `{}`)
		b.reopen()
		b.mustNotDo(contracts.ReasonBudgetExceeded, "tell", `{}`)
		b.mustAgree(b.mustPass())
	}, func(o *helm.Options) { o.Policy = spent })
}

// The inputs of a call are erased while it runs: it ends as it does. And of one whose receipt was lost: the next process settles it, and what
// it used up stays used.
func TestErasedInputsOfAnOpenCall(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		asked := b.ask("pay", rent)
		b.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
			if e := b.erase(kim); len(e.Calls) == 0 || len(e.Erased) == 0 {
				t.Errorf("from inside of it: %d calls, %d erased", len(e.Calls), len(e.Erased))
			}
			return executor.Result{Output: c.Args}, nil
		}
		b.mustDo("look", look("17"))
		b.store.in(2)
		d, r := b.do("pay", rent, with(b.approve(asked, seedAnn)))
		b.mustBe(d, r, want{reason: contracts.ReasonReceiptNotStored, err: helm.ErrWithheld, runs: 1})
		b.erase(kim)
		b.reopen()
		open := 0
		for _, st := range b.statements() {
			if st.Receipt != nil && st.Receipt.Reason == contracts.ReasonOutcomeUnknown && st.Session == "chat" {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%d settled", open)
		}
		b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(asked, seedBob)))
		b.mustAgree(b.mustPass())
	})
}

// Nothing is kept of anybody: a kernel begins over such a log, goes on, and it verifies.
func TestEverythingErased(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		b.mustDo("look", look("17"))
		b.mustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"1","to":"2"}`)
		b.do("look", `{"account":`)
		b.do("look", look("17"), talk("no such name"))
		b.mustDo("pay", rent, with(b.approve(b.ask("pay", rent), seedAnn)))
		if err := b.k.CloseSession(t.Context(), "chat"); err != nil {
			t.Fatal(err)
		}
		b.mustNotDo(contracts.ReasonSessionClosed, "look", look("17"))
		e := b.erase(evidence.Selection{Sessions: []string{"chat", "no such name", "main"}, Callers: kim.Callers})
		if len(e.Calls) != 7 || len(e.Kept) != 0 {
			t.Errorf("%d calls, %d kept", len(e.Calls), len(e.Kept))
		}
		b.reopen()
		report := b.mustVerify()
		if report.Replay.Replayed+report.Replay.KernelsOwn != 0 || report.Replay.NotReplayable != 7 {
			t.Errorf("%+v", report.Replay)
		}
		b.mustAgree(report)
		b.mustNotDo(contracts.ReasonSessionClosed, "look", look("17"))
		b.mustDo("look", look("17"), talk("new"))
		b.mustAgree(b.mustPass())
	})
}

// Calls run while others are erased, in the same sessions: what runs, runs once, and the log verifies.
func TestEraseWhileCallsRun(t *testing.T) {
	onEachStore(t, func(t *testing.T, b *bank) {
		const callers, rounds = 4, 12
		atOnce(callers+1, func(i int) {
			session := talk(fmt.Sprint("s", i%2))
			for n := range rounds {
				if i == callers {
					if n%4 == 0 {
						b.erase(kim)
					}
					continue
				}
				d, r := b.do("look", look(fmt.Sprint(i)), session, func(in *helm.Intent) { in.Idempotency = fmt.Sprint(i, n/2) })
				switch {
				case d.Err() == nil && r.Output != nil:
				case d.Reason == contracts.ReasonOutputNotKept && n%2 == 1 && errors.Is(d.Err(), helm.ErrWithheld):
				default:
					t.Errorf("%s: %v", d.Reason, d.Err())
				}
				if d, r := b.do("move", fmt.Sprintf(`{"from":"0","to":"%d"}`, i), session); d.Err() != nil || r.Output == nil {
					t.Errorf("%s: %v", d.Reason, d.Err())
				}
			}
		})
		if n := b.runs.Swap(0); n != callers*(rounds/2+rounds) {
			t.Errorf("%d runs", n)
		}
		b.erase(kim)
		b.reopen()
		b.mustNotDo(contracts.ReasonFailClosedError, "move", `{"from":"0","to":"1"}`, talk("s1"))
		report := b.mustVerify()
		b.mustAgree(report)
	}, func(o *helm.Options) { o.Keep.Outputs = true })
}

package helm_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// atOnce calls f from n goroutines at once.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// One yes that many have runs one call. The others are told that it was used, each with a receipt; also those that were judged before, and had
// to wait for room.
func TestApprovalRacedForOneRun(t *testing.T) {
	for _, room := range []int{helm.Capacity, 1} {
		b := newBank(t)
		b.k.SetRoom(room)
		yes := b.approve(b.ask("pay", rent), seedAnn)
		var ran, used atomic.Int64
		atOnce(10, func(int) {
			switch d, r := b.do("pay", rent, with(yes)); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case d.Reason == contracts.ReasonApprovalInvalid && r.Record.Outcome == contracts.Denied:
				used.Add(1)
			default:
				t.Errorf("%s: %s", d.Reason, d.Why)
			}
		})
		if ran.Load() != 1 || used.Load() != 9 || b.runs.Load() != 1 {
			t.Errorf("room %d: %d ran, %d denied, %d runs of the tool", room, ran.Load(), used.Load(), b.runs.Load())
		}
		b.mustPass()
	}
}

// Two approvers answer the same request at the same time, and each has the call made with what there is: two of them are needed, so it runs
// once, when both are there, or not at all.
func TestApproversRace(t *testing.T) {
	const account = `{"account":"17"}`
	for i := range 8 {
		b := newBank(t)
		asked := b.ask("close", account)
		var mu sync.Mutex
		var given []contracts.Envelope
		var ran atomic.Int64
		atOnce(2, func(i int) {
			e := b.approve(asked, []byte{seedAnn, seedCid}[i])
			mu.Lock()
			given = append(given, e)
			have := given[:len(given):len(given)]
			mu.Unlock()
			switch d, r := b.do("close", account, with(have...)); {
			case r.Record.Outcome == contracts.Executed:
				ran.Add(1)
			case d.Reason == contracts.ReasonApprovalRequired && len(have) == 1, d.Reason == contracts.ReasonApprovalInvalid && len(have) == 1:
			default:
				t.Errorf("with %d: %s: %s", len(have), d.Reason, d.Why)
			}
		})
		if ran.Load() != 1 || b.runs.Load() != 1 {
			t.Errorf("%d: %d ran", i, ran.Load())
		}
		b.mustPass()
	}
}

// A swap that comes between a request and its use, while calls are under way: a call runs under the policy that was approved, or does not run.
func TestApprovalRacedBySwap(t *testing.T) {
	b := newBank(t)
	yes := b.approve(b.ask("pay", rent), seedAnn)
	next := edited(t, "version: 1", "version: 2")
	hash := next.Hash()
	var ran atomic.Int64
	atOnce(9, func(i int) {
		if i == 4 {
			b.swap(next)
			return
		}
		d, r := b.do("pay", rent, with(yes))
		if r.Record.Outcome == contracts.Executed {
			ran.Add(1)
			if d.Record.PolicyHash == hash {
				t.Error("ran under a policy that nobody approved")
			}
		} else if d.Reason != contracts.ReasonApprovalInvalid {
			t.Errorf("%s: %s", d.Reason, d.Why)
		}
	})
	if ran.Load() > 1 || b.runs.Load() != ran.Load() {
		t.Errorf("%d ran", ran.Load())
	}
	b.mustPass()
}

// An approver's key is revoked while calls are under way: none is permitted by what he signed from that place of the log on.
func TestApprovalRacedByRevocation(t *testing.T) {
	const callers = 12
	b := newBank(t)
	var session [callers]func(*helm.Intent)
	var yes [callers]contracts.Envelope
	for i := range callers {
		session[i] = func(in *helm.Intent) { in.Session = fmt.Sprint("chat-", i) }
		yes[i] = b.approve(b.ask("pay", rent, session[i]), seedAnn)
	}
	var ran atomic.Int64
	atOnce(callers+1, func(i int) {
		if i == callers {
			b.govern(b.revoking(seedAnn), seedRoot)
			return
		}
		switch d, r := b.do("pay", rent, session[i], with(yes[i])); {
		case r.Record.Outcome == contracts.Executed:
			ran.Add(1)
		case d.Reason != contracts.ReasonApprovalInvalid:
			t.Errorf("%s: %s", d.Reason, d.Why)
		}
	})
	revoked, before := false, int64(0)
	for i, st := range b.statements() {
		switch {
		case st.Trust != nil:
			revoked = true
		case st.Decision != nil && revoked:
			t.Errorf("entry %d: permitted by a key that was revoked", i)
		case st.Decision != nil:
			before++
		}
	}
	if !revoked || before != ran.Load() || b.runs.Load() != before {
		t.Errorf("revoked: %v; %d permitted, %d ran", revoked, before, ran.Load())
	}
	b.mustPass()
}

// Many have a yes each, and there is money for one of them at a time, which comes back, for the tool fails: who was slower has used nothing, and
// goes on until his own call has run, once.
func TestApprovalsRaceForBudget(t *testing.T) {
	const callers = 8
	b := newBank(t, func(o *helm.Options) {
		o.Policy = compile(t, bankText+"budgets:\n  - {id: one, tools: [pay], limit: 1, per: all, window: total, cost: 1, refund: error}\n")
	})
	b.tool = func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, errOwn }
	var mine [callers]func(*helm.Intent)
	var yes [callers]contracts.Envelope
	for i := range callers {
		mine[i] = func(in *helm.Intent) { in.Session = fmt.Sprint("chat-", i) }
		yes[i] = b.approve(b.ask("pay", rent, mine[i]), seedAnn)
	}
	try := func(i int) {
		d, _ := b.do("pay", rent, mine[i], with(yes[i]))
		for d.Reason == contracts.ReasonBudgetExceeded { // somebody's run has it, and gives it back
			d, _ = b.do("pay", rent, mine[i], with(yes[i]))
		}
		if d.Reason != contracts.ReasonToolError {
			t.Errorf("%s: %s", d.Reason, d.Why)
		}
		if d, _ := b.do("pay", rent, mine[i], with(yes[i])); d.Reason != contracts.ReasonApprovalInvalid && d.Reason != contracts.ReasonBudgetExceeded {
			t.Errorf("again: %s", d.Reason)
		}
	}
	within(t, time.Minute, "who waits for a budget", func() { atOnce(callers, try) })
	if n := b.runs.Load(); n != callers {
		t.Errorf("%d ran, want %d", n, callers)
	}
	b.mustPass()
}

// What a session may do is counted when it is allowed: 64 callers who come at once get no further than one after the other.
func TestCallsOfSessionRaced(t *testing.T) {
	floor := "helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\n"
	for _, x := range []struct {
		name, floor string
		most        int64
		rule        string
	}{
		{"ceiling", floor + "ceilings: {calls: 20}\n", 20, "P0:floor:ceilings"},
		{"rule over all", floor + "rules: [{id: enough, deny: [tell], when: {session: calls, ge: 20}}]\n", 20, "P0:floor:enough"},
		{"rule over one tool", floor + "rules: [{id: enough, deny: [tell], when: {session: calls, of: tell, ge: 7}}]\n", 7, "P0:floor:enough"},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBank(t, func(o *helm.Options) { o.Policy = compileAll(t, bankText, x.floor) })
			var ran atomic.Int64
			round := func() {
				atOnce(64, func(int) {
					switch d, r := b.do("tell", `{}`); {
					case r.Record.Outcome == contracts.Executed:
						ran.Add(1)
					case d.Reason == contracts.ReasonCeilingViolation && d.Record.Rule == x.rule && r.Record.Outcome == contracts.Denied:
					default:
						t.Errorf("%s: %s", d.Reason, d.Why)
					}
				})
			}
			if round(); ran.Load() != x.most || b.runs.Load() != x.most {
				t.Errorf("%d ran, want %d", ran.Load(), x.most)
			}
			b.reopen()
			if round(); ran.Load() != x.most {
				t.Errorf("%d ran after a restart, want %d", ran.Load(), x.most)
			}
			if d, _ := b.do("tell", `{}`, func(in *helm.Intent) { in.Session = "another" }); d.Err() != nil {
				t.Error(d.Err())
			}
			b.runs.Store(0)
			b.mustNotDo(contracts.ReasonFailClosedError, "tell", `{}`, func(in *helm.Intent) { in.Session = "" })
			b.mustPass()
		})
	}
}

// A failed run counts as a call, and a denied one does not.
func TestCallsOfSession(t *testing.T) {
	b := newBank(t, func(o *helm.Options) {
		o.Policy = compileAll(t, bankText, "helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\nceilings: {calls: 3}\n")
	})
	for i := range 3 {
		b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent)
		b.mustNotDo(contracts.ReasonSchemaViolation, "tell", `{"x":1}`)
		b.tool = func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{}, fmt.Errorf("run %d", i)
		}
		if d, r := b.do("tell", `{}`); r.Record.Outcome != contracts.Failed || !strings.Contains(d.Err().Error(), "run") {
			t.Errorf("%s %v", d.Reason, d.Err())
		}
		b.runs.Store(0)
	}
	b.mustNotDo(contracts.ReasonCeilingViolation, "tell", `{}`)
	b.mustAgree(b.mustPass())
}

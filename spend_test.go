package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// spending is the policy of the tests with a budget over echo, whose text says how it goes on.
func spending(budgets string) string {
	return policyText + "budgets:\n" + budgets
}

const thousand = "  - {id: calls, tools: [echo], limit: 1000, per: all, window: total, cost: 1}\n"

// swarm calls echo from 64 goroutines, each in a session of its own, and gives how many calls were executed.
func (w *world) swarm(each int) (executed int64) {
	var n atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for range each {
				d, r := w.call("echo", `{}`, func(in *helm.Intent) { in.Session = fmt.Sprintf("s%d", g) })
				switch {
				case r.Record.Outcome == contracts.Executed:
					n.Add(1)
				case d.Reason == contracts.ReasonToolError, d.Reason == contracts.ReasonBudgetExceeded && d.Record.Rule == "P1:test:calls" && d.Record.Condition == 3:
				default:
					w.t.Errorf("%s: %s", d.Reason, d.Why)
				}
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// kept is the fold of what the log says was charged and kept.
func (w *world) kept() (sum uint64) {
	open := map[contracts.Digest]uint64{}
	for i, st := range w.statements() {
		switch {
		case st.Decision != nil && len(st.Decision.Charges) > 0:
			for _, c := range st.Decision.Charges {
				sum += c.Amount
			}
			open[w.entry(i).Hash()] = st.Decision.Charges[0].Amount
		case st.Receipt != nil && len(st.Receipt.Settled) > 0:
			sum -= open[st.Receipt.DecisionHash] - st.Receipt.Settled[0].Amount
		}
	}
	return sum
}

// However many call at once, a limit of 1,000 lets exactly 1,000 run: over any store, after a restart, after a crash, with refunds.
func TestBudgetUnderLoad(t *testing.T) {
	durable := func(o *helm.Options) {
		s, err := filestore.Open(t.TempDir(), filestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		o.Store = &faulty{Store: s}
	}
	for _, x := range []struct {
		name             string
		durable, restart bool
		refund           bool
	}{{"in memory", false, false, false}, {"restarted, on disk", true, true, false}, {"restarted, on disk, with refunds", true, true, true}, {"refunds", false, false, true}} {
		t.Run(x.name, func(t *testing.T) {
			if race.Enabled && x.restart != x.refund || race.Enabled && x.durable != x.restart {
				t.Skip("the race detector, which is slow, runs the simplest of these and the one that has all; without it all run")
			}
			text := thousand
			if x.refund {
				text = strings.Replace(text, "id:", "refund: error, id:", 1)
			}
			w := newWorld(t, func(o *helm.Options) {
				o.Policy = compile(t, spending(text))
				if x.durable {
					durable(o)
				}
			})
			w.store = w.o.Store.(*faulty)
			var ran atomic.Int64
			w.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				if n := ran.Add(1); x.refund && n%3 == 0 {
					return executor.Result{}, errOwn
				}
				return executor.Result{Output: c.Args}, nil
			}
			executed, rest := int64(0), 100
			if x.restart {
				executed, rest = w.swarm(9), 91
				if err := w.k.Close(); err != nil {
					t.Fatal(err)
				}
				w.open()
			}
			executed += w.swarm(rest)
			for x.refund { // what was given back when nobody asked any more
				d, r := w.call("echo", `{}`)
				if d.Reason == contracts.ReasonBudgetExceeded {
					break
				}
				if r.Record.Outcome == contracts.Executed {
					executed++
				}
			}
			if kept := w.kept(); executed != 1000 || kept != 1000 || !x.refund && w.runs.Load() != 1000 {
				t.Errorf("%d executed, %d kept, %d ran", executed, kept, w.runs.Load())
			}
			if report := w.mustVerify(); x.refund && !x.durable {
				w.mustAgree(report)
			}
		})
	}
}

// What was charged when the process died stays charged.
func TestBudgetAfterCrash(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) {
		o.Policy = compile(t, spending("  - {id: calls, tools: [echo], limit: 3, per: caller, window: day, cost: 1, refund: error}\n"))
	})
	who := func(in *helm.Intent) { in.Caller = helm.Caller{ID: "ann"} }
	d, r := w.call("echo", `{}`, who)
	w.mustBe(d, r, want{verdict: contracts.Allow, reason: contracts.ReasonAllow, outcome: contracts.Executed, output: `{"n":1}`, runs: 1})
	w.store.in(2) // the receipt
	d, r = w.call("echo", `{}`, who)
	w.mustBe(d, r, want{reason: contracts.ReasonReceiptNotStored, err: helm.ErrWithheld, runs: 1})
	w.open()
	d, r = w.call("echo", `{}`, who)
	w.mustBe(d, r, want{verdict: contracts.Allow, reason: contracts.ReasonAllow, outcome: contracts.Executed, output: `{"n":1}`, runs: 1})
	d, r = w.call("echo", `{}`, who)
	w.mustBe(d, r, want{reason: contracts.ReasonBudgetExceeded, outcome: contracts.Denied, err: helm.ErrDenied})
	d, r = w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonBudgetError, outcome: contracts.Denied, err: helm.ErrDenied})
	d, r = w.call("pinned", `{}`, who)
	w.mustBe(d, r, want{reason: contracts.ReasonContractDrift, outcome: contracts.Withheld, err: helm.ErrWithheld, runs: 1})
	if kept := w.kept(); kept != 3 {
		t.Errorf("%d kept", kept)
	}
	w.mustVerify()
}

// A window that is over is forgotten: the next one begins with nothing spent, at midnight UTC wherever the host is.
func TestBudgetWindow(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 59, 59, 0, time.FixedZone("far", 9*3600)).Add(9 * time.Hour)
	w := newWorld(t, func(o *helm.Options) {
		o.Now = func() time.Time { return now }
		o.Policy = compile(t, spending("  - {id: calls, tools: [echo], limit: 5, per: all, window: day, cost: {arg: /n}}\n"))
	})
	call := func(n int, reason contracts.ReasonCode) {
		t.Helper()
		if d, _ := w.k.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}); d.Reason != reason {
			t.Errorf("%d at %v: %s %s", n, now, d.Reason, d.Why)
		}
	}
	call(4, contracts.ReasonAllow)
	call(2, contracts.ReasonBudgetExceeded)
	call(0, contracts.ReasonAllow)
	call(-1, contracts.ReasonBudgetError)
	call(1, contracts.ReasonAllow)
	now = now.Add(time.Second)
	call(5, contracts.ReasonAllow)
	call(1, contracts.ReasonBudgetExceeded)
	w.mustVerify()
}

// Which charge a failed call gets back is what the policy says that permitted it, whatever was swapped in while it ran. What is spent is
// spent under each version of a budget, and over a restart under another one.
func TestBudgetUnderSwaps(t *testing.T) {
	const plain, refund = "  - {id: calls, tools: [echo], limit: 2, per: all, window: total, cost: 1}\n", "  - {id: calls, tools: [echo], limit: 2, per: all, window: total, cost: 1, refund: error}\n"
	nth := 1
	version := func(budgets string) *guardian.Policy {
		nth++
		text := policyText
		if budgets != "" {
			text = spending(budgets)
		}
		return compile(t, strings.Replace(text, "name: test, version: 1", fmt.Sprint("name: test, version: ", nth), 1))
	}
	w := newWorld(t, func(o *helm.Options) { o.Policy = compile(t, spending(refund)) })
	var next string
	w.tool = func(context.Context, contracts.Call) (executor.Result, error) {
		w.swap(version(next))
		return executor.Result{}, errOwn
	}
	for _, x := range []struct {
		name, next string
		kept       uint64
	}{
		{"permitted with a refund, ended without", plain, 0},
		{"permitted without a refund, ended with", refund, 1},
		{"permitted with a refund, ended without a budget", "", 1},
		{"permitted and ended without a budget", refund, 1},
	} {
		next = x.next
		d, r := w.call("echo", `{}`)
		w.mustBe(d, r, want{verdict: contracts.Allow, reason: contracts.ReasonToolError, outcome: contracts.Failed, err: errOwn, runs: 1})
		if kept := w.kept(); kept != x.kept {
			t.Errorf("%s: %d kept, want %d", x.name, kept, x.kept)
		}
	}
	lower := strings.Replace(plain, "limit: 2", "limit: 1", 1)
	w.swap(version(lower))
	d, r := w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonBudgetExceeded, outcome: contracts.Denied, err: helm.ErrDenied})
	w.mustVerify()
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = version(plain)
	w.open()
	d, r = w.call("echo", `{}`, func(*helm.Intent) { next = lower })
	w.mustBe(d, r, want{verdict: contracts.Allow, reason: contracts.ReasonToolError, outcome: contracts.Failed, err: errOwn, runs: 1})
	d, r = w.call("echo", `{"n":2}`)
	w.mustBe(d, r, want{reason: contracts.ReasonBudgetExceeded, outcome: contracts.Denied, err: helm.ErrDenied})
	if kept := w.kept(); kept != 2 {
		t.Errorf("%d kept after the restart", kept)
	}
	w.mustVerify()
}

// What a task may spend is its overlay's, beside what everybody may: kernels that are narrowed by one overlay share it, a swap and a restart
// leave it as it is, and the kernel above is charged for its own share only.
func TestBudgetOfTask(t *testing.T) {
	doc, err := policy.Parse("task.yaml", []byte("helm: policy/v1\nlayer: P2\nname: task\nbudgets:\n  - {id: few, tools: [echo], limit: 2, per: session, window: session, cost: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const all = "  - {id: calls, tools: [echo], limit: 4, per: all, window: total, cost: 1}\n"
	w := newWorld(t, func(o *helm.Options) { o.Policy = compile(t, spending(all)) })
	call := func(k *helm.Kernel, session string, reason contracts.ReasonCode, rule string) {
		t.Helper()
		d, _ := k.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: session})
		if d.Reason != reason || d.Record.Rule != rule {
			t.Errorf("%s by %s: %s, want %s by %s", d.Reason, d.Record.Rule, d.Why, reason, rule)
		}
	}
	const allow, short = contracts.ReasonAllow, contracts.ReasonBudgetExceeded
	a, b := w.narrow(w.k, doc), w.narrow(w.k, doc)
	call(a, "chat", allow, "P1:test:all")
	call(b, "chat", allow, "P1:test:all")
	call(a, "chat", short, "P2:task:few")
	w.swap(compile(t, strings.Replace(spending(all), "version: 1", "version: 2", 1)))
	call(b, "chat", short, "P2:task:few")
	call(w.k, "chat", allow, "P1:test:all")
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = compile(t, strings.Replace(spending(all), "version: 1", "version: 3", 1))
	w.open()
	a = w.narrow(w.k, doc)
	call(a, "chat", short, "P2:task:few")
	call(a, "", contracts.ReasonBudgetError, "P2:task:few")
	call(a, "other", allow, "P1:test:all")
	call(a, "other", short, "P1:test:calls")
	w.mustVerify()
}

// A function that was wrapped and says that it succeeded has not failed, though what it gives, which may be a stranger's, cannot be written:
// its charge stays.
func TestBudgetOfResultWithoutForm(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) {
		o.Policy = compile(t, spending("  - {id: calls, tools: [unbound], limit: 1, per: all, window: total, cost: 1, refund: error}\n"))
	})
	runs := 0
	fetch := helm.Wrap(w.k, "unbound", func(context.Context, struct{}) (json.RawMessage, error) {
		runs++
		return json.RawMessage(`{"cut off`), nil
	})
	if out, err := fetch(context.Background(), struct{}{}); !errors.Is(err, helm.ErrWithheld) || !strings.Contains(err.Error(), "no JSON form") || out != nil {
		t.Errorf("%q %v, want ErrWithheld, for it ran", out, err)
	}
	if _, err := fetch(context.Background(), struct{}{}); !errors.Is(err, helm.ErrDenied) || runs != 1 || w.kept() != 1 {
		t.Errorf("%v after %d runs, %d kept", err, runs, w.kept())
	}
	w.mustVerify()
}

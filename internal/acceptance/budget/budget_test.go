package budget

import (
	"context"
	"encoding/json"
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
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spending is the policy of the tests with budgets.
func spending(budgets string) string {
	return kerneltest.Policy + "budgets:\n" + budgets
}

const thousand = "  - {id: calls, tools: [echo], limit: 1000, per: all, window: total, cost: 1}\n"

// swarm calls echo from 64 goroutines, each in a session of its own, and returns how many calls
// were executed.
func swarm(w *kerneltest.World, each int) (executed int64) {
	var n atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for range each {
				d, r := w.Call("echo", `{}`, func(in *helm.Intent) { in.Session = fmt.Sprintf("s%d", g) })
				switch {
				case r.Record.Outcome == contracts.Executed:
					n.Add(1)
				case d.Reason == contracts.ReasonToolError, d.Reason == contracts.ReasonBudgetExceeded &&
					d.Record.Rule == "P1:test:calls" && d.Record.Condition == 3:
				default:
					w.T.Errorf("%s: %s", d.Reason, d.Why)
				}
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// exhaust calls echo until nothing is left of the budget, and returns how many calls were executed:
// with refunds something is returned after the last caller has asked.
func exhaust(w *kerneltest.World) (executed int64) {
	for {
		d, r := w.Call("echo", `{}`)
		if d.Reason == contracts.ReasonBudgetExceeded {
			return executed
		}
		if r.Record.Outcome == contracts.Executed {
			executed++
		}
	}
}

// kept is the sum of the charges that were not returned, as the log has them.
func kept(w *kerneltest.World) (sum uint64) {
	open := map[contracts.Digest]uint64{}
	for i, st := range w.Statements() {
		switch {
		case st.Decision != nil && len(st.Decision.Charges) > 0:
			for _, c := range st.Decision.Charges {
				sum += c.Amount
			}
			open[w.Entry(i).Hash()] = st.Decision.Charges[0].Amount
		case st.Receipt != nil && len(st.Receipt.Settled) > 0:
			sum -= open[st.Receipt.DecisionHash] - st.Receipt.Settled[0].Amount
		}
	}
	return sum
}

// However many callers there are, a limit of 1,000 lets exactly 1,000 calls run: over any store,
// after a restart, after a crash, with refunds.
func TestBudgetUnderLoad(t *testing.T) {
	t.Parallel()
	durable := func(o *helm.Options) {
		s, err := filestore.Open(t.TempDir(), filestore.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		o.Store = &kerneltest.FaultyStore{Store: s}
	}
	for _, x := range []struct {
		name             string
		durable, restart bool
		refund           bool
	}{{"in memory", false, false, false}, {"restarted, on disk", true, true, false},
		{"restarted, on disk, with refunds", true, true, true}, {"refunds", false, false, true}} {
		t.Run(x.name, func(t *testing.T) {
			if few := race.Enabled || testing.Short(); few && (x.restart != x.refund || x.durable != x.restart) {
				t.Skip("a slow or short run has the simplest of these and the one that has all; a full run has all")
			}
			text := thousand
			if x.refund {
				text = strings.Replace(text, "id:", "refund: error, id:", 1)
			}
			w := kerneltest.New(t, func(o *helm.Options) {
				o.Policy = kerneltest.Compile(t, spending(text))
				if x.durable && !kerneltest.Joined() { // else the store outlives a kernel as it is
					durable(o)
				}
			})
			w.Store = kerneltest.Faulty(w.Options.Store)
			var ran atomic.Int64
			w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
				if n := ran.Add(1); x.refund && n%3 == 0 {
					return executor.Result{}, kerneltest.ErrTool
				}
				return executor.Result{Output: c.Args}, nil
			}
			executed, rest := int64(0), 100
			if x.restart {
				executed, rest = swarm(w, 9), 91
				w.Reopen()
			}
			executed += swarm(w, rest)
			if x.refund {
				executed += exhaust(w)
			}
			assert.EqualValues(t, 1000, executed, "calls executed")
			assert.EqualValues(t, 1000, kept(w), "charges kept")
			if !x.refund {
				assert.EqualValues(t, 1000, w.Runs.Load(), "runs of the tool")
			}
			report := w.MustVerify()
			if x.refund && !x.durable {
				w.MustAgree(report)
			}
		})
	}
}

// The charges of a call stay if the process ends before its receipt.
func TestBudgetAfterCrash(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t,
			spending("  - {id: calls, tools: [echo], limit: 3, per: caller, window: day, cost: 1, refund: error}\n"))
	})
	who := func(in *helm.Intent) { in.Caller = helm.Caller{ID: "ann"} }
	w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`, who)
	w.Store.FailIn(2) // the receipt
	w.MustCall(kerneltest.NotStored(), "echo", `{}`, who)
	w.Open()
	w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`, who)
	w.MustCall(kerneltest.Denied(contracts.ReasonBudgetExceeded), "echo", `{}`, who)
	w.MustCall(kerneltest.Denied(contracts.ReasonBudgetError), "echo", `{}`)
	w.MustCall(kerneltest.Withheld(contracts.ReasonContractDrift, contracts.Withheld), "pinned", `{}`, who)
	assert.Equal(t, uint64(3), kept(w), "kept")
	w.MustVerify()
}

// A window that is over does not count: the next one begins with nothing spent, at midnight UTC
// wherever the host is.
func TestBudgetWindow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 31, 23, 59, 59, 0, time.FixedZone("far", 9*3600)).Add(9 * time.Hour)
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Now = func() time.Time { return now }
		o.Policy = kerneltest.Compile(t,
			spending("  - {id: calls, tools: [echo], limit: 5, per: all, window: day, cost: {arg: /n}}\n"))
	})
	call := func(n int, reason contracts.ReasonCode) {
		t.Helper()
		d, _ := w.Kernel.Guard(context.Background(), helm.Intent{Tool: "echo",
			Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
		assert.Equal(t, reason, d.Reason, "%d at %v: %s %s", n, now, d.Reason, d.Why)
	}
	call(4, contracts.ReasonAllow)
	call(2, contracts.ReasonBudgetExceeded)
	call(0, contracts.ReasonAllow)
	call(-1, contracts.ReasonBudgetError)
	call(1, contracts.ReasonAllow)
	now = now.Add(time.Second)
	call(5, contracts.ReasonAllow)
	call(1, contracts.ReasonBudgetExceeded)
	w.MustVerify()
}

// The policy that permitted a failed call decides which charge is returned, whatever was swapped in
// while it ran. What is spent is spent under each version of a budget, and after a restart under
// another one.
func TestBudgetUnderSwaps(t *testing.T) {
	t.Parallel()
	const plain = "  - {id: calls, tools: [echo], limit: 2, per: all, window: total, cost: 1}\n"
	const refund = "  - {id: calls, tools: [echo], limit: 2, per: all, window: total, cost: 1, refund: error}\n"
	nth := 1
	version := func(budgets string) *guardian.Policy {
		nth++
		text := kerneltest.Policy
		if budgets != "" {
			text = spending(budgets)
		}
		return kerneltest.Compile(t, strings.Replace(text, "name: test, version: 1",
			fmt.Sprint("name: test, version: ", nth), 1))
	}
	w := kerneltest.New(t, func(o *helm.Options) { o.Policy = kerneltest.Compile(t, spending(refund)) })
	var next string
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		w.Swap(version(next))
		return executor.Result{}, kerneltest.ErrTool
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
		w.MustCall(kerneltest.Failed(), "echo", `{}`)
		assert.Equal(t, x.kept, kept(w), x.name)
	}
	lower := strings.Replace(plain, "limit: 2", "limit: 1", 1)
	w.Swap(version(lower))
	w.MustCall(kerneltest.Denied(contracts.ReasonBudgetExceeded), "echo", `{}`)
	w.MustVerify()
	w.Close()
	w.Options.Policy = version(plain)
	w.Open()
	w.MustCall(kerneltest.Failed(), "echo", `{}`, func(*helm.Intent) { next = lower })
	w.MustCall(kerneltest.Denied(contracts.ReasonBudgetExceeded), "echo", `{"n":2}`)
	assert.Equal(t, uint64(2), kept(w), "kept after the restart")
	w.MustVerify()
}

// A task's budget is the one of its overlay, in addition to the bundle's: kernels that are narrowed
// by one overlay share it, a swap and a restart leave it as it is, and the kernel above is charged
// its own share alone.
func TestBudgetOfTask(t *testing.T) {
	t.Parallel()
	doc, err := policy.Parse("task.yaml",
		[]byte("helm: policy/v1\nlayer: P2\nname: task\nbudgets:\n  - {id: few, tools: [echo], limit: 2, per: "+
			"session, window: session, cost: 1}\n"))
	require.NoError(t, err)
	const all = "  - {id: calls, tools: [echo], limit: 4, per: all, window: total, cost: 1}\n"
	w := kerneltest.New(t, func(o *helm.Options) { o.Policy = kerneltest.Compile(t, spending(all)) })
	call := func(k *helm.Kernel, session string, reason contracts.ReasonCode, rule string) {
		t.Helper()
		d, _ := k.Guard(context.Background(), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: session})
		assert.Equal(t, reason, d.Reason)
		assert.Equal(t, rule, d.Record.Rule)
	}
	const allow, short = contracts.ReasonAllow, contracts.ReasonBudgetExceeded
	a, b := w.Narrow(w.Kernel, doc), w.Narrow(w.Kernel, doc)
	call(a, "chat", allow, "P1:test:all")
	call(b, "chat", allow, "P1:test:all")
	call(a, "chat", short, "P2:task:few")
	w.Swap(kerneltest.Compile(t, strings.Replace(spending(all), "version: 1", "version: 2", 1)))
	call(b, "chat", short, "P2:task:few")
	call(w.Kernel, "chat", allow, "P1:test:all")
	w.Close()
	w.Options.Policy = kerneltest.Compile(t, strings.Replace(spending(all), "version: 1", "version: 3", 1))
	w.Open()
	a = w.Narrow(w.Kernel, doc)
	call(a, "chat", short, "P2:task:few")
	call(a, "", contracts.ReasonBudgetError, "P2:task:few")
	call(a, "other", allow, "P1:test:all")
	call(a, "other", short, "P1:test:calls")
	w.MustVerify()
}

// A wrapped function that returns no error has not failed, even if its result has no JSON form: its
// charge stays.
func TestBudgetOfResultWithoutForm(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t,
			spending("  - {id: calls, tools: [unbound], limit: 1, per: all, window: total, cost: 1, refund: error}\n"))
	})
	runs := 0
	fetch := helm.Wrap(w.Kernel, "unbound", func(context.Context, struct{}) (json.RawMessage, error) {
		runs++
		return json.RawMessage(`{"cut off`), nil
	})
	out, err := fetch(context.Background(), struct{}{})
	assert.ErrorIs(t, err, helm.ErrWithheld)
	assert.ErrorContains(t, err, "no JSON form")
	assert.Nil(t, out)
	_, err = fetch(context.Background(), struct{}{})
	assert.ErrorIs(t, err, helm.ErrDenied)
	assert.Equal(t, 1, runs)
	assert.Equal(t, uint64(1), kept(w))
	w.MustVerify()
}

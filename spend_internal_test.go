package helm

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A call that was judged while there was enough, and finds with its place that others were faster, is denied in that place, as the guardian
// denies on the balances that it found; and nothing is charged.
func TestLostReservation(t *testing.T) {
	p := policyOf(t, `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
		"tools":{"t":{"effect":"read","input":{"type":"object","properties":{}}}},"rules":[{"id":"all","allow":"t"}],
		"budgets":[{"id":"one","tools":"t","limit":1,"per":"all","window":"total","cost":1},{"id":"many","tools":"t","limit":9,"per":"all","window":"total","cost":1}]}`)
	tool := Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })
	k, err := New(Options{Policy: p, Key: keyOf(t, 7), Store: proofgraph.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	in := Intent{Tool: "t", Args: json.RawMessage(`{}`), Session: "s", Driver: tool}

	c := &call{Kernel: k, ctx: context.Background(), policy: p}
	c.receive(in)
	c.state = k.trust.Load()
	c.inputs.State.Trust = c.state.Digest()
	c.fit()
	c.parse()
	s := c.home()
	a := &answer{session: s}
	c.stamp(s)
	c.judge(s, a)
	s.mu.Unlock()
	if a.record.Verdict != contracts.Allow || len(a.record.Charges) != 2 {
		t.Fatalf("judged %+v", a.record)
	}
	in.Session = "faster"
	if d, _ := k.Guard(context.Background(), in); !d.Allowed() {
		t.Fatal(d.Err())
	}
	c.charges = a.record.Charges
	if err := c.take(0); err != nil || !c.lost {
		t.Fatalf("%v, lost is %v", err, c.lost)
	}
	c.yield(a)
	r := &a.record
	if r.Verdict != contracts.Deny || a.reason != contracts.ReasonBudgetExceeded || r.Reason != a.reason || r.Rule != "P1:b:one" || r.Condition != 3 || r.Charges != nil || r.Expires != 0 || a.why == "" {
		t.Errorf("%+v %s %s", r, a.reason, a.why)
	}
	for _, b := range c.inputs.State.Budgets {
		if spent := k.ledger.Spent(contracts.Charge{Budget: b.Budget, Of: b.Of, Window: b.Window}); b.Spent != 1 || spent != 1 {
			t.Errorf("%s: %d in the inputs, %d spent", b.Budget, b.Spent, spent)
		}
	}
	if again, _ := p.Judge(c.inputs, c.state); string(again.Append(nil)) != string(r.Append(nil)) {
		t.Errorf("judged again: %s", again.Append(nil))
	}

	// What the kernel refuses itself when the call's turn comes again has read no balance: none could be replayed.
	c.fault = "the context ended"
	refused := func(what string, f func()) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
		if a.record.Verdict != contracts.Deny || a.record.Condition != 0 || c.inputs.State.Budgets != nil {
			t.Errorf("%s: %s, balances %v", what, a.record.Reason, c.inputs.State.Budgets)
		}
	}
	refused("a fault", func() { c.judge(s, a) })
	c.fault, c.misfit = "", "a field of another type"
	refused("a misfit", func() { c.judge(s, a); c.refit(a) })

	// A call whose stack judges no more goes back without a charge: its next judgement makes its own.
	c.charges = []contracts.Charge{{Amount: 1, Budget: "P1:b:many", Limit: 9, Window: "total"}}
	swapped, err := p.Narrow()
	if err != nil {
		t.Fatal(err)
	}
	k.stack.Store(&stack{policy: swapped})
	if err := c.take(0); err != errMoved || k.ledger.Spent(c.charges[0]) != 1 {
		t.Errorf("%v, %d spent", err, k.ledger.Spent(c.charges[0]))
	}
}

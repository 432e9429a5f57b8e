package helm

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A call that was approved and finds its budget spent is denied on what was found. Its inputs hold what that verdict was made from and nothing
// that only the first one read; nothing of it is used.
func TestLostReservationReadsNoFurther(t *testing.T) {
	p := policyOf(t, `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
		"tools":{"t":{"effect":"read","input":{"type":"object","properties":{}}}},
		"rules":[{"id":"busy","deny":"t","when":{"session":"calls","of":"t","ge":3}},{"id":"all","allow":"t"}],
		"requires":[{"id":"ask","tools":"t","all":[{"approval":{"roles":["owner"]}}]},
			{"id":"once","tools":"t","unless":{"session":"calls","lt":1},"all":[{"receipt":"t"}]}],
		"budgets":[{"id":"one","tools":"t","limit":1,"per":"all","window":"total","cost":1}]}`)
	ann, err := crypto.PublicOf(keyOf(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: ann, Role: registry.Approver, Roles: []string{"owner"}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Options{Policy: p, Key: keyOf(t, 7), Store: proofgraph.NewMemory(), Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	in := Intent{Tool: "t", Args: json.RawMessage(`{}`), Session: "s", Driver: Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })}
	d, _ := k.Guard(context.Background(), in)
	if d.Pending == nil {
		t.Fatal(d.Err())
	}
	yes, err := d.Pending.Approve(keyOf(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	in.Approvals = []contracts.Envelope{yes}

	c := &call{Kernel: k, ctx: context.Background(), policy: p, state: k.Trust()}
	c.receive(in)
	c.inputs.State.Trust = c.state.Digest()
	c.fit()
	c.parse()
	s := c.home()
	defer s.mu.Unlock()
	a := &answer{session: s}
	c.stamp(s)
	c.judge(s, a)
	if st := &c.inputs.State; a.record.Verdict != contracts.Allow || len(a.record.Approvals) != 1 || st.Used == nil || len(st.Calls) != 2 {
		t.Fatalf("judged %s %s, having read %+v", a.reason, a.why, st)
	}
	c.charges = a.record.Charges
	faster := slices.Clone(c.charges)
	if !k.ledger.Reserve(faster, nil) {
		t.Fatal("nothing was left")
	}
	if err := c.take(0); err != nil || !c.lost {
		t.Fatalf("%v, lost is %v", err, c.lost)
	}
	if err := k.ledger.Settle(faster, []contracts.Settlement{{Budget: faster[0].Budget}}, contracts.ReasonToolError); err != nil {
		t.Fatal(err) // it comes back, but that is later
	}
	c.yield(a)
	st := &c.inputs.State
	if a.reason != contracts.ReasonBudgetExceeded || a.record.Approvals != nil || st.Used != nil || st.Calls != nil || st.Receipts != nil || len(st.Budgets) != 1 || st.Budgets[0].Spent != 1 {
		t.Errorf("%s %s, having read %+v", a.reason, a.why, st)
	}
	if again, _ := p.Judge(c.inputs, c.state); string(again.Append(nil)) != string(a.record.Append(nil)) {
		t.Errorf("judged again: %s", again.Append(nil))
	}
	if s.past.Used(d.Pending) {
		t.Error("the approval is used, though nothing was allowed")
	}

	// What the kernel refuses itself has read nothing, whatever it read before.
	for what, f := range map[string]func(){"a fault": func() { c.fault = "the context ended" }, "a misfit": func() { c.fault, c.misfit = "", "a field of another type" }} {
		c.judge(s, a)
		f()
		c.judge(s, a)
		c.refit(a)
		if st := c.inputs.State; a.record.Condition != 0 || st.Budgets != nil || st.Used != nil || st.Calls != nil || a.pending != nil {
			t.Errorf("%s: %s, having read %+v", what, a.record.Reason, st)
		}
		c.fault, c.misfit = "", ""
	}
}

// What a session was judged by goes when it is closed, and does not come back.
func TestClosedSessionsForget(t *testing.T) {
	p := policyOf(t, `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
		"tools":{"t":{"effect":"read","input":{"type":"object","properties":{}}}},"rules":[{"id":"all","allow":"t"}]}`)
	o := Options{Policy: p, Key: keyOf(t, 7), Store: proofgraph.NewMemory()}
	remembers := func(k *Kernel, session string) bool {
		return !reflect.DeepEqual(k.session(session).past, past.Session{})
	}
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"open", "closed"} {
		d, _ := k.Guard(context.Background(), Intent{Tool: "t", Args: json.RawMessage(`{}`), Session: session, Driver: Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })})
		if d.Err() != nil || !remembers(k, session) {
			t.Fatalf("%v, remembers %v", d.Err(), remembers(k, session))
		}
	}
	if err := k.CloseSession(context.Background(), "closed"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !remembers(k, "open") || remembers(k, "closed") {
			t.Errorf("remembers the open one: %v, the closed one: %v", remembers(k, "open"), remembers(k, "closed"))
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if k, err = New(o); err != nil {
			t.Fatal(err)
		}
	}
	k.Close()
}

// Receipts of the session of calls that name none are nobody's.
func TestNoReceiptsOfMain(t *testing.T) {
	c := &call{here: new(session)}
	c.inputs.Session = contracts.DefaultSession
	if r, err := (priors{c}).Receipt("t", crypto.Value{}); err == nil || r.Entry != nil || c.unread == nil {
		t.Errorf("%+v %v", r, err)
	}
}

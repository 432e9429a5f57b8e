package helm_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// A call is denied and says what somebody must sign; once it is signed, the same call runs, once. The decision lists what it consumed.
func TestApproval(t *testing.T) {
	b := newBank(t)
	asked := b.ask("pay", rent)
	if asked.Tool != "pay" || asked.Session != "chat" || asked.Caller.ID != "kim" || asked.Quorum != 1 || !slices.Equal(asked.Roles, []string{"owner"}) ||
		asked.NotBefore != contracts.TimeOf(b.now()) || asked.Expires != contracts.TimeOf(b.now().Add(10*time.Minute)) {
		t.Errorf("the request is %+v", asked)
	}
	yes := b.approve(asked, seedAnn)
	b.pass(time.Minute)
	d, _ := b.mustDo("pay", rent, with(yes))
	if !slices.Equal(d.Record.Approvals, []contracts.Digest{yes.Digest()}) {
		t.Errorf("consumed %v", d.Record.Approvals)
	}
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(asked, seedBob))) // another's yes to what was used
	b.pass(time.Minute)
	if again := b.ask("pay", rent); again.Nonce == asked.Nonce {
		t.Error("a used request is asked for again")
	} else {
		b.mustDo("pay", rent, with(b.approve(again, seedBob), yes)) // beside a good one a used one changes nothing
	}
	b.mustAgree(b.mustPass())
}

// What is asked depends on nothing but the call: the request of a judgement that is made again is the same, and whoever holds it can change
// nothing of the decision.
func TestPendingIsACopy(t *testing.T) {
	b := newBank(t)
	d := b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent)
	first := d.Pending.Digest()
	d.Pending.Roles[0], d.Pending.Caller.Roles[0], d.Pending.Nonce = "clerk", "owner", "00"
	if d = b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent); d.Pending.Digest() != first {
		t.Error("the same call at the same time asks for something else")
	}
	if d.Record.Caller.Roles[0] != "clerk" {
		t.Error("the record shares its roles with the request")
	}
}

// A yes is for one call. Each of these takes one that would have been enough, and is another call in one thing; nothing runs, and the yes is
// good for its own call still.
func TestApprovalFitsOneCall(t *testing.T) {
	for name, x := range map[string]struct {
		tool, args string
		change     func(*helm.Intent)
		kernel     func(b *bank) *helm.Kernel
	}{
		"amount":      {"pay", `{"to":"landlord","amount":9000}`, nil, nil},
		"payee":       {"pay", `{"to":"mallory","amount":900}`, nil, nil},
		"a default":   {"pay", `{"to":"landlord","amount":900,"note":"x"}`, nil, nil},
		"tool":        {"refund", rent, nil, nil},
		"session":     {"pay", rent, func(in *helm.Intent) { in.Session = "other" }, nil},
		"no session":  {"pay", rent, func(in *helm.Intent) { in.Session = "" }, nil},
		"caller":      {"pay", rent, func(in *helm.Intent) { in.Caller.ID = "kin" }, nil},
		"nobody":      {"pay", rent, func(in *helm.Intent) { in.Caller = helm.Caller{} }, nil},
		"tenant":      {"pay", rent, func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }, nil},
		"role":        {"pay", rent, func(in *helm.Intent) { in.Caller.Roles = []string{"manager"} }, nil},
		"more roles":  {"pay", rent, func(in *helm.Intent) { in.Caller.Roles = []string{"clerk", "owner"} }, nil},
		"fewer roles": {"pay", rent, func(in *helm.Intent) { in.Caller.Roles = nil }, nil},
		"narrowed": {"pay", rent, nil, func(b *bank) *helm.Kernel {
			return b.narrow(b.k, document(b.t, "helm: policy/v1\nlayer: P2\nname: task\n"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			yes := b.approve(b.ask("pay", rent), seedAnn)
			root := b.k
			if x.kernel != nil {
				b.k = x.kernel(b)
			}
			change := []func(*helm.Intent){with(yes)}
			if x.change != nil {
				change = append(change, x.change)
			}
			b.mustNotDo(contracts.ReasonApprovalInvalid, x.tool, x.args, change...)
			b.k = root
			b.mustDo("pay", rent, with(yes))
			b.mustPass()
		})
	}
}

// What an argument means does not count, its bytes as judged do: the same call, spelled otherwise, is the same call.
func TestApprovalOfSpelling(t *testing.T) {
	b := newBank(t)
	yes := b.approve(b.ask("pay", rent), seedAnn)
	b.mustDo("pay", "{ \"amount\": 9e2, \"note\": \"none\",\n \"to\": \"landlord\" }", with(yes), func(in *helm.Intent) { in.Caller.Roles = []string{"clerk", "clerk"} })
	b.mustPass()
}

// Calls that name no session have one in common: what is approved there is used there, over a restart too.
func TestApprovalInMain(t *testing.T) {
	b := newBank(t)
	unnamed := func(in *helm.Intent) { in.Session = "" }
	asked := b.ask("pay", rent, unnamed)
	if asked.Session != contracts.DefaultSession {
		t.Errorf("asked for session %q", asked.Session)
	}
	yes := b.approve(asked, seedAnn)
	b.mustDo("pay", rent, unnamed, with(yes))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, unnamed, with(yes))
	b.reopen()
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, unnamed, with(b.approve(asked, seedBob)))
	b.mustPass()
}

// A policy that was swapped in is another policy, whatever it says, and so is one with another schema of the tool.
func TestApprovalUnderSwap(t *testing.T) {
	for name, edits := range map[string][]string{
		"next version":   {"version: 1", "version: 2"},
		"another schema": {"note: {type: string, default: none}", "note: {type: string, default: none}, memo: {type: string}"},
		"another quorum": {"{roles: [owner], ttl: 10m}", "{roles: [owner], quorum: 2, ttl: 10m}"},
		"other roles":    {"{roles: [owner], ttl: 10m}", "{roles: [cook, owner], ttl: 10m}"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			yes := b.approve(b.ask("pay", rent), seedAnn)
			b.swap(edited(t, edits...))
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
			if name != "next version" { // else it is a rollback
				b.swap(compile(t, bankText))
				b.mustDo("pay", rent, with(yes))
			}
			b.mustPass()
		})
	}
}

// A yes has its time: not before, and not from its end on; and it may not be longer than the policy lets it.
func TestApprovalTime(t *testing.T) {
	for _, x := range []struct {
		name       string
		from, till time.Duration // of the yes, from the request on
		use        time.Duration
		reason     contracts.ReasonCode
	}{
		{"at once", 0, 10 * time.Minute, 0, contracts.ReasonAllow},
		{"just in time", 0, 10 * time.Minute, 10*time.Minute - time.Millisecond, contracts.ReasonAllow},
		{"expired", 0, 10 * time.Minute, 10*time.Minute + time.Millisecond, contracts.ReasonApprovalExpired},
		{"long expired", 0, 10 * time.Minute, 24 * time.Hour, contracts.ReasonApprovalExpired},
		{"cut short", 0, time.Minute, 2 * time.Minute, contracts.ReasonApprovalExpired},
		{"timelock", 5 * time.Minute, 10 * time.Minute, 5*time.Minute - time.Millisecond, contracts.ReasonApprovalExpired},
		{"timelock is over", 5 * time.Minute, 15 * time.Minute, 5 * time.Minute, contracts.ReasonAllow},
		{"longer than the policy lets it", 0, 10*time.Minute + time.Millisecond, 0, contracts.ReasonApprovalInvalid},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBank(t)
			asked := b.ask("pay", rent)
			asked.NotBefore, asked.Expires = asked.NotBefore.Add(x.from), asked.NotBefore.Add(x.till)
			yes := b.approve(asked, seedAnn)
			b.pass(x.use)
			if x.reason == contracts.ReasonAllow {
				b.mustDo("pay", rent, with(yes))
			} else {
				b.mustNotDo(x.reason, "pay", rent, with(yes))
				b.mustDo("pay", rent, with(yes, b.approve(b.ask("pay", rent), seedBob)))
			}
			b.mustPass()
		})
	}
}

// A quorum is of holders, not of envelopes: two of them, of the roles that are asked for, and one who says no is enough to end it.
func TestApprovalQuorum(t *testing.T) {
	const account = `{"account":"17"}`
	t.Run("two", func(t *testing.T) {
		b := newBank(t)
		asked := b.ask("close", account)
		ann, cid := b.approve(asked, seedAnn), b.approve(asked, seedCid)
		b.mustNotDo(contracts.ReasonApprovalRequired, "close", account, with(ann))
		b.mustNotDo(contracts.ReasonApprovalRequired, "close", account, with(ann, ann))
		later := asked
		later.NotBefore = later.NotBefore.Add(time.Millisecond)
		b.pass(time.Second)
		b.mustNotDo(contracts.ReasonApprovalRequired, "close", account, with(ann, b.approve(later, seedAnn))) // ann twice
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(ann, b.approve(asked, seedDan)))
		d, _ := b.mustDo("close", account, with(ann, cid))
		if len(d.Record.Approvals) != 2 {
			t.Errorf("consumed %v", d.Record.Approvals)
		}
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(ann, cid))
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(b.approve(asked, seedBob), cid))
		b.mustAgree(b.mustPass())
	})
	t.Run("of different requests", func(t *testing.T) {
		b := newBank(t)
		first := b.ask("close", account)
		b.pass(time.Second)
		second := b.ask("close", account)
		b.mustDo("close", account, with(b.approve(first, seedAnn), b.approve(second, seedBob)))
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(b.approve(first, seedCid), b.approve(second, seedCid)))
		b.mustPass()
	})
	t.Run("one says no", func(t *testing.T) {
		b := newBank(t)
		asked := b.ask("close", account)
		ann, no := b.approve(asked, seedAnn), b.refuse(asked, seedCid)
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(ann, no))
		b.mustNotDo(contracts.ReasonApprovalInvalid, "close", account, with(ann, b.approve(asked, seedBob), no))
		b.mustDo("close", account, with(ann, b.approve(asked, seedBob), b.refuse(asked, seedDan))) // who has no say cannot end it
		b.mustPass()
	})
}

// A no is no yes, and ends the request; somebody may ask anew.
func TestApprovalRefused(t *testing.T) {
	b := newBank(t)
	asked := b.ask("pay", rent)
	no, yes := b.refuse(asked, seedAnn), b.approve(asked, seedBob)
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(no))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(no, yes))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes, no))
	b.pass(time.Second)
	b.mustDo("pay", rent, with(no, b.approve(b.ask("pay", rent), seedBob)))
	b.mustAgree(b.mustPass())
}

// A person is asked last, and only when his answer decides: whatever else denies the call says so, approved or not, and takes nothing.
func TestApprovalIsAskedLast(t *testing.T) {
	over := "  - {id: few, tools: [pay], limit: 100, per: caller, window: day, cost: {arg: /amount}}\n"
	b := newBank(t, func(o *helm.Options) {
		o.Policy = compileAll(t, bankText+"budgets:\n"+over, "helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\nrules: [{id: never, deny: pay, when: {arg: /to, eq: mallory}}]\n")
	})
	small, evil := `{"to":"landlord","amount":60}`, `{"to":"mallory","amount":1}`
	b.mustNotDo(contracts.ReasonBudgetExceeded, "pay", rent)
	b.mustNotDo(contracts.ReasonCeilingViolation, "pay", evil)
	yes := b.approve(b.ask("pay", small), seedAnn)
	b.pass(time.Second)
	again := b.approve(b.ask("pay", small), seedAnn)
	b.mustDo("pay", small, with(yes))
	b.mustNotDo(contracts.ReasonBudgetExceeded, "pay", small, with(again))
	b.pass(24 * time.Hour) // another day's money, but the yes has gone off by then
	b.mustNotDo(contracts.ReasonApprovalExpired, "pay", small, with(again))
	b.mustAgree(b.mustPass())
}

// A denial uses up nothing: neither the yes nor the key.
func TestApprovalAndKeys(t *testing.T) {
	b := newBank(t, func(o *helm.Options) { o.Keep.Outputs = true })
	key := func(in *helm.Intent) { in.Idempotency = "rent-11" }
	yes := b.approve(b.ask("pay", rent, key), seedAnn)
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", `{"to":"landlord","amount":901}`, key, with(yes))
	_, first := b.mustDo("pay", rent, key, with(yes))
	for _, change := range [][]func(*helm.Intent){{key}, {key, with(yes)}} { // a repeat is not judged again
		d, r := b.do("pay", rent, change...)
		if d.Err() != nil || r.Index != first.Index || b.runs.Load() != 0 {
			t.Errorf("the repeat: %s %v at %d", d.Reason, d.Err(), r.Index)
		}
	}
	b.mustNotDo(contracts.ReasonIdempotencyConflict, "pay", `{"to":"landlord","amount":901}`, key, with(yes))
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
	b.mustPass()
}

// Approvals come to a wrapped function by its context, and end with its call: what the tool calls has none of them.
func TestApprovalOfWrapped(t *testing.T) {
	type payment struct {
		To     string `json:"to"`
		Amount int    `json:"amount"`
		Note   string `json:"note,omitempty"`
	}
	b := newBank(t, func(o *helm.Options) { delete(o.Drivers, "pay") })
	paid := 0
	pay := helm.Wrap(b.k, "pay", func(ctx context.Context, p payment) (string, error) {
		paid++
		if d, _ := b.k.Guard(ctx, helm.Intent{Tool: "refund", Args: []byte(rent)}); d.Reason != contracts.ReasonApprovalRequired {
			t.Errorf("a call from inside: %s", d.Reason)
		}
		return "paid", nil
	})
	ctx := helm.With(context.Background(), helm.Intent{Session: "chat", Caller: helm.Caller{ID: "kim"}})
	_, err := pay(ctx, payment{To: "landlord", Amount: 900, Note: "none"})
	var e *helm.Error
	if !errors.Is(err, helm.ErrApprovalRequired) || !errors.Is(err, helm.ErrDenied) || errors.Is(err, helm.ErrWithheld) || !errors.As(err, &e) || e.Pending == nil || paid != 0 {
		t.Fatalf("%v after %d", err, paid)
	}
	approved := helm.With(ctx, helm.Intent{Tool: "pay", Approvals: []contracts.Envelope{b.approve(*e.Pending, seedAnn)}})
	if _, err := pay(approved, payment{To: "landlord", Amount: 901, Note: "none"}); !errors.Is(err, helm.ErrDenied) || errors.Is(err, helm.ErrApprovalRequired) || paid != 0 {
		t.Errorf("swapped: %v after %d", err, paid)
	}
	if out, err := pay(approved, payment{To: "landlord", Amount: 900, Note: "none"}); err != nil || out != "paid" || paid != 1 {
		t.Errorf("%q %v after %d", out, err, paid)
	}
	if _, err := pay(approved, payment{To: "landlord", Amount: 900, Note: "none"}); !errors.Is(err, helm.ErrDenied) || paid != 1 {
		t.Errorf("used: %v after %d", err, paid)
	}
	b.mustPass()
}

// What ran and failed, was withheld, or may have run has used its yes: there may be an effect.
func TestApprovalIsUsedByEveryRun(t *testing.T) {
	for name, tool := range map[string]func(context.Context, contracts.Call) (executor.Result, error){
		"failed":   func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, errOwn },
		"panicked": func(context.Context, contracts.Call) (executor.Result, error) { panic("the tool") },
		"withheld": func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: make([]byte, 2<<20)}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.tool = tool
			yes := b.approve(b.ask("pay", rent), seedAnn)
			if d, r := b.do("pay", rent, with(yes)); r.Record.Outcome == contracts.Executed || b.runs.Swap(0) != 1 {
				t.Fatalf("%s %s", d.Reason, r.Record.Outcome)
			}
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
			b.mustPass()
		})
	}
}

package conformance

import (
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// Gate 4: what a person approved is run once, as they saw it, and nothing else is.

const bankPolicy = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "bank", "version": 1},
	"tools": {
		"pay": {"effect": "write", "input": {"type": "object", "required": ["to", "amount"], "properties": {
			"to": {"type": "string"}, "amount": {"type": "integer"}, "note": {"type": "string", "default": "none"}}}},
		"refund": {"effect": "write", "input": {"type": "object", "required": ["to", "amount"], "properties": {
			"to": {"type": "string"}, "amount": {"type": "integer"}, "note": {"type": "string", "default": "none"}}}},
		"close": {"effect": "destructive", "input": {"type": "object", "properties": {"account": {"type": "string"}}}}
	},
	"rules": [
		{"id": "barred", "deny": ["pay", "refund"], "when": {"arg": "/to", "eq": "mallory"}},
		{"id": "staff", "allow": ["pay", "refund", "close"]}
	],
	"requires": [
		{"id": "owner", "tools": ["pay", "refund"], "all": [{"approval": {"roles": ["owner"], "ttl": "10m"}}]},
		{"id": "both", "tools": ["close"],
			"all": [{"approval": {"roles": ["owner", "auditor"], "quorum": 2, "ttl": "1h"}}]}
	]
}`

// rent is a call that an owner must approve.
func rent(approvals ...contracts.Envelope) helm.Intent {
	return helm.Intent{Tool: "pay", Args: raw(`{"to":"landlord","amount":900}`), Session: "chat",
		Approvals: approvals,
		Caller:    helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}}
}

// closing is a call that two must approve, of whom each is an owner or an auditor.
func closing(approvals ...contracts.Envelope) helm.Intent {
	in := rent(approvals...)
	in.Tool, in.Args = "close", raw(`{"account":"17"}`)
	return in
}

// bank makes a world in which ann and bob are owners and cid is an auditor. Dan approves other
// things, and ann has a second key.
func bank(t *trial, change ...func(w *world)) *world {
	second := keyNamed("ann's second", registry.Approver, "owner")
	second.Name = "ann"
	return t.newWorld([]string{bankPolicy}, append([]func(w *world){
		registered(t, 1, keyNamed("root", registry.Root), keyNamed("ann", registry.Approver, "owner"), second,
			keyNamed("bob", registry.Approver, "owner"), keyNamed("cid", registry.Approver, "auditor"),
			keyNamed("dan", registry.Approver, "cook"))}, change...)...)
}

// asks makes a call that must be denied until it is approved, and returns the request.
func asks(w *world, in helm.Intent) contracts.ApprovalRequest {
	a := w.wantDenied(contracts.ReasonApprovalRequired, in)
	w.check(a.Pending != nil, "nothing to approve")
	p := a.receipt.Record.Decision.Pending
	w.check(p != nil && *p == a.Pending.Digest(), "the receipt is of another request")
	w.must(a.Pending.About(a.Decision.Args), "the arguments to show")
	return *a.Pending
}

// approve is the approval of a request by the key of a name.
func approve(w *world, r contracts.ApprovalRequest, by string) contracts.Envelope {
	e, err := r.Approve(keyOf(by))
	w.must(err, "approving")
	return e
}

func refuse(w *world, r contracts.ApprovalRequest, by string) contracts.Envelope {
	e, err := r.Refuse(keyOf(by))
	w.must(err, "refusing")
	return e
}

func approvalCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, s := range storages {
		add("asked, approved, run once, "+s.name, func(t *trial) {
			w := bank(t, s.at)
			yes := approve(w, asks(w, rent()), "ann")
			a := w.wantRun(rent(yes))
			used := a.Record.Approvals
			w.check(len(used) == 1 && used[0] == yes.Digest(), "the decision does not list the approval")
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(yes))
			w.reopen()
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(yes))
			w.verified()
		})
	}
	type intent = helm.Intent
	for _, x := range []struct {
		name   string
		change func(in *intent)
	}{
		{"another amount", func(in *intent) { in.Args = raw(`{"to":"landlord","amount":901}`) }},
		{"another payee", func(in *intent) { in.Args = raw(`{"to":"eve","amount":900}`) }},
		{"another value than the default", func(in *intent) {
			in.Args = raw(`{"to":"landlord","amount":900,"note":"x"}`)
		}},
		{"another tool", func(in *intent) { in.Tool = "refund" }},
		{"another session", func(in *intent) { in.Session = "other" }},
		{"no session", func(in *intent) { in.Session = "" }},
		{"another caller", func(in *intent) { in.Caller.ID = "kin" }},
		{"no caller", func(in *intent) { in.Caller = helm.Caller{} }},
		{"another tenant", func(in *intent) { in.Caller.Tenant = "umbrella" }},
		{"another role", func(in *intent) { in.Caller.Roles = []string{"manager"} }},
		{"one role more", func(in *intent) { in.Caller.Roles = []string{"clerk", "owner"} }},
		{"no role", func(in *intent) { in.Caller.Roles = nil }},
	} {
		add(x.name, func(t *trial) {
			w := bank(t)
			yes := approve(w, asks(w, rent()), "ann")
			in := rent(yes)
			x.change(&in)
			w.wantDenied(contracts.ReasonApprovalInvalid, in)
			w.wantRun(rent(yes))
			w.verified()
		})
	}
	for _, x := range []struct{ name, from, to string }{
		{"the next version of the policy", `"version": 1`, `"version": 2`},
		{"another schema", `"amount": {"type": "integer"}`,
			`"amount": {"type": "integer"}, "memo": {"type": "string"}`},
		{"another quorum", `["owner"], "ttl"`, `["owner"], "quorum": 2, "ttl"`},
		{"other roles", `["owner"], "ttl"`, `["cook", "owner"], "ttl"`},
	} {
		add(x.name, func(t *trial) {
			w := bank(t)
			yes := approve(w, asks(w, rent()), "ann")
			other, err := compile(strings.ReplaceAll(bankPolicy, x.from, x.to))
			t.must(err, "another policy")
			t.must(w.kernel.Swap(t.ctx, other), "swapping the policy")
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(yes))
			w.verified()
		})
	}
	list = append(list, approvalTimes()...)
	add("the same call in other bytes", func(t *trial) {
		w := bank(t)
		in := rent(approve(w, asks(w, rent()), "ann"))
		in.Args = raw(` {"amount" : 900.0, "to":"l\u0061ndlord", "note":"none"} `)
		w.wantRun(in)
		w.verified()
	})
	add("quorum one short", func(t *trial) {
		w := bank(t)
		asked := asks(w, closing())
		ann, cid := approve(w, asked, "ann"), approve(w, asked, "cid")
		w.wantDenied(contracts.ReasonApprovalRequired, closing(ann))
		w.wantDenied(contracts.ReasonApprovalRequired, closing(ann, ann))
		w.wantRun(closing(ann, cid))
		w.wantDenied(contracts.ReasonApprovalInvalid, closing(ann, cid))
		w.verified()
	})
	add("one holder with two keys", func(t *trial) {
		w := bank(t)
		asked := asks(w, closing())
		ann, again := approve(w, asked, "ann"), approve(w, asked, "ann's second")
		w.wantDenied(contracts.ReasonApprovalRequired, closing(ann, again))
		w.wantRun(closing(ann, again, approve(w, asked, "bob")))
		w.verified()
	})
	add("a wrong role", func(t *trial) {
		w := bank(t)
		asked := asks(w, rent())
		for _, by := range []string{"cid", "dan", "root", "kernel", "mallory"} {
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(approve(w, asked, by)))
		}
		w.wantRun(rent(approve(w, asked, "bob")))
		w.verified()
	})
	add("a changed byte", func(t *trial) {
		w := bank(t)
		yes := approve(w, asks(w, rent()), "ann")
		bad := append(contracts.Envelope(nil), yes...)
		at := strings.Index(string(bad), `"sig":"`) + 20
		bad[at] = either(bad[at] == 'A', "B", "A")[0]
		w.wantDenied(contracts.ReasonApprovalInvalid, rent(bad))
		w.wantRun(rent(yes))
		w.verified()
	})
	add("a refusal", func(t *trial) {
		w := bank(t)
		asked := asks(w, rent())
		no, yes := refuse(w, asked, "ann"), approve(w, asked, "bob")
		for _, in := range []intent{rent(no), rent(no, yes), rent(yes, no)} {
			a := w.wantDenied(contracts.ReasonApprovalRefused, in)
			w.check(a.Pending == nil, "a refusal asks again")
		}
		w.clock.pass(time.Second)
		w.wantRun(rent(no, approve(w, asks(w, rent()), "bob")))
		w.verified()
	})
	add("a revoked approver", func(t *trial) {
		w := bank(t)
		yes := approve(w, asks(w, rent()), "bob")
		id := keyID("bob")
		govern(w, next(w, contracts.TrustEvent{Type: "revoke", ID: &id, Why: "a case"}), "root")
		w.wantDenied(contracts.ReasonApprovalInvalid, rent(yes))
		w.verified()
	})
	add("nobody is asked for what is denied anyway", func(t *trial) {
		w := bank(t)
		in := rent()
		in.Args = raw(`{"to":"mallory","amount":1}`)
		a := w.wantDenied(contracts.ReasonPolicyViolation, in)
		w.check(a.Pending == nil, "somebody was asked")
		w.verified()
	})
	return list
}

// approvalTimes have an approval that is from some time after the request till another, and is used
// at a third.
func approvalTimes() (list []gateCase) {
	const minute, tick = time.Minute, time.Millisecond
	for _, x := range []struct {
		name            string
		from, till, use time.Duration
		reason          contracts.ReasonCode
	}{
		{"just in time", 0, 10 * minute, 10*minute - tick, contracts.ReasonAllow},
		{"expired", 0, 10 * minute, 10*minute + tick, contracts.ReasonApprovalExpired},
		{"cut short by the approver", 0, minute, 2 * minute, contracts.ReasonApprovalExpired},
		{"early: a timelock", 5 * minute, 10 * minute, 5*minute - tick, contracts.ReasonApprovalExpired},
		{"a timelock that is over", 5 * minute, 15 * minute, 5 * minute, contracts.ReasonAllow},
		{"longer than the policy lets it be", 0, 10*minute + tick, 0, contracts.ReasonApprovalInvalid},
	} {
		list = append(list, gateCase{x.name, func(t *trial) {
			w := bank(t)
			asked := asks(w, rent())
			asked.NotBefore, asked.Expires = asked.NotBefore.Add(x.from), asked.NotBefore.Add(x.till)
			yes := approve(w, asked, "ann")
			w.clock.pass(x.use)
			if x.reason == contracts.ReasonAllow {
				w.wantRun(rent(yes))
			} else {
				w.wantDenied(x.reason, rent(yes))
				w.wantRun(rent(yes, approve(w, asks(w, rent()), "bob")))
			}
			w.verified()
		}})
	}
	return list
}

package helm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
)

// bankText is a policy that asks: an owner for what is paid, two of them for what is closed, and that somebody has looked at the account
// before money is moved there.
const bankText = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  look:
    effect: read
    input: {type: object, required: [account], properties: {account: {type: string}, page: {type: integer, default: 1}}}
    output: {type: object, required: [account], properties: {account: {type: string}, page: {type: integer}}}
  pay:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: integer}, note: {type: string, default: none}}}
  refund:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: integer}, note: {type: string, default: none}}}
  close:
    effect: destructive
    input: {type: object, required: [account], properties: {account: {type: string}}}
  move:
    effect: write
    input: {type: object, required: [from, to], properties: {from: {type: string}, to: {type: string}}}
  tell:
    effect: write
    input: {type: object, properties: {}}
rules:
  - {id: staff, allow: [look, pay, refund, close, move, tell]}
requires:
  - {id: owner, tools: [pay, refund], all: [{approval: {roles: [owner], ttl: 10m}}]}
  - {id: both, tools: [close], all: [{approval: {roles: [owner, auditor], quorum: 2, ttl: 1h}}]}
  - {id: seen, tools: [move], all: [{receipt: look, same: {/account: /to}, max_age: 30m}]}
`

// edited gives the policy with edits by pairs.
func edited(t testing.TB, edits ...string) *guardian.Policy {
	t.Helper()
	text := bankText
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the policy has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return compile(t, text)
}

// Seeds of those who are asked, and of those who are not.
const (
	seedAnn = 41 + iota // ann and bob own the bank
	seedBob
	seedCid     // audits it
	seedDan     // may approve other things
	seedEve     // attests
	seedRoot    // governs
	seedMallory // is nobody
)

// A bank is a world that asks for approvals, with a clock of its own.
type bank struct {
	*world

	mu sync.Mutex // protects at
	at time.Time
}

func newBank(t *testing.T, change ...func(*helm.Options)) *bank {
	t.Helper()
	b := &bank{at: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	trust, err := registry.New(1,
		registry.Key{Name: "root", Public: public(t, seedRoot), Role: registry.Root},
		registry.Key{Name: "ann", Public: public(t, seedAnn), Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "bob", Public: public(t, seedBob), Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "cid", Public: public(t, seedCid), Role: registry.Approver, Roles: []string{"auditor"}},
		registry.Key{Name: "dan", Public: public(t, seedDan), Role: registry.Approver, Roles: []string{"cook"}},
		registry.Key{Name: "eve", Public: public(t, seedEve), Role: registry.Attestor})
	if err != nil {
		t.Fatal(err)
	}
	b.world = newWorld(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy, o.Trust, o.Now = compile(t, bankText), trust, b.now
		drivers := map[string]executor.Driver{}
		for _, tool := range []string{"look", "pay", "refund", "close", "move", "tell"} {
			drivers[tool] = o.Drivers["echo"]
		}
		o.Drivers = drivers
	}}, change...)...)
	b.governed = true
	return b
}

func (b *bank) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// pass lets time go by.
func (b *bank) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

// clerk is who calls in these tests, in a conversation of its own.
func clerk(in *helm.Intent) {
	in.Session, in.Caller = "chat", helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}
}

// with presents approvals.
func with(approvals ...contracts.Envelope) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Approvals = approvals }
}

const rent = `{"to":"landlord","amount":900}`

// do makes a call as the clerk.
func (b *bank) do(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	return b.call(tool, args, append([]func(*helm.Intent){clerk}, change...)...)
}

// ask makes a call that somebody must approve, and gives what he is to sign.
func (b *bank) ask(tool, args string, change ...func(*helm.Intent)) contracts.ApprovalRequest {
	b.t.Helper()
	d, r := b.do(tool, args, change...)
	b.mustBe(d, r, want{reason: contracts.ReasonApprovalRequired, outcome: contracts.Denied, err: helm.ErrDenied})
	var e *helm.Error
	if !errors.Is(d.Err(), helm.ErrApprovalRequired) || !errors.As(d.Err(), &e) || d.Pending == nil || e.Pending == nil {
		b.t.Fatalf("%s: %s: %v: nothing to approve", tool, d.Reason, d.Err())
	}
	if want := d.Pending.Digest(); d.Record.Pending == nil || *d.Record.Pending != want || r.Record.Decision.Pending == nil || *r.Record.Decision.Pending != want {
		b.t.Errorf("%s: the record is not of the request that was given", tool)
	}
	return *d.Pending
}

// approve signs a request, after it went to the approver as JSON and came back.
func (b *bank) approve(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.t.Helper()
	return b.answer(r, contracts.Allow, by)
}

func (b *bank) refuse(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.t.Helper()
	return b.answer(r, contracts.Deny, by)
}

func (b *bank) answer(r contracts.ApprovalRequest, v contracts.Verdict, by byte) contracts.Envelope {
	b.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	var got contracts.ApprovalRequest
	if err := json.Unmarshal(text, &got); err != nil {
		b.t.Fatal(err)
	}
	sign := got.Refuse
	if v == contracts.Allow {
		sign = got.Approve
	}
	e, err := sign(seedKey(b.t, by))
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// mustDo makes a call that must run.
func (b *bank) mustDo(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	b.t.Helper()
	d, r := b.do(tool, args, change...)
	b.mustBe(d, r, want{contracts.Allow, contracts.ReasonAllow, contracts.Executed, nil, string(r.Output), 1})
	if d.Pending != nil {
		b.t.Error("an allowed call has something pending")
	}
	return d, r
}

// mustNotDo makes a call that must be denied for that reason, with a receipt, and nothing run. What it leaves pending is new.
func (b *bank) mustNotDo(reason contracts.ReasonCode, tool, args string, change ...func(*helm.Intent)) helm.Decision {
	b.t.Helper()
	d, r := b.do(tool, args, change...)
	b.mustBe(d, r, want{reason: reason, outcome: contracts.Denied, err: helm.ErrDenied})
	asked := reason == contracts.ReasonApprovalRequired
	if errors.Is(d.Err(), helm.ErrApprovalRequired) != asked || (d.Pending != nil) != asked || (d.Record.Pending != nil) != asked {
		b.t.Errorf("%s: pending %v, error %v", d.Reason, d.Pending, d.Err())
	}
	return d
}

// reopen makes another kernel over the same store.
func (b *bank) reopen() {
	b.t.Helper()
	if err := b.k.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// mustPass packs the log: it verifies, and every verdict follows from what was kept.
func (b *bank) mustPass() evidence.Report {
	b.t.Helper()
	report := b.mustVerify()
	if report.Replay.Replayed == 0 && !b.o.Keep.DropInputs {
		b.t.Errorf("replay: %+v", report.Replay)
	}
	return report
}

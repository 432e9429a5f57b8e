package kerneltest

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
const BankPolicy = `
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
func EditedBankPolicy(t testing.TB, edits ...string) *guardian.Policy {
	t.Helper()
	text := BankPolicy
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the policy has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return Compile(t, text)
}

// Seeds of those who are asked, and of those who are not.
const (
	SeedAnn = 41 + iota // ann and bob own the bank
	SeedBob
	SeedCid     // audits it
	SeedDan     // may approve other things
	SeedEve     // attests
	SeedRoot    // governs
	SeedMallory // is nobody
)

// A bank is a world that asks for approvals, with a clock of its own.
type Bank struct {
	*World

	mu sync.Mutex // protects at
	at time.Time
}

func NewBank(t *testing.T, change ...func(*helm.Options)) *Bank {
	t.Helper()
	b := &Bank{at: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	trust, err := registry.New(1,
		registry.Key{Name: "root", Public: Public(t, SeedRoot), Role: registry.Root},
		registry.Key{Name: "ann", Public: Public(t, SeedAnn), Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "bob", Public: Public(t, SeedBob), Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "cid", Public: Public(t, SeedCid), Role: registry.Approver, Roles: []string{"auditor"}},
		registry.Key{Name: "dan", Public: Public(t, SeedDan), Role: registry.Approver, Roles: []string{"cook"}},
		registry.Key{Name: "eve", Public: Public(t, SeedEve), Role: registry.Attestor})
	if err != nil {
		t.Fatal(err)
	}
	b.World = New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy, o.Trust, o.Now = Compile(t, BankPolicy), trust, b.Now
		drivers := map[string]executor.Driver{}
		for _, tool := range []string{"look", "pay", "refund", "close", "move", "tell"} {
			drivers[tool] = o.Drivers["echo"]
		}
		o.Drivers = drivers
	}}, change...)...)
	b.Governed = true
	return b
}

func (b *Bank) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// pass lets time go by.
func (b *Bank) Pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

// clerk is who calls in these tests, in a conversation of its own.
func clerk(in *helm.Intent) {
	in.Session, in.Caller = "chat", helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}
}

// with presents approvals.
func WithApprovals(approvals ...contracts.Envelope) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Approvals = approvals }
}

const Rent = `{"to":"landlord","amount":900}`

// do makes a call as the clerk.
func (b *Bank) Do(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	return b.Call(tool, args, append([]func(*helm.Intent){clerk}, change...)...)
}

// ask makes a call that somebody must approve, and gives what he is to sign.
func (b *Bank) Ask(tool, args string, change ...func(*helm.Intent)) contracts.ApprovalRequest {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Denied(contracts.ReasonApprovalRequired))
	var e *helm.Error
	if !errors.Is(d.Err(), helm.ErrApprovalRequired) || !errors.As(d.Err(), &e) || d.Pending == nil || e.Pending == nil {
		b.T.Fatalf("%s: %s: %v: nothing to approve", tool, d.Reason, d.Err())
	}
	if want := d.Pending.Digest(); d.Record.Pending == nil || *d.Record.Pending != want || r.Record.Decision.Pending == nil || *r.Record.Decision.Pending != want {
		b.T.Errorf("%s: the record is not of the request that was given", tool)
	}
	return *d.Pending
}

// approve signs a request, after it went to the approver as JSON and came back.
func (b *Bank) Approve(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.T.Helper()
	return b.answer(r, contracts.Allow, by)
}

func (b *Bank) Refuse(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.T.Helper()
	return b.answer(r, contracts.Deny, by)
}

func (b *Bank) answer(r contracts.ApprovalRequest, v contracts.Verdict, by byte) contracts.Envelope {
	b.T.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		b.T.Fatal(err)
	}
	var got contracts.ApprovalRequest
	if err := json.Unmarshal(text, &got); err != nil {
		b.T.Fatal(err)
	}
	sign := got.Refuse
	if v == contracts.Allow {
		sign = got.Approve
	}
	e, err := sign(SeedKey(b.T, by))
	if err != nil {
		b.T.Fatal(err)
	}
	return e
}

// mustDo makes a call that must run.
func (b *Bank) MustDo(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Executed(string(r.Output)))
	if d.Pending != nil {
		b.T.Error("an allowed call has something pending")
	}
	return d, r
}

// mustNotDo makes a call that must be denied for that reason, with a receipt, and nothing run. What it leaves pending is new.
func (b *Bank) MustNotDo(reason contracts.ReasonCode, tool, args string, change ...func(*helm.Intent)) helm.Decision {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Denied(reason))
	asked := reason == contracts.ReasonApprovalRequired
	if errors.Is(d.Err(), helm.ErrApprovalRequired) != asked || (d.Pending != nil) != asked || (d.Record.Pending != nil) != asked {
		b.T.Errorf("%s: pending %v, error %v", d.Reason, d.Pending, d.Err())
	}
	return d
}

// reopen makes another kernel over the same store.
func (b *Bank) Reopen() {
	b.T.Helper()
	if err := b.Kernel.Close(); err != nil {
		b.T.Fatal(err)
	}
	b.Open()
}

// mustPass packs the log: it verifies, and every verdict follows from what was kept.
func (b *Bank) MustPass() evidence.Report {
	b.T.Helper()
	report := b.MustVerify()
	if report.Replay.Replayed == 0 && !b.Options.Keep.DropInputs {
		b.T.Errorf("replay: %+v", report.Replay)
	}
	return report
}

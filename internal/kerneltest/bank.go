package kerneltest

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BankPolicy is a policy that asks: an owner for payments, an owner and an auditor before an
// account is closed, and a look at the account before money is moved there.
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
    input: {type: object, required: [to, amount],
      properties: {to: {type: string}, amount: {type: integer}, note: {type: string, default: none}}}
  refund:
    effect: write
    input: {type: object, required: [to, amount],
      properties: {to: {type: string}, amount: {type: integer}, note: {type: string, default: none}}}
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

// EditedBank is [BankPolicy] with edits by pairs.
func EditedBank(t testing.TB, edits ...string) *guardian.Policy {
	t.Helper()
	return Compile(t, Edit(t, BankPolicy, edits...))
}

// Seeds of those who are asked in a [Bank], and of those who are not.
const (
	Ann      = 41 + iota // an owner
	Bob                  // an owner
	Cid                  // an auditor
	Dan                  // approves other things
	Eve                  // attests
	BankRoot             // governs
	Mallory              // has no role
)

// A Bank is a world with the policy [BankPolicy] and a clock of its own. Its calls are those of a
// clerk.
type Bank struct {
	*World

	mu  sync.Mutex // protects now
	now time.Time
}

// NewBank makes a bank. The changes are made to the options before the kernel is made.
func NewBank(t *testing.T, change ...func(*helm.Options)) *Bank {
	t.Helper()
	b := &Bank{now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	approver := func(name string, seed byte, role string) registry.Key {
		return registry.Key{Name: name, Public: Public(t, seed), Role: registry.Approver, Roles: []string{role}}
	}
	trust, err := registry.New(1,
		registry.Key{Name: "root", Public: Public(t, BankRoot), Role: registry.Root},
		approver("ann", Ann, "owner"), approver("bob", Bob, "owner"),
		approver("cid", Cid, "auditor"), approver("dan", Dan, "cook"),
		registry.Key{Name: "eve", Public: Public(t, Eve), Role: registry.Attestor})
	require.NoError(t, err)
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

// Now is the bank's clock.
func (b *Bank) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// Pass lets time go by.
func (b *Bank) Pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func clerk(in *helm.Intent) {
	in.Session, in.Caller = "chat", helm.Caller{ID: "kim", Tenant: "acme", Roles: []string{"clerk"}}
}

// With presents approvals.
func With(approvals ...contracts.Envelope) func(*helm.Intent) {
	return func(in *helm.Intent) { in.Approvals = approvals }
}

// Rent is the arguments of a payment.
const Rent = `{"to":"landlord","amount":900}`

// Do makes a call as the clerk.
func (b *Bank) Do(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	return b.Call(tool, args, append([]func(*helm.Intent){clerk}, change...)...)
}

// Pay pays the rent with approvals.
func (b *Bank) Pay(approvals ...contracts.Envelope) (helm.Decision, helm.Receipt) {
	return b.Do("pay", Rent, With(approvals...))
}

// Ask makes a call that needs approvals, and returns the request to approve.
func (b *Bank) Ask(tool, args string, change ...func(*helm.Intent)) contracts.ApprovalRequest {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Denied(contracts.ReasonApprovalRequired))
	var e *helm.Error
	require.ErrorIs(b.T, d.Err(), helm.ErrApprovalRequired)
	require.ErrorAs(b.T, d.Err(), &e)
	require.NotNil(b.T, d.Pending, "nothing to approve")
	require.NotNil(b.T, e.Pending, "nothing to approve in the error")
	want := d.Pending.Digest()
	assert.Equal(b.T, &want, d.Record.Pending, "%s: the record is not of the request that was returned", tool)
	assert.Equal(b.T, &want, r.Record.Decision.Pending, "%s: the receipt is not of the request that was returned", tool)
	return *d.Pending
}

// AskToPay asks for the approval of the rent.
func (b *Bank) AskToPay() contracts.ApprovalRequest {
	b.T.Helper()
	return b.Ask("pay", Rent)
}

// Approve signs a request, after it went to the approver as JSON and came back.
func (b *Bank) Approve(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.T.Helper()
	return b.answer(r, contracts.ApprovalRequest.Approve, by)
}

// Refuse signs the refusal of a request, after it went to the approver as JSON and came back.
func (b *Bank) Refuse(r contracts.ApprovalRequest, by byte) contracts.Envelope {
	b.T.Helper()
	return b.answer(r, contracts.ApprovalRequest.Refuse, by)
}

func (b *Bank) answer(
	r contracts.ApprovalRequest, sign func(contracts.ApprovalRequest, crypto.Signer) (contracts.Envelope, error),
	by byte,
) contracts.Envelope {
	b.T.Helper()
	text, err := json.Marshal(r)
	require.NoError(b.T, err)
	var got contracts.ApprovalRequest
	require.NoError(b.T, json.Unmarshal(text, &got))
	e, err := sign(got, SeedKey(b.T, by))
	require.NoError(b.T, err)
	return e
}

// ApprovedRent asks for the approval of the rent, and approves it.
func (b *Bank) ApprovedRent(by byte) contracts.Envelope {
	b.T.Helper()
	return b.Approve(b.AskToPay(), by)
}

// MustDo makes a call that must run.
func (b *Bank) MustDo(tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Executed(string(r.Output)))
	assert.Nil(b.T, d.Pending, "an allowed call has something pending")
	return d, r
}

// MustPay pays the rent with approvals, which must do.
func (b *Bank) MustPay(approvals ...contracts.Envelope) (helm.Decision, helm.Receipt) {
	b.T.Helper()
	return b.MustDo("pay", Rent, With(approvals...))
}

// MustNotDo makes a call that must be denied for that reason, with a receipt, and must not run.
func (b *Bank) MustNotDo(
	reason contracts.ReasonCode, tool, args string, change ...func(*helm.Intent),
) helm.Decision {
	b.T.Helper()
	d, r := b.Do(tool, args, change...)
	b.MustBe(d, r, Denied(reason))
	asked := reason == contracts.ReasonApprovalRequired
	assert.Equal(b.T, asked, errors.Is(d.Err(), helm.ErrApprovalRequired), "%s: %v", d.Reason, d.Err())
	assert.Equal(b.T, asked, d.Pending != nil, "pending")
	assert.Equal(b.T, asked, d.Record.Pending != nil, "pending in the record")
	return d
}

// MustNotPay pays the rent with approvals, which must be denied for that reason.
func (b *Bank) MustNotPay(reason contracts.ReasonCode, approvals ...contracts.Envelope) helm.Decision {
	b.T.Helper()
	return b.MustNotDo(reason, "pay", Rent, With(approvals...))
}

// MustPass packs the log and verifies it. Every verdict must follow from the inputs that were kept.
func (b *Bank) MustPass() evidence.Report {
	b.T.Helper()
	report := b.MustVerify()
	if !b.Options.Keep.DropInputs {
		assert.NotZero(b.T, report.Replay.Replayed, "replay: %+v", report.Replay)
	}
	return report
}

package forge

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// Compiled is the policy of documents in JSON, in the order of the stack.
func Compiled(t testing.TB, docs ...string) *guardian.Policy {
	t.Helper()
	var list []contracts.Document
	for _, d := range docs {
		list = append(list, contracts.Document{Canonical: CanonicalText(t, d)})
	}
	p, err := guardian.Compile(list...)
	require.NoError(t, err)
	return p
}

// DecisionsIn are those in a pack, by index, but for those of which it has stubs.
func DecisionsIn(t testing.TB, pack []byte) map[uint64]contracts.DecisionRecord {
	t.Helper()
	all := map[uint64]contracts.DecisionRecord{}
	var r contracts.Reader
	index := uint64(0)
	for line := range bytes.Lines(Untar(t, pack)[EntriesAt].Body) {
		if contracts.IsStub(line) {
			index++
			continue
		}
		sealed, err := r.Open(bytes.TrimSuffix(line, []byte("\n")))
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if d := st.Judgement(); d != nil {
			all[index] = *d
		}
		index++
	}
	return all
}

// CanonicalText returns the canonical form of JSON.
func CanonicalText(t testing.TB, text string) []byte {
	t.Helper()
	return ValuesOf(t, text).Append(nil)
}

// FixturePolicy asks for everything that there is of a session's past, and for what others sign.
const FixturePolicy = `{"bundle":{"name":"desk","version":1},"helm":"policy/v1","layer":"P1",
"requires":[
 {"id":"looked","tools":["act"],"any":[{"receipt":"open"},{"receipt":"look","same":["/path"],"max_age":"30m"}]},
 {"id":"opened","tools":["shut"],"all":[{"receipt":"open","max_age":"1h"}]},
 {"id":"asked","tools":["pay"],"when":{"arg":"/amount","ge":10},"any":[
  {"attestation":{"type":"dual-control","bind":{"amount":"/amount"},"max_age":"10m"}},
  {"approval":{"roles":["lead","owner"],"quorum":2,"ttl":"15m"}}]},
 {"id":"told","tools":["pay"],"all":[{"approval":{"roles":["lead"],"ttl":"15m"}}]}],
"rules":[
 {"id":"often","deny":"act","when":{"session":"calls","of":"look","gt":8}},
 {"id":"long","deny":["act","look"],"when":{"session":"calls","gt":40}},
 {"id":"all","allow":["act","look","open","pay","shut"]}],
"tools":{
 "act":{"effect":"write","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},
 "look":{"effect":"read","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},
 "open":{"effect":"read","input":{"type":"object"}},
 "pay":{"effect":"write","risk":"high","input":{"properties":{"amount":{"type":"number"}},
 "required":["amount"],"type":"object"}},
 "shut":{"effect":"write","input":{"type":"object"}}}}`

// A Fixture makes the calls of one session.
type Fixture struct {
	*Maker
	Session string
	Who     contracts.Caller
}

// NewFixture begins a log with FixturePolicy and a second approver.
func NewFixture(t testing.TB) *Fixture { return newFixtureOf(NewMaker(t)) }

func newFixtureOf(m *Maker) *Fixture {
	m.Use(FixturePolicy)
	m.add(seedA2, "zoe", registry.Approver, "lead", "owner")
	return &Fixture{m, "s1", contracts.Caller{ID: "agent"}}
}

// Ask returns a call with approvals and attestations.
func (d *Fixture) Ask(tool, args string, with ...contracts.Envelope) Ask {
	a := Ask{Session: d.Session, Tool: tool, Args: args, Who: d.Who}
	for _, e := range with {
		sealed, err := new(contracts.Reader).Open(e)
		require.NoError(d, err)
		if sealed.Kind == contracts.KindAttestation {
			a.With.Attestations = append(a.With.Attestations, e)
		} else {
			a.With.Approvals = append(a.With.Approvals, e)
		}
	}
	return a
}

// Look makes a call of look, which runs.
func (d *Fixture) Look(path string) *Called {
	d.Helper()
	c := d.Allowed(d.Ask("look", fmt.Sprintf(`{"path":%q}`, path)))
	c.Ran(`1`)
	return c
}

// Pending makes a call of pay that needs an approval, and returns the question to be signed.
func (d *Fixture) Pending(args string, with ...contracts.Envelope) contracts.ApprovalRequest {
	d.Helper()
	c := d.Denied(contracts.ReasonApprovalRequired, d.Ask("pay", args, with...))
	if c.Why.Pending == nil || c.decision.Pending == nil || *c.decision.Pending != c.Why.Pending.Digest() {
		d.Fatalf("pending %v, %+v", c.decision.Pending, c.Why.Pending)
	}
	return *c.Why.Pending
}

// Approve returns the consent of an approver.
func (m *Maker) Approve(seed byte, r contracts.ApprovalRequest) contracts.Envelope {
	m.Helper()
	return m.answered(seed, r, 0, contracts.Allow)
}

// answered is an approver's answer, some time after the question.
func (m *Maker) answered(seed byte, r contracts.ApprovalRequest, after contracts.Time,
	v contracts.Verdict) contracts.Envelope {
	m.Helper()
	e, err := contracts.Approval{Request: r, Time: r.NotBefore + after, Verdict: v}.Sign(Key(m, seed))
	require.NoError(m, err)
	return e
}

// Attest returns an attestation with these claims.
func (m *Maker) Attest(claims string) contracts.Envelope {
	m.Helper()
	e, err := contracts.Attestation{Claims: ValuesOf(m, claims), Time: m.Now, Type: "dual-control"}.Sign(Key(m, SeedB))
	require.NoError(m, err)
	return e
}

// FixtureLog has a verdict of each kind over the past, and over what others sign.
func FixtureLog(t testing.TB) *Fixture { return fixtureLog(NewMaker(t)) }

func fixtureLog(m *Maker) *Fixture {
	d := newFixtureOf(m)
	d.Look("/a")
	d.Look("/b")
	d.Allowed(d.Ask("act", `{"path":"/a"}`)).Ran(`1`)
	d.Denied(contracts.ReasonMissingRequirement, d.Ask("act", `{"path":"/z"}`))
	d.Denied(contracts.ReasonMissingRequirement, d.Ask("shut", `{}`))
	d.Allowed(d.Ask("open", `{}`)).Failed(contracts.ReasonToolError)
	d.Denied(contracts.ReasonMissingRequirement, d.Ask("shut", `{}`))
	d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
	d.Allowed(d.Ask("shut", `{}`)).Ran(`1`)
	d.Look("/b")
	d.Allowed(d.Ask("act", `{"path":"/b"}`)).Ran(`1`)

	small := d.Pending(`{"amount":1}`)
	yes := d.Approve(SeedA, small)
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("pay", `{"amount":2}`, yes))
	d.Allowed(d.Ask("pay", `{"amount":1}`, yes, d.Attest(`{"amount":2}`))).Ran(`1`) // which nobody asked for
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("pay", `{"amount":1}`, yes))
	d.Denied(contracts.ReasonApprovalInvalid, d.Ask("pay", `{"amount":1}`, d.answered(seedA2, small, 1, contracts.Allow)))
	again := d.Pending(`{"amount":1}`)
	d.Denied(contracts.ReasonApprovalRefused, d.Ask("pay", `{"amount":1}`, d.answered(SeedA, again, 0, contracts.Deny)))
	d.Now += 16 * 60_000
	d.Denied(contracts.ReasonApprovalExpired, d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, again)))

	large := d.Pending(`{"amount":10}`)
	d.Pending(`{"amount":10}`, d.Approve(SeedA, large))
	d.Allowed(d.Ask("pay", `{"amount":10}`, d.Approve(SeedA, large), d.Approve(seedA2, large))).Ran(`1`)
	witnessed := d.Pending(`{"amount":11}`, d.Attest(`{"amount":11}`))
	d.Allowed(d.Ask("pay", `{"amount":11}`, d.Attest(`{"amount":11}`), d.Approve(SeedA, witnessed))).Ran(`1`)
	d.Session = "s2"
	d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
	d.Checkpoint()
	return d
}

// A Liar tells the guardian another past. What it does not lie about is true.
type Liar struct {
	past.Past
	FakeCalls   func(tool string, n uint64) uint64
	FakeReceipt func(r contracts.PriorReceipt) (contracts.PriorReceipt, error)
	FakeUsed    func(bool) bool
	FakeSource  func(past.Source, past.Supply) (past.Supply, error)
	FakeFacts   func(crypto.Value) (crypto.Value, error)
	FakeMarks   func(tainted bool, labels []string) (bool, []string)
}

func (l Liar) Calls(tool string) uint64 {
	n := l.Past.Calls(tool)
	if l.FakeCalls == nil {
		return n
	}
	return l.FakeCalls(tool, n)
}

func (l Liar) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r, err := l.Past.Receipt(tool, same)
	if l.FakeReceipt == nil || err != nil {
		return r, err
	}
	return l.FakeReceipt(r)
}

func (l Liar) Used(e contracts.Digest, r *contracts.ApprovalRequest) bool {
	u := l.Past.Used(e, r)
	if l.FakeUsed == nil {
		return u
	}
	return l.FakeUsed(u)
}

func (l Liar) Source(q past.Source) (past.Supply, error) {
	s, err := l.Past.Source(q)
	if l.FakeSource == nil || err != nil {
		return s, err
	}
	return l.FakeSource(q, s)
}

func (l Liar) Facts(r *contracts.PriorReceipt) (crypto.Value, error) {
	v, err := l.Past.Facts(r)
	if l.FakeFacts == nil || err != nil {
		return v, err
	}
	return l.FakeFacts(v)
}

func (l Liar) Marks() (bool, []string, error) {
	tainted, labels, err := l.Past.Marks()
	if l.FakeMarks == nil || err != nil {
		return tainted, labels, err
	}
	tainted, labels = l.FakeMarks(tainted, labels)
	return tainted, labels, nil
}

// LookedAt lies of receipts with values alone.
func LookedAt(entry contracts.Digest, at contracts.Time) Liar {
	return Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
		if r.Same.Kind() != crypto.Missing {
			r.Entry, r.Time = &entry, at
		}
		return r, nil
	}}
}

// grant signs a delegation by the key of a seed.
func (m *Maker) grant(seed byte, from, to string, depth uint64, parent contracts.Envelope,
	only ...string) contracts.Envelope {
	m.Helper()
	g := contracts.Delegation{Delegate: to, Delegator: from, Depth: depth, Expires: Start + 1e9, Nonce: to,
		NotBefore: Start, Only: only}
	if parent != nil {
		d := parent.Digest()
		g.Parent = &d
	}
	e, err := g.Sign(Key(m, seed))
	require.NoError(m, err)
	return e
}

// Grants makes calls of a caller without rights of their own.
func Grants(m *Maker) {
	m.Use(FilesPolicy(1))
	m.add(104, "bob", registry.Delegator, "reader")
	root := m.grant(SeedD, "ada", "bob", 1, nil, "fs.list", "fs.read")
	leaf := m.grant(104, "bob", "agent", 0, root, "fs.list")
	agent := contracts.Caller{ID: "agent"}
	list := Ask{Session: "s", Tool: "fs.list", Args: `{}`, Who: agent,
		With: contracts.Envelopes{Delegation: []contracts.Envelope{leaf, root}}}
	m.Allowed(list).Ran(`[]`)
	read := list
	read.Tool, read.Args = "fs.read", `{"path":"/srv/a"}`
	m.Denied(contracts.ReasonDelegationScopeViolation, read)
	alone := list
	alone.With.Delegation = []contracts.Envelope{leaf}
	m.Denied(contracts.ReasonDelegationInvalid, alone)
	other := list
	other.Who.ID = "eve"
	m.Denied(contracts.ReasonDelegationInvalid, other)
	d := root.Digest()
	m.govern(contracts.TrustEvent{Type: "undelegate", Delegation: &d, Delegator: "ada"}, nil, SeedD)
	m.Denied(contracts.ReasonDelegationInvalid, list)
}

// ValuesOf returns JSON as a value.
func ValuesOf(t testing.TB, text string) crypto.Value {
	t.Helper()
	if text == "" {
		return crypto.Value{}
	}
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: 8}))
	return tree.Root()
}

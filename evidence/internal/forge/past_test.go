package forge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// TestDesk: verdicts over the past and over what others sign verify, and replay.
func TestDesk(t *testing.T) {
	t.Parallel()
	d := FixtureLog(t)
	r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
	require.True(t, err == nil && r.Success(0) && r.Replay.Replayed == r.Allows+r.Denials && r.Allows == 12 &&
		r.Denials == 13, "%+v, %v", r, err)
}

// TestLies: a kernel that lied to its guardian about the past signed a verdict that follows from
// the lie, and all else is in order. The log tells, at that entry.
func TestLies(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, x := range map[string]struct {
		story func(d *Fixture) (Ask, Liar)
		field string
	}{
		"one call fewer": {func(d *Fixture) (Ask, Liar) {
			for range 8 {
				d.Look("/a")
			}
			return d.Ask("act", `{"path":"/a"}`), Liar{FakeCalls: func(_ string, n uint64) uint64 { return n - 1 }}
		}, "predicate.decision.condition"},
		"no call at all": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`), Liar{FakeCalls: func(string, uint64) uint64 { return 0 }}
		}, "inputs.state.calls"},
		"too many of all": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("look", `{"path":"/a"}`), Liar{FakeCalls: func(tool string, n uint64) uint64 {
				if tool == "" {
					return 41
				}
				return n
			}}
		}, "predicate.decision.condition"},
		"no receipt": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			return d.Ask("shut", `{}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					return contracts.PriorReceipt{Tool: r.Tool, Same: r.Same}, nil
				}}
		}, "predicate.decision.condition"},
		"no receipt, and another instead": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					if r.Tool == "open" {
						r.Entry, r.Time = nil, 0
					}
					return r, nil
				}}
		}, "inputs.state.receipts"},
		"an older receipt": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			first := d.Memory.Runs[0]
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			return d.Ask("shut", `{}`), named(first.Entry, first.Time)
		}, "inputs.state.receipts"},
		"an old receipt as a new one": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Now += 2 * 3_600_000
			return d.Ask("shut", `{}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					r.Time = d.Now
					return r, nil
				}}
		}, "predicate.decision.condition"},
		"a receipt of a call that failed": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Failed(contracts.ReasonToolError)
			return d.Ask("shut", `{}`), named(d.Proofs.Chain("s1").Last(), d.Proofs.Chain("s1").Time())
		}, "predicate.decision.condition"},
		"a receipt of another session": {func(d *Fixture) (Ask, Liar) {
			d.Session = "s2"
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Session = "s1"
			return d.Ask("shut", `{}`), named(d.Memory.Runs[0].Entry, d.Memory.Runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of another tool": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("shut", `{}`), named(d.Memory.Runs[0].Entry, d.Memory.Runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of no log": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("shut", `{}`), named(contracts.Digest{1}, d.Now)
		}, "predicate.decision.condition"},
		"a receipt of other values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			r := d.Memory.Runs[0]
			return d.Ask("act", `{"path":"/b"}`), LookedAt(r.Entry, r.Time)
		}, "predicate.decision.condition"},
		"an older receipt of these values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			r := d.Memory.Runs[0]
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`), LookedAt(r.Entry, r.Time)
		}, "inputs.state.receipts"},
		"none of these values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					r.Entry, r.Time = nil, 0
					return r, nil
				}}
		}, "predicate.decision.condition"},
		"it cannot tell": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("shut", `{}`), Liar{FakeReceipt: func(contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				return contracts.PriorReceipt{}, errors.New("forgotten")
			}}
		}, "predicate.decision.reason"},
		"a used request is not": {func(d *Fixture) (Ask, Liar) {
			r := d.Pending(`{"amount":1}`)
			d.Allowed(d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, r))).Ran(`1`)
			return d.Ask("pay", `{"amount":1}`, d.answered(SeedA, r, 1, contracts.Allow)),
				Liar{FakeUsed: func(bool) bool { return false }}
		}, "predicate.decision.approvals"},
		"a request is used that is not": {func(d *Fixture) (Ask, Liar) {
			r := d.Pending(`{"amount":1}`)
			return d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, r)), Liar{FakeUsed: func(bool) bool { return true }}
		}, "predicate.decision.condition"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lies := range []bool{false, true} {
				d := NewFixture(t)
				d.Look("/x")
				d.Memory.Runs = nil
				a, l := x.story(d)
				if lies {
					d.Memory.Lie = func(p past.Past) past.Past { l.Past = p; return l }
				}
				at := d.Call(a).index
				d.Memory.Lie = nil
				d.Session = "s3"
				d.Look("/x")
				d.Checkpoint()
				r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
				if !lies {
					require.True(t, err == nil && r.Success(0), "without the lie: %v", err)
					continue
				}
				mustRefuse(t, r, err, errReplay)
				assert.False(t, r.Fault != nil && (r.Fault.Entry != int64(at) || r.Replay.Differing != 1 ||
					r.Fault.Field != x.field), "%v, %d differ; want entry %d, %s", r.Fault, r.Replay.Differing, at,
					x.field)
			}
		})
	}
}

func named(entry contracts.Digest, at contracts.Time) Liar {
	return Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
		r.Entry, r.Time = &entry, at
		return r, nil
	}}
}

// TestGrants: what grants did is replayed with the trust state of the time, and a change of one
// is found.
func TestGrants(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	Grants(m)
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust, Origin: Origin}
	r, err := verifyBytes(t, pack, o)
	require.True(t, err == nil && r.Success(0) && r.Replay.Replayed == 5, "%+v, %v", r, err)
	lists := func(m *Model, n int) *Node {
		for _, x := range m.Nodes {
			if x.D() != nil && x.D()["tool"] == "fs.list" {
				if n--; n < 0 {
					return x
				}
			}
		}
		m.Fatal("no such call")
		return nil
	}
	delegation := func(in Object) []any { return in["envelopes"].(Object)["delegation"].([]any) }
	for name, x := range map[string]struct {
		cut   func(m *Model)
		field string
	}{
		"the parent is left out": {func(m *Model) {
			m.inputs(lists(m, 0), func(in Object) { in["envelopes"].(Object)["delegation"] = delegation(in)[:1] })
		}, "predicate.decision.condition"},
		"another leaf": {func(m *Model) {
			leaf := m.grant(contracts.Delegation{Delegate: "eve", Delegator: "bob", Expires: Start + 1e9, Nonce: "x",
				NotBefore: Start, Only: []string{"fs.list"}}, 104)
			n := lists(m, 0)
			n.D()["delegation"] = HexOf(leaf)
			m.inputs(n, func(in Object) { in["envelopes"].(Object)["delegation"] = []any{leaf, delegation(in)[1]} })
		}, "predicate.decision.condition"},
		"rights of nobody": {func(m *Model) {
			n := lists(m, 0)
			delete(n.D(), "delegation")
			m.inputs(n, func(in Object) { delete(in, "envelopes") })
		}, "predicate.decision.condition"},
		"an ALLOW on what was revoked": {func(m *Model) { // not the leaf: that the check TRUST finds
			last := m.Nodes[len(m.Nodes)-1]
			c := m.copy(lists(m, 0))
			at, err := contracts.ParseTime(last.Text("time"))
			require.NoError(m, err)
			c.P()["time"], c.D()["expires"] = at.String(), (at + 30_000).String()
			m.push(c)
			m.inputs(c, func(in Object) { in["time"] = at.String() })
			m.retrust()
		}, "predicate.decision.condition"},
	} {
		t.Run(name, func(t *testing.T) {
			m := TakeApart(t, pack)
			x.cut(m)
			r, err := verifyBytes(t, m.Build(), o)
			mustRefuse(t, r, err, errReplay)
			assert.Equal(t, x.field, r.Fault.Field, "%v", r.Fault)
		})
	}
}

// grant signs a grant and returns it as JSON.
func (m *Model) grant(g contracts.Delegation, seed byte) Object {
	m.Helper()
	e, err := g.Sign(Key(m, seed))
	require.NoError(m, err)
	require.Equal(m, HexOf(parseObject(m, e)), crypto.Sum(e).String(), "an envelope is not canonical")
	return parseObject(m, e)
}

// A floor and an overlay that ask for the past, of tools which they know by name or by what they
// do.
const (
	askingFloor = `{"ceilings":{"calls":7},"helm":"policy/v1","layer":"P0","name":"acme","version":1,` +
		`"requires":[{"all":[{"receipt":"fs.list"}],"id":"seen","tools":{"effects":["write"]}}]}`
	askingTask = `{"for":{"session":"s1"},"helm":"policy/v1","layer":"P2","name":"task","rules":[` +
		`{"deny":"fs.write","id":"once","when":{"ge":1,"of":"fs.write","session":"calls"}}],` +
		`"requires":[{"any":[{"approval":{"roles":["owner"]}},{"max_age":"5m","receipt":"fs.read",` +
		`"same":["/path"]}],"id":"read","tools":"fs.write"}]}`
)

// layered are calls under all three layers.
func layered(m *Maker) {
	m.Use(askingFloor, FilesPolicy(1), askingTask)
	m.add(seedA2, "zoe", registry.Approver, "owner")
	who := contracts.Caller{ID: "ada", Roles: []string{"reader", "writer"}}
	on := func(session, tool, args string, with ...contracts.Envelope) Ask {
		return Ask{Session: session, Tool: tool, Args: args, Who: who, With: contracts.Envelopes{Approvals: with}}
	}
	write := `{"path":"/srv/a"}`
	m.Denied(contracts.ReasonMissingRequirement, on("s1", "fs.write", write))
	for _, s := range []string{"s1", "s2", "s3"} {
		m.Allowed(on(s, "fs.list", `{}`)).Ran(`[]`)
	}
	m.Allowed(on("s2", "fs.write", write)).Ran(`{"ok":true}`) // whom the overlay does not concern
	asked := m.Denied(contracts.ReasonApprovalRequired, on("s1", "fs.write", write))
	m.Allowed(on("s1", "fs.write", write, m.Approve(seedA2, *asked.Why.Pending))).Ran(`{"ok":true}`)
	m.Denied(contracts.ReasonPolicyViolation, on("s1", "fs.write", write)) // once
	for range 6 {
		m.Allowed(on("s3", "fs.read", write)).Ran(`{"text":""}`)
	}
	m.Denied(contracts.ReasonCeilingViolation, on("s3", "fs.read", write))
	m.Denied(contracts.ReasonFailClosedError, on("main", "fs.list", `{}`)) // the session of those who name none
}

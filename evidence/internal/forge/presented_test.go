package forge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/trust/registry"
)

// TestGrants: what grants did is replayed with the trust state of the time, and a change of one
// is found.
func TestGrants(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	Grants(m)
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	o := evidence.Options{Trust: m.Trust, Origin: Origin}
	if r, err := verifyBytes(t, pack, o); err != nil || !r.Success(0) || r.Replay.Replayed != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
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
			mustRefuse(t, r, err, evidence.ErrReplay)
			if r.Fault.Field != x.field {
				t.Error(r.Fault)
			}
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

package evidence

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// grant is one by the holder of a key, to somebody.
func (m *maker) grant(seed byte, from, to string, depth uint64, parent contracts.Envelope, only ...string) contracts.Envelope {
	m.Helper()
	g := contracts.Delegation{Delegate: to, Delegator: from, Depth: depth, Expires: testStart + 1e9, Nonce: to, NotBefore: testStart, Only: only}
	if parent != nil {
		d := parent.Digest()
		g.Parent = &d
	}
	e, err := g.Sign(testKey(m, seed))
	m.must(err)
	return e
}

// grants are calls of somebody who has no rights of his own.
func grants(m *maker) {
	m.use(testPolicy(1))
	m.add(104, "bob", registry.Delegator, "reader")
	root := m.grant(seedD, "ada", "bob", 1, nil, "fs.list", "fs.read")
	leaf := m.grant(104, "bob", "agent", 0, root, "fs.list")
	agent := contracts.Caller{ID: "agent"}
	list := ask{session: "s", tool: "fs.list", args: `{}`, who: agent, with: contracts.Envelopes{Delegation: []contracts.Envelope{leaf, root}}}
	m.allowed(list).ran(`[]`)
	read := list
	read.tool, read.args = "fs.read", `{"path":"/srv/a"}`
	m.denied(contracts.ReasonDelegationScopeViolation, read)
	alone := list
	alone.with.Delegation = []contracts.Envelope{leaf}
	m.denied(contracts.ReasonDelegationInvalid, alone)
	other := list
	other.who.ID = "eve"
	m.denied(contracts.ReasonDelegationInvalid, other)
	d := root.Digest()
	m.govern(contracts.TrustEvent{Type: "undelegate", Delegation: &d, Delegator: "ada"}, nil, seedD)
	m.denied(contracts.ReasonDelegationInvalid, list)
}

// TestGrants: what grants did is replayed with the trust state of the time, and whoever changes one is found.
func TestGrants(t *testing.T) {
	m := newMaker(t)
	grants(m)
	m.checkpoint()
	pack := m.pack()
	o := Options{Trust: m.trust, Origin: testOrigin}
	if r, err := verifyBytes(t, pack, o); err != nil || !r.Success(0) || r.Replay.Replayed != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	lists := func(m *model, n int) *node {
		for _, x := range m.nodes {
			if x.d() != nil && x.d()["tool"] == "fs.list" {
				if n--; n < 0 {
					return x
				}
			}
		}
		m.Fatal("no such call")
		return nil
	}
	delegation := func(in object) []any { return in["envelopes"].(object)["delegation"].([]any) }
	for name, x := range map[string]struct {
		cut   func(m *model)
		field string
	}{
		"the parent is left out": {func(m *model) {
			m.inputs(lists(m, 0), func(in object) { in["envelopes"].(object)["delegation"] = delegation(in)[:1] })
		}, "predicate.decision.condition"},
		"another leaf": {func(m *model) {
			leaf := m.grant(contracts.Delegation{Delegate: "eve", Delegator: "bob", Expires: testStart + 1e9, Nonce: "x", NotBefore: testStart, Only: []string{"fs.list"}}, 104)
			n := lists(m, 0)
			n.d()["delegation"] = hexOf(leaf)
			m.inputs(n, func(in object) { in["envelopes"].(object)["delegation"] = []any{leaf, delegation(in)[1]} })
		}, "predicate.decision.condition"},
		"rights of nobody": {func(m *model) {
			n := lists(m, 0)
			delete(n.d(), "delegation")
			m.inputs(n, func(in object) { delete(in, "envelopes") })
		}, "predicate.decision.condition"},
		"an ALLOW on what was revoked": {func(m *model) { // not the leaf: that the check TRUST finds
			last := m.nodes[len(m.nodes)-1]
			c := m.copy(lists(m, 0))
			at, err := contracts.ParseTime(last.text("time"))
			m.must(err)
			c.p()["time"], c.d()["expires"] = at.String(), (at + 30_000).String()
			m.push(c)
			m.inputs(c, func(in object) { in["time"] = at.String() })
			m.retrust()
		}, "predicate.decision.condition"},
	} {
		t.Run(name, func(t *testing.T) {
			m := takeApart(t, pack)
			x.cut(m)
			r, err := verifyBytes(t, m.build(), o)
			mustRefuse(t, r, err, ErrReplay)
			if r.Fault.Field != x.field {
				t.Error(r.Fault)
			}
		})
	}
}

// grant signs a grant, and gives it as JSON.
func (m *model) grant(g contracts.Delegation, seed byte) object {
	m.Helper()
	e, err := g.Sign(testKey(m, seed))
	m.must(err)
	if crypto.Sum(e).String() != hexOf(parseObject(m, e)) {
		m.Fatal("an envelope is not canonical")
	}
	return parseObject(m, e)
}

// A floor and an overlay that ask for the past, of tools which they know by name or by what they do.
const (
	askingFloor = `{"ceilings":{"calls":7},"helm":"policy/v1","layer":"P0","name":"acme","version":1,"requires":[{"all":[{"receipt":"fs.list"}],"id":"seen","tools":{"effects":["write"]}}]}`
	askingTask  = `{"for":{"session":"s1"},"helm":"policy/v1","layer":"P2","name":"task","rules":[{"deny":"fs.write","id":"once","when":{"ge":1,"of":"fs.write","session":"calls"}}],` +
		`"requires":[{"any":[{"approval":{"roles":["owner"]}},{"max_age":"5m","receipt":"fs.read","same":["/path"]}],"id":"read","tools":"fs.write"}]}`
)

// layered are calls under all three layers.
func layered(m *maker) {
	m.use(askingFloor, testPolicy(1), askingTask)
	m.add(seedA2, "zoe", registry.Approver, "owner")
	who := contracts.Caller{ID: "ada", Roles: []string{"reader", "writer"}}
	on := func(session, tool, args string, with ...contracts.Envelope) ask {
		return ask{session: session, tool: tool, args: args, who: who, with: contracts.Envelopes{Approvals: with}}
	}
	write := `{"path":"/srv/a"}`
	m.denied(contracts.ReasonMissingRequirement, on("s1", "fs.write", write))
	for _, s := range []string{"s1", "s2", "s3"} {
		m.allowed(on(s, "fs.list", `{}`)).ran(`[]`)
	}
	m.allowed(on("s2", "fs.write", write)).ran(`{"ok":true}`) // whom the overlay does not concern
	asked := m.denied(contracts.ReasonApprovalRequired, on("s1", "fs.write", write))
	m.allowed(on("s1", "fs.write", write, m.approve(seedA2, *asked.why.Pending))).ran(`{"ok":true}`)
	m.denied(contracts.ReasonPolicyViolation, on("s1", "fs.write", write)) // once
	for range 6 {
		m.allowed(on("s3", "fs.read", write)).ran(`{"text":""}`)
	}
	m.denied(contracts.ReasonCeilingViolation, on("s3", "fs.read", write))
	m.denied(contracts.ReasonFailClosedError, on("main", "fs.list", `{}`)) // the session of those who name none
}

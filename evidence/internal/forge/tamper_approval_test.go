package forge

import (
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// request is what h asks a person to sign.
func (m *Model) request() contracts.ApprovalRequest {
	m.Helper()
	e := parseObject(m, m.Blobs[m.The("e1").D()["inputsHash"].(string)])["envelopes"].(Object)["approvals"].([]any)[0]
	sealed, err := new(contracts.Reader).Open(canonical(e))
	require.NoError(m, err)
	a, err := sealed.Approval()
	require.NoError(m, err)
	return a.Request
}

// answer is an approver's yes, so much later than the first one.
func (m *Model) answer(q contracts.ApprovalRequest, seed byte, later contracts.Time) Object {
	m.Helper()
	e, err := contracts.Approval{Request: q, Time: q.NotBefore + later, Verdict: contracts.Allow}.Sign(Key(m, seed))
	require.NoError(m, err)
	return parseObject(m, e)
}

// approvedBy has a call present and count another answer.
func approvedBy(m *Model, n *Node, e Object) {
	n.D()["approvals"] = []any{HexOf(e)}
	m.inputs(n, func(in Object) { in["envelopes"].(Object)["approvals"] = []any{e} })
}

// approver has another key sign the answer that e1 counts, and eu presents again.
func approver(m *Model, seed byte) {
	e := m.answer(m.request(), seed, 0)
	approvedBy(m, m.The("e1"), e)
	m.inputs(m.The("eu"), func(in Object) {
		in["envelopes"].(Object)["approvals"], in["state"].(Object)["used"] = []any{e}, []any{HexOf(e)}
	})
}

// writing appends another ALLOW of fs.write, on the same request as e1, by an answer given so much
// later. Nothing says that it is used.
func writing(m *Model, later contracts.Time) {
	q := m.request()
	c := m.copy(m.The("e1"))
	at, err := contracts.ParseTime(m.The("o").Text("time"))
	require.NoError(m, err)
	require.True(m, at < q.Expires, "the request has expired: that would be refused too")
	c.by = seedK2
	c.P()["time"], c.D()["expires"] = at.String(), (at + 30_000).String()
	m.push(c)
	in := parseObject(m, m.Blobs[c.D()["inputsHash"].(string)])
	in["time"] = at.String()
	c.D()["inputsHash"] = m.blob(canonical(in))
	approvedBy(m, c, m.answer(q, SeedA, later))
	m.retrust()
}

// asked changes the request before it is answered.
func asked(change func(q *contracts.ApprovalRequest)) func(*Model) {
	return func(m *Model) {
		q := m.request()
		change(&q)
		approvedBy(m, m.The("e1"), m.answer(q, SeedA, 0))
	}
}

// said changes what the inputs of eu say is used.
func said(used func(m *Model, was []any) []any) func(*Model) {
	return func(m *Model) {
		m.inputs(m.The("eu"), func(in Object) {
			s := in["state"].(Object)
			s["used"] = used(m, s["used"].([]any))
		})
	}
}

// approvalRows are not in the catalogue: what a person has approved, and what is left of it.
var approvalRows = []tampering{
	{id: "own", name: "approved by an approver who came later", cut: func(m *Model) {
		approver(m, SeedX)
		e := m.adds(SeedX, "approver")
		e["roles"] = []any{"lead"}
		m.govern(e, seedR1, seedR2, seedR4)
	}, want: errReplay},
	{id: "own", name: "approved by the kernel", cut: func(m *Model) { approver(m, SeedK1) }, want: errReplay},
	{id: "own", name: "approved by nobody known", cut: func(m *Model) { approver(m, SeedX) }, want: errReplay},
	{id: "own", name: "approved for another session",
		cut: asked(func(q *contracts.ApprovalRequest) { q.Session = "s2" }), want: errReplay},
	{id: "own", name: "approved for another caller",
		cut: asked(func(q *contracts.ApprovalRequest) { q.Caller = Reader }), want: errReplay},
	{id: "own", name: "approved for other arguments",
		cut: asked(func(q *contracts.ApprovalRequest) { q.ArgsHash[0]++ }), want: errReplay},
	{id: "own", name: "approved for another policy",
		cut: asked(func(q *contracts.ApprovalRequest) { q.PolicyHash[0]++ }), want: errReplay},
	{id: "own", name: "approved for another tool",
		cut: asked(func(q *contracts.ApprovalRequest) { q.Tool = "fs.read" }), want: errReplay},
	{id: "own", name: "approved for another declaration",
		cut: asked(func(q *contracts.ApprovalRequest) { q.SchemaHash[0]++ }), want: errReplay},
	{id: "own", name: "approved for longer than may be", cut: asked(func(q *contracts.ApprovalRequest) { q.Expires++ }),
		want: errReplay},
	{id: "own", name: "approved for later",
		cut:  asked(func(q *contracts.ApprovalRequest) { q.NotBefore += 60_000; q.Expires += 60_000 }),
		want: errReplay},
	{id: "own", name: "approved before",
		cut:  asked(func(q *contracts.ApprovalRequest) { q.NotBefore -= 900_000; q.Expires -= 900_000 }),
		want: errReplay},
	{id: "own", name: "approved by one where two must", cut: asked(func(q *contracts.ApprovalRequest) { q.Quorum = 2 }),
		want: errReplay},
	{id: "own", name: "approved in another role",
		cut: asked(func(q *contracts.ApprovalRequest) { q.Roles = []string{"owner"} }), want: errReplay},
	{id: "own", name: "refused", cut: func(m *Model) {
		q := m.request()
		e, err := contracts.Approval{Request: q, Time: q.NotBefore, Verdict: contracts.Deny}.Sign(Key(m, SeedA))
		require.NoError(m, err)
		approvedBy(m, m.The("e1"), parseObject(m, e))
	}, want: errReplay},
	{id: "own", name: "an approval that is not counted", cut: func(m *Model) { delete(m.The("e1").D(), "approvals") },
		want: errReplay},
	{id: "own", name: "no approval", cut: func(m *Model) {
		e1 := m.The("e1")
		delete(e1.D(), "approvals")
		m.inputs(e1, func(in Object) {
			delete(in, "envelopes")
			delete(in["state"].(Object), "used")
		})
	}, want: errReplay},
	{id: "own", name: "another request is pending", cut: setD("h", "pending", ones64), want: errReplay},
	{id: "own", name: "what is used is not said", cut: said(func(*Model, []any) []any { return []any{} }),
		want: errReplay},
	{id: "own", name: "what is used was not presented",
		cut: said(func(_ *Model, was []any) []any { return append([]any{zeros64}, was...) }), want: errReplay},
	{id: "own", name: "nobody asked what is used", cut: func(m *Model) {
		m.inputs(m.The("eu"), func(in Object) { delete(in["state"].(Object), "used") })
	}, want: errReplay},
	{id: "own", name: "an approval is used that is not", cut: func(m *Model) {
		e1 := m.The("e1")
		m.inputs(e1, func(in Object) { in["state"].(Object)["used"] = e1.D()["approvals"] })
	}, want: errReplay},
	{id: "own", name: "another engine's approval, used twice", cut: func(m *Model) { otherEngine(m); writing(m, 1) },
		want: errReplay},
	{id: "own", name: "another engine's used approval, not presented",
		cut:  both(said(func(_ *Model, was []any) []any { return append([]any{zeros64}, was...) }), otherEngine),
		want: errReplay},
}

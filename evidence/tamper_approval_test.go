package evidence

import "github.com/helmkernel/helm/contracts"

// request is what h asks a person to sign.
func (m *model) request() contracts.ApprovalRequest {
	m.Helper()
	e := parseObject(m, m.blobs[m.the("e1").d()["inputsHash"].(string)])["envelopes"].(object)["approvals"].([]any)[0]
	sealed, err := new(contracts.Reader).Open(canonical(e))
	if err != nil {
		m.Fatal(err)
	}
	a, err := sealed.Approval()
	if err != nil {
		m.Fatal(err)
	}
	return a.Request
}

// answer is an approver's yes, so much later than the first one.
func (m *model) answer(q contracts.ApprovalRequest, seed byte, later contracts.Time) object {
	m.Helper()
	e, err := contracts.Approval{Request: q, Time: q.NotBefore + later, Verdict: contracts.Allow}.Sign(testKey(m, seed))
	m.must(err)
	return parseObject(m, e)
}

// approvedBy has a call present and count another answer.
func approvedBy(m *model, n *node, e object) {
	n.d()["approvals"] = []any{hexOf(e)}
	m.inputs(n, func(in object) { in["envelopes"].(object)["approvals"] = []any{e} })
}

// approver has somebody else give the answer that e1 counts, and eu presents again.
func approver(m *model, seed byte) {
	e := m.answer(m.request(), seed, 0)
	approvedBy(m, m.the("e1"), e)
	m.inputs(m.the("eu"), func(in object) {
		in["envelopes"].(object)["approvals"], in["state"].(object)["used"] = []any{e}, []any{hexOf(e)}
	})
}

// writing appends another ALLOW of fs.write, on the same request as e1, by an answer given so much later. Nothing says that it is used.
func writing(m *model, later contracts.Time) {
	q := m.request()
	c := m.copy(m.the("e1"))
	at, err := contracts.ParseTime(m.the("o").text("time"))
	m.must(err)
	if at >= q.Expires {
		m.Fatal("the request has expired: that would be refused too")
	}
	c.by = seedK2
	c.p()["time"], c.d()["expires"] = at.String(), (at + 30_000).String()
	m.push(c)
	in := parseObject(m, m.blobs[c.d()["inputsHash"].(string)])
	in["time"] = at.String()
	c.d()["inputsHash"] = m.blob(canonical(in))
	approvedBy(m, c, m.answer(q, seedA, later))
	m.retrust()
}

// asked changes the request before it is answered.
func asked(change func(q *contracts.ApprovalRequest)) func(*model) {
	return func(m *model) {
		q := m.request()
		change(&q)
		approvedBy(m, m.the("e1"), m.answer(q, seedA, 0))
	}
}

// said changes what the inputs of eu say is used.
func said(used func(m *model, was []any) []any) func(*model) {
	return func(m *model) {
		m.inputs(m.the("eu"), func(in object) {
			s := in["state"].(object)
			s["used"] = used(m, s["used"].([]any))
		})
	}
}

// approvalRows are not in the catalogue: what a person has approved, and what is left of it.
var approvalRows = []tampering{
	{id: "own", name: "approved by an approver who came later", cut: func(m *model) {
		approver(m, seedX)
		e := m.adds(seedX, "approver")
		e["roles"] = []any{"lead"}
		m.govern(e, seedR1, seedR2, seedR4)
	}, want: ErrReplay},
	{id: "own", name: "approved by the kernel", cut: func(m *model) { approver(m, seedK1) }, want: ErrReplay},
	{id: "own", name: "approved by nobody known", cut: func(m *model) { approver(m, seedX) }, want: ErrReplay},
	{id: "own", name: "approved for another session", cut: asked(func(q *contracts.ApprovalRequest) { q.Session = "s2" }), want: ErrReplay},
	{id: "own", name: "approved for another caller", cut: asked(func(q *contracts.ApprovalRequest) { q.Caller = reader }), want: ErrReplay},
	{id: "own", name: "approved for other arguments", cut: asked(func(q *contracts.ApprovalRequest) { q.ArgsHash[0]++ }), want: ErrReplay},
	{id: "own", name: "approved for another policy", cut: asked(func(q *contracts.ApprovalRequest) { q.PolicyHash[0]++ }), want: ErrReplay},
	{id: "own", name: "approved for another tool", cut: asked(func(q *contracts.ApprovalRequest) { q.Tool = "fs.read" }), want: ErrReplay},
	{id: "own", name: "approved for another declaration", cut: asked(func(q *contracts.ApprovalRequest) { q.SchemaHash[0]++ }), want: ErrReplay},
	{id: "own", name: "approved for longer than may be", cut: asked(func(q *contracts.ApprovalRequest) { q.Expires++ }), want: ErrReplay},
	{id: "own", name: "approved for later", cut: asked(func(q *contracts.ApprovalRequest) { q.NotBefore += 60_000; q.Expires += 60_000 }), want: ErrReplay},
	{id: "own", name: "approved before", cut: asked(func(q *contracts.ApprovalRequest) { q.NotBefore -= 900_000; q.Expires -= 900_000 }), want: ErrReplay},
	{id: "own", name: "approved by one where two must", cut: asked(func(q *contracts.ApprovalRequest) { q.Quorum = 2 }), want: ErrReplay},
	{id: "own", name: "approved in another role", cut: asked(func(q *contracts.ApprovalRequest) { q.Roles = []string{"owner"} }), want: ErrReplay},
	{id: "own", name: "refused", cut: func(m *model) {
		q := m.request()
		e, err := contracts.Approval{Request: q, Time: q.NotBefore, Verdict: contracts.Deny}.Sign(testKey(m, seedA))
		m.must(err)
		approvedBy(m, m.the("e1"), parseObject(m, e))
	}, want: ErrReplay},
	{id: "own", name: "an approval that is not counted", cut: func(m *model) { delete(m.the("e1").d(), "approvals") }, want: ErrReplay},
	{id: "own", name: "no approval", cut: func(m *model) {
		e1 := m.the("e1")
		delete(e1.d(), "approvals")
		m.inputs(e1, func(in object) {
			delete(in, "envelopes")
			delete(in["state"].(object), "used")
		})
	}, want: ErrReplay},
	{id: "own", name: "another request is pending", cut: setD("h", "pending", ones64), want: ErrReplay},
	{id: "own", name: "what is used is not said", cut: said(func(*model, []any) []any { return []any{} }), want: ErrReplay},
	{id: "own", name: "what is used was not presented", cut: said(func(_ *model, was []any) []any { return append([]any{zeros64}, was...) }), want: ErrReplay},
	{id: "own", name: "nobody asked what is used", cut: func(m *model) {
		m.inputs(m.the("eu"), func(in object) { delete(in["state"].(object), "used") })
	}, want: ErrReplay},
	{id: "own", name: "an approval is used that is not", cut: func(m *model) {
		e1 := m.the("e1")
		m.inputs(e1, func(in object) { in["state"].(object)["used"] = e1.d()["approvals"] })
	}, want: ErrReplay},
	{id: "own", name: "another engine's approval, used twice", cut: func(m *model) { otherEngine(m); writing(m, 1) }, want: ErrReplay},
	{id: "own", name: "another engine's approval, for another session", cut: func(m *model) {
		q := m.request()
		q.Session = "s2"
		e := m.answer(q, seedA, 0)
		approvedBy(m, m.the("e1"), e)
		m.inputs(m.the("eu"), func(in object) { // which presents it again
			in["envelopes"].(object)["approvals"], in["state"].(object)["used"] = []any{e}, []any{hexOf(e)}
		})
		otherEngine(m)
	}, want: ErrReplay},
	{id: "own", name: "another engine's used approval, not said", cut: both(said(func(*model, []any) []any { return []any{} }), otherEngine), want: ErrReplay},
	{id: "own", name: "another engine's used approval, not presented", cut: both(said(func(_ *model, was []any) []any { return append([]any{zeros64}, was...) }), otherEngine), want: ErrReplay},
}

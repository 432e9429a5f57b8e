package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// unfreezing, revoking and ending are events.
func unfreezing(m *model) object { return object{"type": "unfreeze", "why": "w"} }

func revoking(seed byte) func(m *model) object {
	return func(m *model) object { return object{"type": "revoke", "id": keyHex(m, seed), "why": "w"} }
}

func ending(delegator string) func(m *model) object {
	return func(m *model) object {
		return object{"type": "undelegate", "delegation": hexSum([]byte("another grant")), "delegator": delegator}
	}
}

func enthroning(threshold int, seeds ...byte) func(m *model) object {
	return func(m *model) object { return m.roots(threshold, seeds...) }
}

// roots hold root keys: R1, R2 and R4 at the end of the base log, of whom two decide. R3 was one.
var roots = []power{
	{oneRoot, true, "freeze the log: nothing is allowed until enough roots unfreeze it", "LOGGED, NONE; kept: FRESH", falsified(governed(freezing, seedR1))},
	{oneRoot, false, "unfreeze it", "INVALID: TRUST", falsified(governed(freezing, seedR1), governed(unfreezing, seedR1))},
	{oneRoot, false, "add a key", "INVALID: TRUST", falsified(governed(adding(seedX, "kernel"), seedR1))},
	{oneRoot, false, "revoke a key", "INVALID: TRUST", falsified(governed(revoking(seedA), seedR1))},
	{oneRoot, false, "end a grant", "INVALID: TRUST", falsified(governed(ending("ada"), seedR1))},
	{oneRoot, false, "replace the roots", "INVALID: TRUST", falsified(governed(enthroning(1, seedR1), seedR1))},
	{oneRoot, false, "sign twice for two", "INVALID: RECORD", falsified(governed(adding(seedX, "kernel"), seedR1, seedR1))},
	{oneRoot, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedR1))},

	{enoughRoots, true, "add kernel and log keys of their own, revoke all others, and so do from then on what their holders can", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m := w.goesOn(len(baseNames), seedK2, 1)
		by := func(e contracts.TrustEvent, adds ...byte) { m.govern(e, adds, seedR1, seedR2) }
		by(contracts.TrustEvent{Type: "key", Name: "mine", Role: "kernel"}, seedK3)
		by(contracts.TrustEvent{Type: "key", Name: "mine", Role: "log"}, seedL2)
		m.logBy = seedL2
		m.open(seedK3, [16]byte{})
		m.revoke(seedK2)
		m.revoke(seedL)
		m.use(permissive)
		m.allowed(aFormat).ran(`1`)
		w.show(m)
	}},
	{enoughRoots, true, "replace all roots, so that nobody else ever changes anything", "LOGGED, NONE; kept: FRESH", falsified(governed(enthroning(1, seedX), seedR1, seedR2, seedX))},
	{enoughRoots, true, "freeze and unfreeze, and end any key and grant", "LOGGED, NONE; kept: FRESH", falsified(governed(freezing, seedR1, seedR2), governed(unfreezing, seedR1, seedR2),
		governed(revoking(seedA), seedR1, seedR2), governed(ending("ada"), seedR1, seedR2))},
	{enoughRoots, false, "record an event alone: a kernel key signs its entry", "INVALID: KEY", falsified(governed(adding(seedX, "kernel"), seedR1, seedR2), func(m *model) { m.nodes[len(m.nodes)-1].by = seedX })},
	{enoughRoots, false, "let a new key sign earlier entries", "INVALID: KEY", falsified(func(m *model) { m.the("a2").by = seedK2 })},
	{enoughRoots, false, "bring a revoked key back", "INVALID: TRUST", falsified(governed(adding(seedK1, "kernel"), seedR1, seedR2))},
	{enoughRoots, false, "leave the log without a kernel key or a log key", "INVALID: TRUST", falsified(governed(revoking(seedK2), seedR1, seedR2))},
	{enoughRoots, false, "use signatures made for another log", "INVALID: TRUST", falsified(governed(func(m *model) object {
		e := m.adds(seedX, "kernel")
		e["origin"] = testOrigin + "2"
		return e
	}, seedR1, seedR2))},

	{oldRoots, true, "with a kernel key and an earlier copy of the log, continue as if they had not been replaced", "LOGGED, NONE; kept: DIVERGED", func(w *theft) {
		m := w.goesOn(indexOf("ro"), seedK2, 5)
		m.govern(contracts.TrustEvent{Type: "key", Name: "mine", Role: "kernel"}, []byte{seedX}, seedR2, seedR3)
		w.show(m)
	}},
	{oldRoots, false, "add a key", "INVALID: TRUST", falsified(governed(adding(seedX, "kernel"), seedR2, seedR3))},
	{oldRoots, false, "freeze", "INVALID: TRUST", falsified(governed(freezing, seedR3))},
	{oldRoots, false, "replace the roots again", "INVALID: TRUST", falsified(governed(enthroning(2, seedR2, seedX), seedR2, seedR3, seedX))},
}

// checked is a policy that goes by the word of an attestor.
const checked = `{"bundle":{"name":"dual","version":1},"helm":"policy/v1","layer":"P1",` +
	`"requires":[{"all":[{"attestation":{"bind":{"amount":"/amount"},"max_age":"1h","type":"dual-control"}}],"id":"checked","tools":["pay"]}],"rules":[{"allow":"pay","id":"all"}],` +
	`"tools":{"pay":{"effect":"write","input":{"properties":{"amount":{"type":"number"}},"required":["amount"],"type":"object"}}}}`

// floor is above every bundle.
const floor = `{"helm":"policy/v1","layer":"P0","name":"acme","profile":{"effects":["read","write"]},"version":1}`

var aPay = ask{session: "since", tool: "pay", args: `{"amount":11}`, who: contracts.Caller{ID: "mallory"}}

// asks makes a call that a person is to approve, and gives the question.
func asks(m *maker, a ask) contracts.ApprovalRequest {
	m.Helper()
	return *m.denied(contracts.ReasonApprovalRequired, a).why.Pending
}

var aWrite = ask{session: "since", tool: "fs.write", args: `{"path":"/srv/a"}`, who: contracts.Caller{ID: "eve", Roles: []string{"writer"}}}

// end is the base log, on which people go on.
func (w *theft) end() *maker {
	w.Helper()
	m := w.copied(len(baseNames), seedK2)
	m.use(basePolicy(5), mailPolicy)
	return m
}

// stale has the guardian judge by the trust state of now, though the log goes on: what the holder of the kernel key can claim.
func stale(m *maker) { m.memory.trust = m.state }

// people hold keys that calls are judged by.
var people = []power{
	{aFreezer, true, "freeze the log, and again whenever it was unfrozen", "LOGGED, NONE; kept: FRESH", falsified(governed(freezing, seedF), governed(unfreezing, seedR1, seedR2), governed(freezing, seedF))},
	{aFreezer, false, "unfreeze it", "INVALID: TRUST", falsified(governed(freezing, seedF), governed(unfreezing, seedF))},
	{aFreezer, false, "add a key", "INVALID: TRUST", falsified(governed(adding(seedX, "freezer"), seedF))},
	{aFreezer, false, "end a grant", "INVALID: TRUST", falsified(governed(ending("on call"), seedF))},
	{aFreezer, false, "approve", "INVALID: REPLAY", falsified(func(m *model) { approver(m, seedF) })},
	{aFreezer, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedF))},

	{anApprover, true, "approve whatever they are asked, their own calls too", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))} // of the key of eve
		m.allowed(a).ran(`{"ok":true}`)
		w.show(m)
	}},
	{anApprover, false, "approve a call other than the one they were asked about", "denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))}
		a.args = `{"path":"/srv/b"}`
		w.refused(m, a)
	}},
	{anApprover, false, "have one approval used twice", "denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))}
		m.allowed(a).ran(`{"ok":true}`)
		w.refused(m, a)
	}},
	{anApprover, false, "have it used after its time", "denied APPROVAL_EXPIRED; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))}
		m.now += 16 * 60_000
		w.refused(m, a)
	}},
	{anApprover, false, "be two people to a quorum", "denied APPROVAL_REQUIRED; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m := w.end()
		m.use(deskPolicy)
		a := ask{session: "since", tool: "pay", args: `{"amount":10}`, who: aWrite.who}
		q := asks(m, a)
		a.with.Approvals = []contracts.Envelope{m.approve(seedA2, q), m.answered(seedA2, q, 1, contracts.Allow)}
		w.refused(m, a)
	}},
	{anApprover, false, "add an approver", "INVALID: TRUST", falsified(governed(adding(seedX, "approver"), seedA))},
	{anApprover, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedA))},

	{anAttestor, true, "attest falsehoods, of every type, for every call that they fit, until they are too old", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m, a := w.end(), aPay
		m.use(checked)
		a.with.Attestations = []contracts.Envelope{m.attest(`{"amount":11}`)}
		m.allowed(a).ran(`1`)
		m.allowed(a).ran(`1`)
		w.show(m)
	}},
	{anAttestor, false, "make an attestation fit a call that it is not about", "denied MISSING_REQUIREMENT; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aPay
		m.use(checked)
		a.with.Attestations = []contracts.Envelope{m.attest(`{"amount":12}`)}
		w.refused(m, a)
	}},
	{anAttestor, false, "approve", "INVALID: REPLAY", falsified(func(m *model) { approver(m, seedB) })},
	{anAttestor, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedB))},

	{aPublisher, true, "allow whatever the tools of their bundle do; the pack has the bundle, and not who signed it", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m := w.end()
		m.use(permissive)
		m.allowed(aFormat).ran(`1`)
		w.show(m)
	}},
	{aPublisher, false, "get past a floor", "denied SIDE_EFFECT_NOT_PERMITTED; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m := w.end()
		m.use(floor, permissive)
		w.refused(m, aFormat)
	}},
	{aPublisher, false, "approve", "INVALID: REPLAY", falsified(func(m *model) { approver(m, seedX) })},

	{aDelegator, true, "lend all their rights to anyone", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m := w.end()
		m.allowed(w.lent(m, "fs.list")).ran(`[]`)
		w.show(m)
	}},
	{aDelegator, true, "end any grant whose digest they know, not only their own", "LOGGED, NONE; kept: FRESH", falsified(governed(ending("ada"), seedD))},
	{aDelegator, false, "lend rights that they do not have", "denied NO_POLICY_DEFINED; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m := w.end()
		a := w.lent(m, "fs.write")
		a.args = `{"path":"/srv/a"}`
		w.refused(m, a)
	}},
	{aDelegator, false, "end a grant in another's name", "INVALID: TRUST", falsified(governed(ending("bob"), seedD))},
	{aDelegator, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedD))},
}

// lent is a call of mallory's under a grant of ada's.
func (w *theft) lent(m *maker, tool string) ask {
	e := m.grant(seedD, "ada", "mallory", 0, nil, tool)
	return ask{session: "since", tool: tool, args: `{}`, who: contracts.Caller{ID: "mallory"}, with: contracts.Envelopes{Delegation: []contracts.Envelope{e}}}
}

// revokeds hold keys that count no more.
var revokeds = []power{
	{aRevoked, true, "of the kernel's, with an earlier copy of the log: show that as the latest", "LOGGED, NONE; kept: STALE", func(w *theft) { w.show(w.goesOn(indexOf("t2"), seedK1, 2)) }},
	{aRevoked, true, "of the kernel's, with such a copy: continue it until it is the longer one", "LOGGED, NONE; kept: DIVERGED", func(w *theft) { w.show(w.goesOn(indexOf("t2"), seedK1, 20)) }},
	{aRevoked, true, "of the kernel's, the same, if auditors keep checkpoints but none from after the copy", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		w.keep(indexOf("t2"))
		w.show(w.goesOn(indexOf("t2"), seedK1, 20))
	}},
	{aRevoked, false, "of the kernel's: sign an entry after its revocation", "INVALID: KEY", falsified(entryOf(seedK1))},
	{aRevoked, false, "of the kernel's: sign a manifest", "INVALID: MANIFEST", falsified(signedAs(seedK1))},
	{aRevoked, false, "of the log's: sign a checkpoint after it", "INTACT, NONE; kept: FRESH", falsified(logRotated)},
	{aRevoked, false, "of a freezer's: freeze", "INVALID: TRUST", falsified(governed(revoking(seedF), seedR1, seedR2), governed(freezing, seedF))},
	{aRevoked, false, "of an approver's: approve", "denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))}
		m.revoke(seedA)
		w.refused(m, a)
	}},
	{aRevoked, false, "of an approver's: approve, if a kernel judges as if the key still counted", "INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aWrite
		a.with.Approvals = []contracts.Envelope{m.approve(seedA, asks(m, a))}
		stale(m)
		m.revoke(seedA)
		m.allowed(a).ran(`{"ok":true}`)
		w.show(m)
	}},
	{aRevoked, false, "of an attestor's: attest", "denied MISSING_REQUIREMENT; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m, a := w.end(), aPay
		m.use(checked)
		a.with.Attestations = []contracts.Envelope{m.attest(`{"amount":11}`)}
		m.revoke(seedB)
		w.refused(m, a)
	}},
	{aRevoked, false, "of a delegator's: lend, or have lent", "denied DELEGATION_INVALID; recorded as allowed INVALID: REPLAY", func(w *theft) {
		m := w.end()
		a := w.lent(m, "fs.list")
		m.revoke(seedD)
		w.refused(m, a)
	}},
	{aRevoked, false, "come back", "INVALID: TRUST", falsified(governed(adding(seedK1, string(registry.Kernel)), seedR1, seedR2))},
}

package forge

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// unfreezing, revoking and ending are events.
func unfreezing(m *Model) Object { return Object{"type": "unfreeze", "why": "w"} }

func revoking(seed byte) func(m *Model) Object {
	return func(m *Model) Object { return Object{"type": "revoke", "id": keyHex(m, seed), "why": "w"} }
}

func ending(delegator string) func(m *Model) Object {
	return func(m *Model) Object {
		return Object{"type": "undelegate", "delegation": HexSum([]byte("another grant")), "delegator": delegator}
	}
}

func enthroning(threshold int, seeds ...byte) func(m *Model) Object {
	return func(m *Model) Object { return m.roots(threshold, seeds...) }
}

// roots hold root keys: R1, R2 and R4 at the end of the base log, of whom two decide. R3 was one.
var roots = []claim{
	{oneRoot, true, "freeze the log: nothing is allowed until enough roots unfreeze it", "LOGGED, NONE; kept: FRESH",
		falsified(governed(freezing, seedR1))},
	{oneRoot, false, "unfreeze it", "INVALID: TRUST", falsified(governed(freezing, seedR1), governed(unfreezing, seedR1))},
	{oneRoot, false, "add a key", "INVALID: TRUST", falsified(governed(adding(SeedX, "kernel"), seedR1))},
	{oneRoot, false, "revoke a key", "INVALID: TRUST", falsified(governed(revoking(SeedA), seedR1))},
	{oneRoot, false, "end a grant", "INVALID: TRUST", falsified(governed(ending("ada"), seedR1))},
	{oneRoot, false, "replace the roots", "INVALID: TRUST", falsified(governed(enthroning(1, seedR1), seedR1))},
	{oneRoot, false, "sign twice for two", "INVALID: RECORD", falsified(governed(adding(SeedX, "kernel"), seedR1, seedR1))},
	{oneRoot, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedR1))},

	{enoughRoots, true,
		"add kernel and log keys of their own, revoke all others, and so do from then on what their holders can",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			m := w.goesOn(len(baseNames), seedK2, 1)
			by := func(e contracts.TrustEvent, adds ...byte) { m.govern(e, adds, seedR1, seedR2) }
			by(contracts.TrustEvent{Type: "key", Name: "mine", Role: "kernel"}, seedK3)
			by(contracts.TrustEvent{Type: "key", Name: "mine", Role: "log"}, seedL2)
			m.logBy = seedL2
			m.open(seedK3, [16]byte{})
			m.Revoke(seedK2)
			m.Revoke(SeedL)
			m.Use(permissive)
			m.Allowed(aFormat).Ran(`1`)
			w.show(m)
		}},
	{enoughRoots, true, "replace all roots, so that nobody else ever changes anything", "LOGGED, NONE; kept: FRESH",
		falsified(governed(enthroning(1, SeedX), seedR1, seedR2, SeedX))},
	{enoughRoots, true, "freeze and unfreeze, and end any key and grant", "LOGGED, NONE; kept: FRESH",
		falsified(governed(freezing, seedR1, seedR2), governed(unfreezing, seedR1, seedR2),
			governed(revoking(SeedA), seedR1, seedR2), governed(ending("ada"), seedR1, seedR2))},
	{enoughRoots, false, "record an event alone: a kernel key signs its entry", "INVALID: KEY",
		falsified(governed(adding(SeedX, "kernel"), seedR1, seedR2),
			func(m *Model) { m.Nodes[len(m.Nodes)-1].by = SeedX })},
	{enoughRoots, false, "let a new key sign earlier entries", "INVALID: KEY",
		falsified(func(m *Model) { m.The("a2").by = seedK2 })},
	{enoughRoots, false, "bring a revoked key back", "INVALID: TRUST",
		falsified(governed(adding(SeedK1, "kernel"), seedR1, seedR2))},
	{enoughRoots, false, "leave the log without a kernel key or a log key", "INVALID: TRUST",
		falsified(governed(revoking(seedK2), seedR1, seedR2))},
	{enoughRoots, false, "use signatures made for another log", "INVALID: TRUST",
		falsified(governed(func(m *Model) Object {
			e := m.adds(SeedX, "kernel")
			e["origin"] = Origin + "2"
			return e
		}, seedR1, seedR2))},

	{oldRoots, true, "with a kernel key and an earlier copy of the log, continue as if they had not been replaced",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) {
			m := w.goesOn(indexOf("ro"), seedK2, 5)
			m.govern(contracts.TrustEvent{Type: "key", Name: "mine", Role: "kernel"}, []byte{SeedX}, seedR2, seedR3)
			w.show(m)
		}},
	{oldRoots, false, "add a key", "INVALID: TRUST", falsified(governed(adding(SeedX, "kernel"), seedR2, seedR3))},
	{oldRoots, false, "freeze", "INVALID: TRUST", falsified(governed(freezing, seedR3))},
	{oldRoots, false, "replace the roots again", "INVALID: TRUST",
		falsified(governed(enthroning(2, seedR2, SeedX), seedR2, seedR3, SeedX))},
}

// checked is a policy that goes by the word of an attestor.
const checked = `{"bundle":{"name":"dual","version":1},"helm":"policy/v1","layer":"P1",` +
	`"requires":[{"all":[{"attestation":{"bind":{"amount":"/amount"},"max_age":"1h","type":"dual-control"}}],` +
	`"id":"checked","tools":["pay"]}],"rules":[{"allow":"pay","id":"all"}],` +
	`"tools":{"pay":{"effect":"write","input":{"properties":{"amount":{"type":"number"}},"required":["amount"],` +
	`"type":"object"}}}}`

// floor is above every bundle.
const floor = `{"helm":"policy/v1","layer":"P0","name":"acme","profile":{"effects":["read","write"]},"version":1}`

var aPay = Ask{Session: "since", Tool: "pay", Args: `{"amount":11}`, Who: contracts.Caller{ID: "mallory"}}

// asks makes a call that a person is to approve, and returns the question.
func asks(m *Maker, a Ask) contracts.ApprovalRequest {
	m.Helper()
	return *m.Denied(contracts.ReasonApprovalRequired, a).Why.Pending
}

var aWrite = Ask{Session: "since", Tool: "fs.write", Args: `{"path":"/srv/a"}`,
	Who: contracts.Caller{ID: "eve", Roles: []string{"writer"}}}

// end is the base log, on which people go on.
func (w *adversary) end() *Maker {
	w.Helper()
	m := w.copied(len(baseNames), seedK2)
	m.Use(BasePolicy(5), MailPolicy)
	return m
}

// stale has the guardian judge by the trust state of now, though the log goes on: what the holder
// of the kernel key can claim.
func stale(m *Maker) { m.Memory.trust = m.state }

// people hold keys that calls are judged by.
var people = []claim{
	{aFreezer, true, "freeze the log, and again whenever it was unfrozen", "LOGGED, NONE; kept: FRESH",
		falsified(governed(freezing, seedF), governed(unfreezing, seedR1, seedR2), governed(freezing, seedF))},
	{aFreezer, false, "unfreeze it", "INVALID: TRUST", falsified(governed(freezing, seedF), governed(unfreezing, seedF))},
	{aFreezer, false, "add a key", "INVALID: TRUST", falsified(governed(adding(SeedX, "freezer"), seedF))},
	{aFreezer, false, "end a grant", "INVALID: TRUST", falsified(governed(ending("on call"), seedF))},
	{aFreezer, false, "approve", "INVALID: REPLAY", falsified(func(m *Model) { approver(m, seedF) })},
	{aFreezer, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedF))},

	{anApprover, true, "approve whatever they are asked, their own calls too", "LOGGED, NONE; kept: FRESH",
		func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))} // of the key of eve
			m.Allowed(a).Ran(`{"ok":true}`)
			w.show(m)
		}},
	{anApprover, false, "approve a call other than the one they were asked about",
		"denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY", func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))}
			a.Args = `{"path":"/srv/b"}`
			w.refused(m, a)
		}},
	{anApprover, false, "have one approval used twice", "denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))}
			m.Allowed(a).Ran(`{"ok":true}`)
			w.refused(m, a)
		}},
	{anApprover, false, "have it used after its time", "denied APPROVAL_EXPIRED; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))}
			m.Now += 16 * 60_000
			w.refused(m, a)
		}},
	{anApprover, false, "be two people to a quorum", "denied APPROVAL_REQUIRED; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m := w.end()
			m.Use(FixturePolicy)
			a := Ask{Session: "since", Tool: "pay", Args: `{"amount":10}`, Who: aWrite.Who}
			q := asks(m, a)
			a.With.Approvals = []contracts.Envelope{m.Approve(seedA2, q), m.answered(seedA2, q, 1, contracts.Allow)}
			w.refused(m, a)
		}},
	{anApprover, false, "add an approver", "INVALID: TRUST", falsified(governed(adding(SeedX, "approver"), SeedA))},
	{anApprover, false, "sign an entry", "INVALID: KEY", falsified(entryOf(SeedA))},

	{anAttestor, true, "attest falsehoods, of every type, for every call that they fit, until they are too old",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			m, a := w.end(), aPay
			m.Use(checked)
			a.With.Attestations = []contracts.Envelope{m.Attest(`{"amount":11}`)}
			m.Allowed(a).Ran(`1`)
			m.Allowed(a).Ran(`1`)
			w.show(m)
		}},
	{anAttestor, false, "make an attestation fit a call that it is not about",
		"denied MISSING_REQUIREMENT; recorded as allowed INVALID: REPLAY", func(w *adversary) {
			m, a := w.end(), aPay
			m.Use(checked)
			a.With.Attestations = []contracts.Envelope{m.Attest(`{"amount":12}`)}
			w.refused(m, a)
		}},
	{anAttestor, false, "approve", "INVALID: REPLAY", falsified(func(m *Model) { approver(m, SeedB) })},
	{anAttestor, false, "sign an entry", "INVALID: KEY", falsified(entryOf(SeedB))},

	{aPublisher, true, "allow whatever the tools of their bundle do; the pack has the bundle, and not who signed it",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			m := w.end()
			m.Use(permissive)
			m.Allowed(aFormat).Ran(`1`)
			w.show(m)
		}},
	{aPublisher, false, "get past a floor", "denied SIDE_EFFECT_NOT_PERMITTED; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m := w.end()
			m.Use(floor, permissive)
			w.refused(m, aFormat)
		}},
	{aPublisher, false, "approve", "INVALID: REPLAY", falsified(func(m *Model) { approver(m, SeedX) })},

	{aDelegator, true, "lend all their rights to anyone", "LOGGED, NONE; kept: FRESH", func(w *adversary) {
		m := w.end()
		m.Allowed(w.lent(m, "fs.list")).Ran(`[]`)
		w.show(m)
	}},
	{aDelegator, true, "end any grant whose digest they know, not only their own", "LOGGED, NONE; kept: FRESH",
		falsified(governed(ending("ada"), SeedD))},
	{aDelegator, false, "lend rights that they do not have",
		"denied NO_POLICY_DEFINED; recorded as allowed INVALID: REPLAY", func(w *adversary) {
			m := w.end()
			a := w.lent(m, "fs.write")
			a.Args = `{"path":"/srv/a"}`
			w.refused(m, a)
		}},
	{aDelegator, false, "end a grant in another's name", "INVALID: TRUST", falsified(governed(ending("bob"), SeedD))},
	{aDelegator, false, "sign an entry", "INVALID: KEY", falsified(entryOf(SeedD))},
}

// lent is a call of mallory's under a grant of ada's.
func (w *adversary) lent(m *Maker, tool string) Ask {
	e := m.grant(SeedD, "ada", "mallory", 0, nil, tool)
	return Ask{Session: "since", Tool: tool, Args: `{}`, Who: contracts.Caller{ID: "mallory"},
		With: contracts.Envelopes{Delegation: []contracts.Envelope{e}}}
}

// revokeds hold keys that count no more.
var revokeds = []claim{
	{aRevoked, true, "of the kernel's, with an earlier copy of the log: show that as the latest",
		"LOGGED, NONE; kept: STALE", func(w *adversary) { w.show(w.goesOn(indexOf("t2"), SeedK1, 2)) }},
	{aRevoked, true, "of the kernel's, with such a copy: continue it until it is the longer one",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) { w.show(w.goesOn(indexOf("t2"), SeedK1, 20)) }},
	{aRevoked, true, "of the kernel's, the same, if auditors keep checkpoints but none from after the copy",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			w.keep(indexOf("t2"))
			w.show(w.goesOn(indexOf("t2"), SeedK1, 20))
		}},
	{aRevoked, false, "of the kernel's: sign an entry after its revocation", "INVALID: KEY", falsified(entryOf(SeedK1))},
	{aRevoked, false, "of the kernel's: sign a manifest", "INVALID: MANIFEST", falsified(signedAs(SeedK1))},
	{aRevoked, false, "of the log's: sign a checkpoint after it", "INTACT, NONE; kept: FRESH", falsified(logRotated)},
	{aRevoked, false, "of a freezer's: freeze", "INVALID: TRUST",
		falsified(governed(revoking(seedF), seedR1, seedR2), governed(freezing, seedF))},
	{aRevoked, false, "of an approver's: approve", "denied APPROVAL_INVALID; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))}
			m.Revoke(SeedA)
			w.refused(m, a)
		}},
	{aRevoked, false, "of an approver's: approve, if a kernel judges as if the key still counted", "INVALID: REPLAY",
		func(w *adversary) {
			m, a := w.end(), aWrite
			a.With.Approvals = []contracts.Envelope{m.Approve(SeedA, asks(m, a))}
			stale(m)
			m.Revoke(SeedA)
			m.Allowed(a).Ran(`{"ok":true}`)
			w.show(m)
		}},
	{aRevoked, false, "of an attestor's: attest", "denied MISSING_REQUIREMENT; recorded as allowed INVALID: REPLAY",
		func(w *adversary) {
			m, a := w.end(), aPay
			m.Use(checked)
			a.With.Attestations = []contracts.Envelope{m.Attest(`{"amount":11}`)}
			m.Revoke(SeedB)
			w.refused(m, a)
		}},
	{aRevoked, false, "of a delegator's: lend, or have lent",
		"denied DELEGATION_INVALID; recorded as allowed INVALID: REPLAY", func(w *adversary) {
			m := w.end()
			a := w.lent(m, "fs.list")
			m.Revoke(SeedD)
			w.refused(m, a)
		}},
	{aRevoked, false, "come back", "INVALID: TRUST",
		falsified(governed(adding(SeedK1, string(registry.Kernel)), seedR1, seedR2))},
}

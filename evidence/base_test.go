package evidence

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// mailPolicy is another bundle of the same stack.
const mailPolicy = `{"bundle":{"name":"mail","version":1},"helm":"policy/v1","layer":"P1","rules":[],"tools":{"mail.send":{"effect":"write","input":{"type":"object"}}}}`

// baseNames are those of the entries of baseLog, in order: receipts follow their decisions but where calls overlap.
var baseNames = strings.Fields("g p a1 a2 d1 b1 f1 f2 b2 b3 x r w1 w2 i1 i2 n1 n2 m2 m1 k j dest none ka t1 h e1 e2 eu t2 p2 y1 y2 u1 u2 z1 sf z2 un ro q o")

// basePolicy is testPolicy, and nothing is written that a person has not approved.
func basePolicy(version int) string {
	return strings.Replace(testPolicy(version), `"rules":[`, `"requires":[{"all":[{"approval":{"roles":["lead"],"ttl":"15m"}}],"id":"written","tools":["fs.write"]}],"rules":[`, 1)
}

// baseLog is the log that the falsifications start from, in which nearly everything is that this version knows.
func baseLog(t testing.TB) *maker {
	t.Helper()
	m := newMaker(t)
	m.use(basePolicy(3), mailPolicy)
	a1 := m.allowed(ask{session: "main", tool: "fs.read", args: `{"path":"/srv/a"}`, who: reader, key: "once"})
	a2 := a1.ran(`{"text":"a?~>"}`)
	m.denied(contracts.ReasonNoPolicyDefined, ask{session: "main", tool: "fs.write", args: `{"path":"/srv/a"}`, who: reader}) // d1
	b1 := m.allowed(ask{session: "s2", tool: "fs.read", args: `{"lines":2,"path":"/srv/b"}`, who: reader, parents: []contracts.Digest{a2}})
	f1 := m.allowed(ask{session: "main", tool: "fs.read", args: `{"path":"/srv/b"}`, who: reader})
	f1.failed(contracts.ReasonToolError)
	b1.ran(`{"text":"b"}`)
	m.denied(contracts.ReasonPolicyViolation, ask{session: "s2", tool: "fs.list", args: `{}`, who: writer}) // b3
	m.close("s2")
	m.denied(contracts.ReasonSessionClosed, ask{session: "@refused", asked: "s2", tool: "fs.read", args: `{"path":"/srv/a"}`, who: reader, refuse: contracts.ReasonSessionClosed}) // r
	w1 := m.allowed(ask{session: "main", tool: "fs.read", args: `{"path":"/srv/c"}`, who: reader})
	w1.end(receipts.Result{Reason: contracts.ReasonContractDrift, Output: []byte(`{"txt":"c"}`), Form: "jcs"}, true)
	i1 := m.allowed(ask{session: "main", tool: "fs.read", args: `{"path":"/srv/d"}`, who: reader})
	i1.failed(contracts.ReasonToolTimeout)
	n1 := m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader})
	n2 := m.allowed(ask{session: "main", tool: "fs.list", args: `{"depth":2}`, who: reader})
	n2.ran(`["x"]`)
	n1.end(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("not JSON"), Form: "raw"}, true)
	m.denied(contracts.ReasonIdempotencyConflict, ask{session: "main", tool: "fs.list", args: `{}`, who: reader, key: "once", refuse: contracts.ReasonIdempotencyConflict})
	m.denied(contracts.ReasonArgsCanonicalization, ask{session: "main", tool: "fs.read", args: `{"path":`, who: reader, raw: true})
	m.denied(contracts.ReasonDestinationNotAllowed, ask{session: "main", tool: "fs.read", args: `{"path":"/etc"}`, who: reader})
	m.denied(contracts.ReasonToolNotFound, ask{session: "main", tool: "fs.format", args: `{}`, who: reader})
	m.add(seedA2, "zoe", registry.Approver, "lead", "owner") // ka
	m.add(seedK2, "kernel 2", registry.Kernel)               // t1
	write := ask{session: "main", tool: "fs.write", args: `{"path":"/srv/a","text":"t"}`, who: writer}
	h := m.denied(contracts.ReasonApprovalRequired, write)
	write.with.Approvals = []contracts.Envelope{m.approve(seedA, *h.why.Pending)}
	write.with.Attestations = []contracts.Envelope{m.attest(`{"amount":1}`)} // which nobody asked for
	m.allowed(write).ran(`{"ok":true}`)                                      // e1
	m.denied(contracts.ReasonApprovalInvalid, write)                         // eu: it is used
	m.revoke(seedK1)                                                         // t2
	m.open(seedK2, [16]byte{})                                               // another process, another key
	m.use(basePolicy(4), mailPolicy)
	box := &contracts.SandboxInfo{Module: crypto.Sum([]byte("wasm")), Profile: "none"}
	s1 := m.allowed(ask{session: "main", tool: "fs.stat", args: `{}`, who: reader, sandbox: box})
	s1.end(receipts.Result{Reason: contracts.ReasonOutputExhausted, Sandbox: &contracts.SandboxUse{Gas: 7, Module: box.Module, Profile: box.Profile}}, false)
	u1 := m.allowed(ask{session: "main", tool: "fs.list", args: `{"depth":3}`, who: reader})
	u1.failed(contracts.ReasonOutcomeUnknown)
	m.freeze()                                                                                                                                   // z1
	m.denied(contracts.ReasonSystemFrozen, ask{session: "main", tool: "fs.list", args: `{}`, who: reader, refuse: contracts.ReasonSystemFrozen}) // sf
	m.unfreeze()
	grant := crypto.Sum([]byte("a grant"))
	m.govern(contracts.TrustEvent{Type: "undelegate", Delegation: &grant, Delegator: "ada"}, nil, seedD) // un
	m.govern(contracts.TrustEvent{Type: "root", Threshold: 2, Keys: []contracts.RootKey{{Name: "root 1", Public: testPublic(t, seedR1)},
		{Name: "root 2", Public: testPublic(t, seedR2)}, {Name: "root 4", Public: testPublic(t, seedR4)}}}, []byte{seedR1, seedR2, seedR4}, seedR1, seedR2, seedR4) // ro
	m.denied(contracts.ReasonIntentMalformed, ask{session: "main", tool: "fs.list", args: `{}`, who: reader, refuse: contracts.ReasonIntentMalformed})
	m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader}) // o
	if n, err := m.store.Size(t.Context()); err != nil || int(n) != len(baseNames) {
		t.Fatalf("%d entries, %d names, %v", n, len(baseNames), err)
	}
	return m
}

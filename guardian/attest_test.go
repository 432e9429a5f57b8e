package guardian

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Whatever is wrong with an attestation, it is none; it is not used up, and those that count are
// listed.
func TestAttestation(t *testing.T) {
	t.Parallel()
	p := mustCompile(t,
		bankText(`{"id":"checked","tools":["pay"],"all":[{"attestation":{"type":"dual-control","max_age":"10m","bind":{"payee":"/to","sum":"/amount"}}}]}`, ``))
	trust := people(t)
	call := inChat(t, "pay", toBob)
	other := crypto.Sum([]byte("other"))
	good := contracts.Attestation{Claims: valueOf(t, `{"more":[1],"payee":"bob","sum":5}`), Time: noon,
		Type: "dual-control"}
	with := func(change func(*contracts.Attestation)) contracts.Envelope {
		a := good
		change(&a)
		return attested(t, "notary", a)
	}
	claims := func(text string) contracts.Envelope {
		return with(func(a *contracts.Attestation) { a.Claims = valueOf(t, text) })
	}
	type attestation = contracts.Attestation
	revoked := after(t, trust, contracts.TrustEvent{Type: "revoke", ID: digestOf(crypto.KeyID(publicOf(t, "notary"))),
		Why: "left"})
	for _, c := range []struct {
		name  string
		trust *registry.State
		e     contracts.Envelope
		want  want
	}{
		{"good", trust, attested(t, "notary", good), allowed},
		{"bound to the call", trust,
			with(func(a *attestation) { a.Args, a.Session, a.Expires = &call.ArgsHash, "chat", noon+1 }), allowed},
		{"just in time", trust, with(func(a *attestation) { a.Time -= 600_000 }), allowed},
		{"a number spelled otherwise", trust, claims(`{"payee":"bob","sum":5.0}`), allowed},
		{"none", trust, nil, missing4("P1:bank:checked")},
		{"too old", trust, with(func(a *attestation) { a.Time -= 600_001 }), missing4("P1:bank:checked")},
		{"in the future", trust, with(func(a *attestation) { a.Time++ }), missing4("P1:bank:checked")},
		{"expired", trust, with(func(a *attestation) { a.Expires = noon }), missing4("P1:bank:checked")},
		{"of another type", trust, with(func(a *attestation) { a.Type = "dual-controls" }),
			missing4("P1:bank:checked")},
		{"of other arguments", trust, with(func(a *attestation) { a.Args = &other }), missing4("P1:bank:checked")},
		{"of another session", trust, with(func(a *attestation) { a.Session = "main" }), missing4("P1:bank:checked")},
		{"of another payee", trust, claims(`{"payee":"eve","sum":5}`), missing4("P1:bank:checked")},
		{"of another sum", trust, claims(`{"payee":"bob","sum":5.01}`), missing4("P1:bank:checked")},
		{"of no sum", trust, claims(`{"payee":"bob"}`), missing4("P1:bank:checked")},
		{"of a null", trust, claims(`{"payee":"bob","sum":null}`), missing4("P1:bank:checked")},
		{"of a text", trust, claims(`{"payee":"bob","sum":"5"}`), missing4("P1:bank:checked")},
		{"of a list", trust, claims(`{"payee":["bob"],"sum":5}`), missing4("P1:bank:checked")},
		{"of nothing", trust, claims(`{}`), missing4("P1:bank:checked")},
		{"by an approver", trust, attested(t, "olga", good), missing4("P1:bank:checked")},
		{"by nobody", trust, attested(t, "stranger", good), missing4("P1:bank:checked")},
		{"by a revoked key", revoked, attested(t, "notary", good), missing4("P1:bank:checked")},
		{"without a trust state", nil, attested(t, "notary", good), missing4("P1:bank:checked")},
		{"an approval", trust,
			approvedBy(t, contracts.ApprovalRequest{Nonce: otherNonce(contracts.ApprovalRequest{}).Nonce, Quorum: 1,
				Session: "chat", Tool: "pay"}, "notary"), missing4("P1:bank:checked")},
	} {
		in := call
		if c.e != nil {
			in.Envelopes.Attestations = []contracts.Envelope{c.e}
		}
		r := c.want.settled(t, c.name, p, in, c.trust, newTold())
		assert.Equal(t, bool(r.Verdict), len(r.Attestations) == 1 && r.Attestations[0] == c.e.Digest(), "%s: lists %v",
			c.name, r.Attestations)
		if c.e != nil && c.trust == trust {
			in.Envelopes.Attestations = []contracts.Envelope{c.e,
				attested(t, "notary", contracts.Attestation{Claims: good.Claims, Time: noon - 1, Type: good.Type})}
			r := allowed.settled(t, c.name+", beside a good one", p, in, c.trust, newTold())
			assert.Equal(t, c.want == allowed, len(r.Attestations) == 2, "%s: lists %v", c.name, r.Attestations)
		}
	}
	in := call
	in.Envelopes.Attestations = []contracts.Envelope{attested(t, "notary", good)}
	past := newTold()
	for range 3 {
		r := allowed.settled(t, "again", p, in, trust, past)
		past.Allow(&r, noon, nil)
	}
	in.Caller.Roles = nil
	r := (want{contracts.ReasonNoPolicyDefined, 5, ""}).settled(t, "denied later", p, in, trust, past)
	assert.Len(t, r.Attestations, 1, "a denial lists")
	in.Envelopes = contracts.Envelopes{Approvals: in.Envelopes.Attestations}
	missing4("P1:bank:checked").settled(t, "as an approval", p, in, trust, past)
}

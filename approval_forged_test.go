package helm_test

import (
	"slices"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Who is no approver for what is asked cannot say yes, whatever he signs.
func TestApprovalForged(t *testing.T) {
	for name, forge := range map[string]func(b *bank, r contracts.ApprovalRequest) contracts.Envelope{
		"by nobody known":             func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, seedMallory) },
		"by an attestor":              func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, seedEve) },
		"by a root":                   func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, seedRoot) },
		"by the kernel":               func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, 1) },
		"by an approver of something": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, seedDan) },
		"by an auditor":               func(b *bank, r contracts.ApprovalRequest) contracts.Envelope { return b.approve(r, seedCid) },
		"for fewer": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope {
			r.Roles = []string{}
			return b.approve(r, seedAnn)
		},
		"for others": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope {
			r.Roles = []string{"cook"}
			return b.approve(r, seedDan)
		},
		"by mallory in ann's name": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope {
			return resigned(b, b.approve(r, seedAnn), seedMallory)
		},
		"an attestation": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope {
			var tree crypto.Tree
			if err := tree.Parse([]byte(`{}`), crypto.Limits{Bytes: 9, Depth: 1}); err != nil {
				b.t.Fatal(err)
			}
			e, err := contracts.Attestation{Args: &r.ArgsHash, Claims: tree.Root(), Time: r.NotBefore, Type: "approval"}.Sign(seedKey(b.t, seedEve))
			if err != nil {
				b.t.Fatal(err)
			}
			return e
		},
		"a receipt": func(b *bank, r contracts.ApprovalRequest) contracts.Envelope {
			_, x := b.do("tell", `{}`)
			b.runs.Store(0)
			return contracts.Envelope(x.Entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			asked := b.ask("pay", rent)
			forged := forge(b, asked)
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(forged))
			b.mustDo("pay", rent, with(forged, b.approve(asked, seedAnn))) // beside a good one it changes nothing
			b.mustPass()
		})
	}
}

// resigned has somebody else's signature under what one said.
func resigned(b *bank, e contracts.Envelope, by byte) contracts.Envelope {
	b.t.Helper()
	var r contracts.Reader
	sealed, err := r.Open(e)
	if err != nil {
		b.t.Fatal(err)
	}
	sig, err := crypto.Sign(seedKey(b.t, by), crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload))
	if err != nil {
		b.t.Fatal(err)
	}
	return crypto.AppendEnvelope(nil, contracts.PayloadType, sealed.Payload, sealed.KeyID, sig)
}

// What is no envelope is left out: it is neither a yes nor an obstacle.
func TestApprovalGarbage(t *testing.T) {
	for name, garbage := range map[string]contracts.Envelope{
		"nothing": {}, "null": contracts.Envelope(`null`), "text": contracts.Envelope(`yes`), "an object": contracts.Envelope(`{}`), "a list": contracts.Envelope(`[]`),
		"a verdict": contracts.Envelope(`{"verdict":"ALLOW"}`),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			d := b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent, with(garbage))
			yes := b.approve(*d.Pending, seedAnn)
			b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent, with(yes[:len(yes)-1]))
			b.mustNotDo(contracts.ReasonApprovalRequired, "pay", rent, with(append(slices.Clone(yes), ' ')))
			b.mustDo("pay", rent, with(garbage, yes, yes, garbage))
			b.mustPass()
		})
	}
}

// No bit of a yes can be another: the call that it is for stays denied.
func TestApprovalFlippedBits(t *testing.T) {
	b := newBank(t)
	yes := b.approve(b.ask("pay", rent), seedAnn)
	denied := 0
	for i := 0; i < 8*len(yes); i += 37 {
		bad := slices.Clone(yes)
		bad[i/8] ^= 1 << (i % 8)
		d, _ := b.do("pay", rent, with(bad))
		if d.Reason != contracts.ReasonApprovalInvalid && d.Reason != contracts.ReasonApprovalRequired || b.runs.Load() != 0 {
			t.Fatalf("bit %d: %s, ran %d times", i, d.Reason, b.runs.Load())
		}
		denied++
	}
	if denied < 100 {
		t.Errorf("%d bits", denied)
	}
	b.mustDo("pay", rent, with(yes))
}

// An approver whose key was revoked approves nothing any more, not even what he signed before.
func TestApprovalOfRevokedKey(t *testing.T) {
	b := newBank(t)
	asked := b.ask("pay", rent)
	yes := b.approve(asked, seedAnn)
	b.govern(b.revoking(seedAnn), seedRoot)
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
	b.mustDo("pay", rent, with(b.approve(asked, seedBob)))
	b.mustAgree(b.mustPass())
}

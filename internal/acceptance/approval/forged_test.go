package approval

import (
	"slices"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Someone who is no approver of a request cannot approve it, whatever they sign.
func TestApprovalForged(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope{
		"by nobody known": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, kerneltest.Mallory)
		},
		"by an attestor": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, kerneltest.Eve)
		},
		"by a root": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, kerneltest.BankRoot)
		},
		"by the kernel": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, 1)
		},
		"by an approver of something": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, kerneltest.Dan)
		},
		"by an auditor": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return b.Approve(r, kerneltest.Cid)
		},
		"for fewer": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			r.Roles = []string{}
			return b.Approve(r, kerneltest.Ann)
		},
		"for others": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			r.Roles = []string{"cook"}
			return b.Approve(r, kerneltest.Dan)
		},
		"by mallory in ann's name": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			return resigned(b, b.Approve(r, kerneltest.Ann), kerneltest.Mallory)
		},
		"an attestation": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			e, err := contracts.Attestation{Args: &r.ArgsHash, Claims: kerneltest.Value(b.T, `{}`), Time: r.NotBefore,
				Type: "approval"}.Sign(kerneltest.SeedKey(b.T, kerneltest.Eve))
			require.NoError(b.T, err)
			return e
		},
		"a receipt": func(b *kerneltest.Bank, r contracts.ApprovalRequest) contracts.Envelope {
			_, x := b.Do("tell", `{}`)
			b.Runs.Store(0)
			return contracts.Envelope(x.Entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			asked := b.AskToPay()
			forged := forge(b, asked)
			b.MustNotPay(contracts.ReasonApprovalInvalid, forged)
			b.MustPay(forged, b.Approve(asked, kerneltest.Ann)) // next to a good one it changes nothing
			b.MustPass()
		})
	}
}

// resigned has the signature of one key under what another key signed.
func resigned(b *kerneltest.Bank, e contracts.Envelope, by byte) contracts.Envelope {
	b.T.Helper()
	var r contracts.Reader
	sealed, err := r.Open(e)
	require.NoError(b.T, err)
	sig, err := crypto.Sign(kerneltest.SeedKey(b.T, by), crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload))
	require.NoError(b.T, err)
	return crypto.AppendEnvelope(nil, contracts.PayloadType, sealed.Payload, sealed.KeyID, sig)
}

// An approval that is no envelope is left out: it neither approves nor prevents.
func TestApprovalGarbage(t *testing.T) {
	t.Parallel()
	for name, garbage := range map[string]contracts.Envelope{
		"nothing": {}, "null": contracts.Envelope(`null`), "text": contracts.Envelope(`yes`),
		"an object": contracts.Envelope(`{}`), "a list": contracts.Envelope(`[]`),
		"a verdict": contracts.Envelope(`{"verdict":"ALLOW"}`),
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			d := b.MustNotPay(contracts.ReasonApprovalRequired, garbage)
			yes := b.Approve(*d.Pending, kerneltest.Ann)
			b.MustNotPay(contracts.ReasonApprovalRequired, yes[:len(yes)-1])
			b.MustNotPay(contracts.ReasonApprovalRequired, append(slices.Clone(yes), ' '))
			b.MustPay(garbage, yes, yes, garbage)
			b.MustPass()
		})
	}
}

// No bit of an approval can be flipped: the call that it is for stays denied.
func TestApprovalFlippedBits(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	yes := b.ApprovedRent(kerneltest.Ann)
	denied := 0
	for i := 0; i < 8*len(yes); i += 37 {
		bad := slices.Clone(yes)
		bad[i/8] ^= 1 << (i % 8)
		d, _ := b.Pay(bad)
		require.False(t, d.Reason != contracts.ReasonApprovalInvalid && d.Reason != contracts.ReasonApprovalRequired,
			"bit %d", i)
		require.Zero(t, b.Runs.Load(), "bit %d", i)
		denied++
	}
	assert.GreaterOrEqual(t, denied, 100, "bits")
	b.MustPay(yes)
}

// An approver whose key was revoked approves nothing, not even by what they signed before.
func TestApprovalOfRevokedKey(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	asked := b.AskToPay()
	yes := b.Approve(asked, kerneltest.Ann)
	b.Govern(b.Revoking(kerneltest.Ann), kerneltest.BankRoot)
	b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
	b.MustPay(b.Approve(asked, kerneltest.Bob))
	b.MustAgree(b.MustPass())
}

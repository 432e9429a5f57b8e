package gates

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// Condition 6: the delegation is valid and covers the call. TestDelegationGuarded has a longer
// table of faults of a chain of grants.

type envelopes = []contracts.Envelope

func gateDelegation() gate {
	links := []contracts.Delegation{{Delegator: "ann", Delegate: "bob", Depth: 1},
		{Delegator: "bob", Delegate: "agent"}}
	stage := func(t *testing.T) *target {
		return newTarget(t, helm.Intent{Tool: "echo", Args: []byte(`{"sum":5,"text":"x"}`), Session: "s",
			Delegation: kerneltest.Chain(t, links...),
			Caller:     helm.Caller{ID: "agent", Tenant: "acme", Roles: []string{"bot"}}},
			[]string{kerneltest.DelegationPolicy}, func(o *helm.Options) { o.Trust = kerneltest.Delegators(t) })
	}
	type reason = contracts.ReasonCode
	under := func(k kind, name string, reason reason, f func(s *target, good envelopes) envelopes) attack {
		return attack{kind: k, name: name, reason: reason,
			change: func(s *target, in *helm.Intent) { in.Delegation = f(s, slices.Clone(in.Delegation)) }}
	}
	granted := func(k kind, name string, reason reason, link int, f func(s *target, g *contracts.Delegation)) attack {
		return under(k, name, reason, func(s *target, _ envelopes) envelopes {
			g := slices.Clone(links)
			f(s, &g[link])
			return kerneltest.Chain(s.T, g...)
		})
	}
	const invalid, outside = contracts.ReasonDelegationInvalid, contracts.ReasonDelegationScopeViolation
	called := func(k kind, name string, f func(in *helm.Intent)) attack {
		return attack{kind: k, name: name, reason: invalid, change: altered(f)}
	}
	return gate{name: "6 the delegation", stage: stage, spared: map[kind]string{
		panicking: "a grant is data; a condition in it that errs is FAIL_CLOSED_ERROR: TestDelegationGuarded",
	}, attacks: []attack{
		under(omitted, "the grants: the rights are the caller's own", contracts.ReasonNoPolicyDefined,
			func(*target, envelopes) envelopes { return nil }),
		under(omitted, "the root's grant", invalid, func(_ *target, good envelopes) envelopes { return good[:1] }),
		under(null, "a grant", contracts.ReasonIntentMalformed,
			func(_ *target, good envelopes) envelopes { return append(good, nil) }),
		under(emptied, "a grant", contracts.ReasonIntentMalformed, func(_ *target, good envelopes) envelopes {
			return []contracts.Envelope{contracts.Envelope(`{}`)}
		}),
		under(retyped, "an approval as a grant", invalid, func(s *target, _ envelopes) envelopes {
			e, err := contracts.ApprovalRequest{Nonce: "000102030405060708090a0b0c0d0e0f", Quorum: 1,
				Roles: []string{"clerk"}, Session: "s", Tool: "echo"}.Approve(kerneltest.NamedKey(s.T, "ann"))
			require.NoError(s.T, err)
			return []contracts.Envelope{e}
		}),
		under(oversize, "seventeen grants", contracts.ReasonIntentMalformed,
			func(_ *target, good envelopes) envelopes { return slices.Repeat(good, 9)[:17] }),
		under(plain, "a flipped bit in a signature", invalid, func(_ *target, good envelopes) envelopes {
			e := bytes.Clone(good[0])
			at := bytes.Index(e, []byte(`"sig":"`)) + 20
			e[at] ^= 'A' ^ 'B'
			if e[at] != 'A' && e[at] != 'B' {
				e[at] = 'A'
			}
			return []contracts.Envelope{e, good[1]}
		}),
		granted(oversize, "passed on more often than it may be", invalid, 0,
			func(_ *target, g *contracts.Delegation) { g.Depth = 0 }),
		granted(replayed, "a grant that has expired", invalid, 1,
			func(_ *target, g *contracts.Delegation) { g.Expires = contracts.TimeOf(kerneltest.Noon) }),
		granted(plain, "a grant that does not hold yet", invalid, 0,
			func(_ *target, g *contracts.Delegation) { g.NotBefore = contracts.TimeOf(kerneltest.Noon) + 1 }),
		{kind: replayed, name: "a chain when its time is over", reason: invalid,
			do: func(s *target, in helm.Intent) answer {
				s.ahead.Store(int64(200 * 365 * 24 * time.Hour))
				return s.guard(in)
			}, ends: true},
		{kind: replayed, name: "a grant that was ended", reason: invalid, do: func(s *target, in helm.Intent) answer {
			s.Governed = true
			s.undelegate(in.Delegation[0], "bob")
			return s.guard(in)
		}, ends: true},
		{kind: raced, name: "a grant that is ended between reading and judgement", reason: invalid,
			do: func(s *target, in helm.Intent) answer {
				s.Governed = true
				return s.between(in, func() { s.undelegate(in.Delegation[1], "ann") })
			}, ends: true},
		called(elsewhere, "another caller's grants", func(in *helm.Intent) { in.Caller.ID = "eve" }),
		called(elsewhere, "the delegator, under their own grant", func(in *helm.Intent) { in.Caller.ID = "ann" }),
		{kind: omitted, name: "the caller", reason: invalid, change: func(s *target, in *helm.Intent) {
			// the tool has no budget: an empty caller could not be charged
			in.Caller, in.Tool, in.Args, in.Driver = helm.Caller{}, "outer", []byte(`{}`), s.World
		}},
		granted(elsewhere, "by a key of another name", invalid, 1,
			func(_ *target, g *contracts.Delegation) { g.Delegator = "carl" }),

		granted(plain, "another tool", outside, 0,
			func(_ *target, g *contracts.Delegation) { g.Only = []string{"outer"} }),
		granted(emptied, "no tool", outside, 1, func(_ *target, g *contracts.Delegation) { g.Only = []string{} }),
		granted(plain, "a condition that is false", outside, 1,
			func(s *target, g *contracts.Delegation) { g.When = kerneltest.Value(s.T, `{"arg":"/sum","lt":5}`) }),
		granted(elsewhere, "a condition of the other caller", outside, 0, func(s *target, g *contracts.Delegation) {
			g.When = kerneltest.Value(s.T, `{"caller":"id","eq":"ann","absent":false}`)
		}),
		granted(omitted, "what a condition wants named", outside, 0, func(s *target, g *contracts.Delegation) {
			g.When = kerneltest.Value(s.T, `{"arg":"/note","eq":"ok","absent":false}`)
		}),
	}}
}

// undelegate ends a grant.
func (s *target) undelegate(e contracts.Envelope, delegator string) {
	digest := e.Digest()
	s.GovernByName(contracts.TrustEvent{Type: "undelegate", Delegation: &digest, Delegator: delegator}, "root")
}

package gates

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Condition 4: the requirements are met: what was done before, what an attestor vouches for, and
// who must approve.

const requiringBundle = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  look: {effect: read, input: {type: object, required: [payee], properties: {payee: {type: string}}}}
  pay:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: number}}}
  give:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: number}}}
rules:
  - {id: all, allow: [look, pay, give]}
requires:
  - {id: looked, tools: [pay, give], all: [{receipt: look, same: {/payee: /to}, max_age: 10m}]}
  - {id: sworn, tools: pay, when: {arg: /amount, gt: 100},
      all: [{attestation: {type: checked, bind: {payee: /to}, max_age: 5m}}]}
  - {id: asked, tools: [pay, give], when: {arg: /amount, gt: 10},
      all: [{approval: {roles: [owner], quorum: 2, ttl: 5m}}]}
`

// asked is a trust state of approvers and an attestor. olga has two keys, and is one person.
func asked(t testing.TB) func(*helm.Options) {
	key := func(seed, name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: kerneltest.NamedPublic(t, seed), Role: role, Roles: roles}
	}
	owner := func(seed, name string) registry.Key { return key(seed, name, registry.Approver, "owner") }
	r, err := registry.New(1, key("root", "root", registry.Root),
		owner("olga", "olga"), owner("olga's other", "olga"), owner("otto", "otto"), owner("pat", "pat"),
		key("carl", "carl", registry.Approver, "clerk"), key("notary", "notary", registry.Attestor))
	require.NoError(t, err)
	return func(o *helm.Options) { o.Trust = r }
}

func gateRequirements() gate {
	const small, middling, large = `{"amount":5,"to":"bob"}`, `{"amount":50,"to":"bob"}`, `{"amount":500,"to":"bob"}`
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "pay", Args: []byte(small), Session: "s",
			Caller: helm.Caller{ID: "ann", Tenant: "acme"}}, []string{requiringBundle}, asked(t))
		s.Governed = true
		s.good.Driver = s.World
		s.admit(func(in *helm.Intent) { in.Tool, in.Args = "look", []byte(`{"payee":"bob"}`) })
		return s
	}
	lacks := func(k kind, name string, f func(s *target, in *helm.Intent)) attack {
		return attack{kind: k, name: "a look: " + name, reason: contracts.ReasonMissingRequirement,
			rule: "P1:bank:looked", change: f}
	}
	unsworn := func(k kind, name string, f func(s *target, in *helm.Intent)) attack {
		return attack{kind: k, name: "an attestation: " + name, reason: contracts.ReasonMissingRequirement,
			rule: "P1:bank:sworn", change: func(s *target, in *helm.Intent) {
				in.Args = []byte(large)
				f(s, in)
			}}
	}
	attests := func(k kind, name string, signer string, f func(s *target, a *contracts.Attestation)) attack {
		return unsworn(k, name, func(s *target, in *helm.Intent) {
			a := checked(s)
			f(s, &a)
			in.Attestations = []contracts.Envelope{s.sealed(a.Sign(kerneltest.NamedKey(s.T, signer)))}
		})
	}
	// of makes a call that was denied and left a request, after f has answered that.
	type answering = func(s *target, q contracts.ApprovalRequest, in *helm.Intent)
	of := func(k kind, name string, reason contracts.ReasonCode, f answering) attack {
		return attack{kind: k, name: "an approval: " + name, reason: reason, rule: "P1:bank:asked",
			change: func(s *target, in *helm.Intent) {
				in.Args = []byte(middling)
				f(s, s.pending(*in), in)
			}}
	}
	misused := func(k kind, name string, f func(in *helm.Intent)) attack {
		return of(k, name, contracts.ReasonApprovalInvalid,
			func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
				in.Approvals = s.approved(q, "olga", "otto")
				f(in)
			})
	}
	const (
		required = contracts.ReasonApprovalRequired
		refused  = contracts.ReasonApprovalRefused
		invalid  = contracts.ReasonApprovalInvalid
		expired  = contracts.ReasonApprovalExpired
	)
	other := func(k kind, name string, f func(q *contracts.ApprovalRequest)) attack {
		return of(k, name, invalid, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			f(&q)
			in.Approvals = s.approved(q, "olga", "otto")
		})
	}
	later := strings.Replace(requiringBundle, "version: 1", "version: 2", 1)
	return gate{name: "4 the requirements", stage: stage, spared: map[kind]string{
		panicking: "receipts, attestations and approvals are data: nothing of theirs is called",
	}, attacks: []attack{
		lacks(omitted, "none in this session", altered(kerneltest.InSession("fresh"))),
		lacks(plain, "for somebody else", arguments(`{"amount":5,"to":"eve"}`)),
		lacks(emptied, "for nobody", arguments(`{"amount":5,"to":""}`)),
		{kind: replayed, name: "a look: too long ago", reason: contracts.ReasonMissingRequirement,
			rule: "P1:bank:looked", do: func(s *target, in helm.Intent) answer {
				s.ahead.Store(int64(10*time.Minute + time.Millisecond))
				return s.guard(in)
			}, ends: true},
		lacks(elsewhere, "in another session", func(s *target, in *helm.Intent) {
			s.admit(func(in *helm.Intent) {
				in.Tool, in.Args, in.Session = "look", []byte(`{"payee":"eve"}`), "another"
			})
			in.Args = []byte(`{"amount":5,"to":"eve"}`)
		}),
		lacks(plain, "that failed", func(s *target, in *helm.Intent) {
			look := s.good
			look.Tool, look.Args, look.Driver = "look", []byte(`{"payee":"eve"}`),
				doing{s.World, kerneltest.NoOutput(kerneltest.ErrTool)}
			assert.ErrorIs(s.T, s.guard(look).d.Err(), kerneltest.ErrTool)
			assert.EqualValues(s.T, 1, s.Runs.Swap(0))
			in.Args = []byte(`{"amount":5,"to":"eve"}`)
		}),
		{kind: omitted, name: "a look: no session at all", reason: contracts.ReasonFailClosedError,
			change: altered(kerneltest.InSession(""))},

		unsworn(omitted, "none", func(*target, *helm.Intent) {}),
		unsworn(null, "null",
			func(_ *target, in *helm.Intent) { in.Attestations = []contracts.Envelope{contracts.Envelope("null")} }),
		unsworn(emptied, "{}",
			func(_ *target, in *helm.Intent) { in.Attestations = []contracts.Envelope{contracts.Envelope("{}")} }),
		unsworn(retyped, "an approval", func(s *target, in *helm.Intent) {
			q := *in
			q.Args = []byte(middling)
			in.Attestations = s.approved(s.pending(q), "olga", "otto")
		}),
		attests(plain, "of something else", "notary", func(_ *target, a *contracts.Attestation) { a.Type = "seen" }),
		attests(plain, "for somebody else", "notary",
			func(s *target, a *contracts.Attestation) { claim(s, a, `{"payee":"eve"}`) }),
		attests(omitted, "that claims nothing", "notary",
			func(s *target, a *contracts.Attestation) { claim(s, a, `{}`) }),
		attests(null, "that claims null", "notary",
			func(s *target, a *contracts.Attestation) { claim(s, a, `{"payee":null}`) }),
		attests(retyped, "that claims a list", "notary",
			func(s *target, a *contracts.Attestation) { claim(s, a, `{"payee":["bob"]}`) }),
		attests(plain, "of other arguments", "notary",
			func(s *target, a *contracts.Attestation) { h := crypto.Sum([]byte(small)); a.Args = &h }),
		attests(elsewhere, "for another session", "notary",
			func(_ *target, a *contracts.Attestation) { a.Session = "another" }),
		attests(replayed, "too long ago", "notary", func(_ *target, a *contracts.Attestation) {
			a.Time = contracts.TimeOf(kerneltest.Noon.Add(-5*time.Minute - 1e6))
		}),
		attests(plain, "of the future", "notary", func(_ *target, a *contracts.Attestation) { a.Time++ }),
		attests(replayed, "that has expired", "notary",
			func(_ *target, a *contracts.Attestation) { a.Expires = contracts.TimeOf(kerneltest.Noon) }),
		attests(plain, "by one who approves", "olga", func(*target, *contracts.Attestation) {}),
		attests(plain, "by nobody who is known", "eve", func(*target, *contracts.Attestation) {}),
		{kind: raced, name: "an attestation: its key is revoked between reading and judgement",
			reason: contracts.ReasonMissingRequirement, rule: "P1:bank:sworn",
			do: func(s *target, in helm.Intent) answer {
				a := checked(s)
				in.Args, in.Attestations = []byte(large),
					[]contracts.Envelope{s.sealed(a.Sign(kerneltest.NamedKey(s.T, "notary")))}
				in.Approvals = s.approved(s.pending(in), "olga", "otto")
				id := crypto.KeyID(kerneltest.NamedPublic(s.T, "notary"))
				return s.between(in, func() { s.GovernByName(contracts.TrustEvent{Type: "revoke", ID: &id}, "root") })
			}},

		of(omitted, "none", required, func(*target, contracts.ApprovalRequest, *helm.Intent) {}),
		of(null, "null", required, func(_ *target, _ contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = []contracts.Envelope{nil}
		}),
		of(emptied, "{}", required, func(_ *target, _ contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = []contracts.Envelope{contracts.Envelope("{}")}
		}),
		of(plain, "one of two", required,
			func(s *target, q contracts.ApprovalRequest, in *helm.Intent) { in.Approvals = s.approved(q, "olga") }),
		of(replayed, "the same one twice", required, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = slices.Repeat(s.approved(q, "olga"), 2)
		}),
		of(plain, "two keys of one person", required, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = s.approved(q, "olga", "olga's other")
		}),
		of(retyped, "an attestation", invalid, func(s *target, _ contracts.ApprovalRequest, in *helm.Intent) {
			a := checked(s)
			in.Approvals = []contracts.Envelope{s.sealed(a.Sign(kerneltest.NamedKey(s.T, "olga")))}
		}),
		of(plain, "by one of another role", invalid, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = s.approved(q, "olga", "carl")
		}),
		of(plain, "by nobody who is known", invalid, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = s.approved(q, "olga", "eve")
		}),
		of(plain, "a refusal", refused, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = append(s.approved(q, "olga"), s.sealed(q.Refuse(kerneltest.NamedKey(s.T, "otto"))))
		}),
		of(plain, "a refusal next to enough approvals", refused,
			func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
				in.Approvals = append(s.approved(q, "olga", "pat"),
					s.sealed(q.Refuse(kerneltest.NamedKey(s.T, "otto"))))
			}),
		of(plain, "a flipped bit", invalid, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = s.approved(q, "olga", "otto")
			e := bytes.Clone(in.Approvals[1])
			at := bytes.Index(e, []byte(`"sig":"`)) + 20
			e[at] = map[bool]byte{true: 'B', false: 'A'}[e[at] == 'A']
			in.Approvals[1] = e
		}),
		misused(plain, "other arguments", func(in *helm.Intent) { in.Args = []byte(`{"amount":51,"to":"bob"}`) }),
		misused(elsewhere, "another tool", func(in *helm.Intent) { in.Tool = "give" }),
		of(elsewhere, "another session", invalid, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			s.admit(func(in *helm.Intent) {
				in.Tool, in.Args, in.Session = "look", []byte(`{"payee":"bob"}`), "another"
			})
			in.Approvals, in.Session = s.approved(q, "olga", "otto"), "another"
		}),
		misused(elsewhere, "another caller", func(in *helm.Intent) { in.Caller.ID = "eve" }),
		misused(elsewhere, "another tenant", func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }),
		misused(elsewhere, "a role more", func(in *helm.Intent) { in.Caller.Roles = []string{"owner"} }),
		other(plain, "of a request for fewer people", func(q *contracts.ApprovalRequest) { q.Quorum = 1 }),
		other(plain, "of a request to other roles",
			func(q *contracts.ApprovalRequest) { q.Roles = []string{"clerk", "owner"} }),
		other(plain, "of a request for other arguments",
			func(q *contracts.ApprovalRequest) { q.ArgsHash = crypto.Sum([]byte(small)) }),
		other(plain, "of a request under another declaration",
			func(q *contracts.ApprovalRequest) { q.SchemaHash = crypto.Sum(nil) }),
		other(plain, "of a request under another policy",
			func(q *contracts.ApprovalRequest) { q.PolicyHash = crypto.Sum(nil) }),
		other(oversize, "of a request for longer than may be", func(q *contracts.ApprovalRequest) { q.Expires++ }),
		{kind: elsewhere, name: "an approval: by a narrowed kernel, whose policy is another", reason: invalid,
			rule: "P1:bank:asked", do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(middling)
				in.Approvals = s.approved(s.pending(in), "olga", "otto")
				return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nonly: [look, pay]\n"), in)
			}},
		{kind: raced, name: "an approval: a swap between reading and judgement", reason: invalid, rule: "P1:bank:asked",
			do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(middling)
				in.Approvals = s.approved(s.pending(in), "olga", "otto")
				return s.between(in, func() { s.swapTo(later) })
			}, ends: true},
		{kind: replayed, name: "an approval: used", reason: invalid, rule: "P1:bank:asked",
			do: func(s *target, in helm.Intent) answer {
				return s.spent(in, middling, func() {})
			}},
		{kind: replayed, name: "an approval: used before a restart", reason: invalid, rule: "P1:bank:asked",
			do: func(s *target, in helm.Intent) answer {
				return s.spent(in, middling, s.Reopen)
			}},
		{kind: raced, name: "an approval: used by ten at once", reason: invalid, rule: "P1:bank:asked",
			do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(middling)
				in.Approvals = s.approved(s.pending(in), "olga", "otto")
				return s.race(in, 10, 1, func(int, *helm.Intent) {})
			}},
		of(replayed, "when its time is over", expired, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			in.Approvals = s.approved(q, "olga", "otto")
			s.ahead.Store(int64(5 * time.Minute))
		}),
		of(plain, "before its time", expired, func(s *target, q contracts.ApprovalRequest, in *helm.Intent) {
			q.NotBefore++
			in.Approvals = s.approved(q, "olga", "otto")
		}),
	}}
}

// checked is an attestation that the payee was checked.
func checked(s *target) contracts.Attestation {
	a := contracts.Attestation{Type: "checked", Time: contracts.TimeOf(kerneltest.Noon)}
	claim(s, &a, `{"payee":"bob"}`)
	return a
}

func claim(s *target, a *contracts.Attestation, text string) { a.Claims = kerneltest.Value(s.T, text) }

// pending returns what an approver must sign for the call.
func (s *target) pending(in helm.Intent) contracts.ApprovalRequest {
	s.T.Helper()
	a := s.guard(in)
	s.MustBe(a.d, a.r, kerneltest.Denied(contracts.ReasonApprovalRequired))
	require.NotNil(s.T, a.d.Pending)
	require.NotNil(s.T, a.d.Record.Pending)
	require.Equal(s.T, *a.d.Record.Pending, a.d.Pending.Digest())
	return *a.d.Pending
}

// approved returns the approvals of a request.
func (s *target) approved(q contracts.ApprovalRequest, by ...string) (list []contracts.Envelope) {
	s.T.Helper()
	for _, name := range by {
		list = append(list, s.sealed(q.Approve(kerneltest.NamedKey(s.T, name))))
	}
	return list
}

func (s *target) sealed(e contracts.Envelope, err error) contracts.Envelope {
	s.T.Helper()
	require.NoError(s.T, err)
	return e
}

// spent makes a call that two have approved, which runs, and makes it again after then.
func (s *target) spent(in helm.Intent, args string, then func()) answer {
	s.T.Helper()
	in.Args = []byte(args)
	in.Approvals = s.approved(s.pending(in), "olga", "otto")
	s.admit(func(x *helm.Intent) { *x = in })
	then()
	return s.guard(in)
}

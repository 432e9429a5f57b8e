package gates

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/stretchr/testify/assert"
)

// Condition 5: the bundle's rules and every overlay that is for the call authorise the caller.

const ruleBundle = `
helm: policy/v1
layer: P1
bundle: {name: office, version: 1}
expires: "2026-07-20T00:00:00Z"
tools:
  send:
    effect: write
    input: {type: object, properties: {to: {type: string}, text: {type: string}, n: {type: number, default: 1}}}
  list: {effect: read, input: {type: object}}
rules:
  - {id: secrets, deny: send, when: {arg: /text, finds: secret, absent: false}}
  - {id: unnamed, deny: send, when: {arg: /to, exists: false}}
  - id: staff
    allow: [send, list]
    when: {all: [{caller: roles, has: staff}, {caller: tenant, eq: acme, absent: false}]}
`

const ruleTask = `
helm: policy/v1
layer: P2
name: task
expires: "2026-07-16T00:00:00Z"
for: {tenant: acme}
only: [send]
rules:
  - {id: bob, deny: send, unless: {arg: /to, eq: bob, absent: false}}
  - {id: few, deny: send, when: {arg: /n, gt: 5}}
`

func gateRules() gate {
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "send", Args: []byte(`{"to":"bob"}`), Session: "s",
			Caller: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"staff"}}},
			[]string{ruleBundle})
		s.good.Driver = s.World
		return s
	}
	nobody := func(k kind, name string, f func(in *helm.Intent)) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonNoPolicyDefined, change: altered(f)}
	}
	rule := func(k kind, name, rule, text string) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonPolicyViolation, rule: "P1:office:" + rule,
			change: arguments(text)}
	}
	task := func(k kind, name, rule string, f func(s *target, in *helm.Intent)) attack {
		return attack{kind: k, name: "a task: " + name, reason: contracts.ReasonPolicyViolation,
			rule: "P2:task:" + rule, do: func(s *target, in helm.Intent) answer {
				n := s.task(ruleTask)
				assert.NoError(s.T, by(n, in).d.Err(), "the task's own call")
				assert.EqualValues(s.T, 1, s.Runs.Swap(0))
				f(s, &in)
				return by(n, in)
			}}
	}
	barred := strings.NewReplacer("version: 1", "version: 2", "has: staff", "has: owner").Replace(ruleBundle)
	denied := strings.NewReplacer("version: 1", "version: 2", "exists: false",
		"eq: bob, absent: true").Replace(ruleBundle)
	return gate{name: "5 the rules", stage: stage, spared: map[kind]string{
		oversize:  "a caller outside the limits is INTENT_MALFORMED, and arguments are SCHEMA_VIOLATION",
		retyped:   "arguments of another type are SCHEMA_VIOLATION, and a caller has one type",
		panicking: "a rule has nothing that could panic; one that errs is FAIL_CLOSED_ERROR: see gateErrors",
	}, attacks: []attack{
		nobody(omitted, "the caller", func(in *helm.Intent) { in.Caller = helm.Caller{} }),
		nobody(omitted, "the tenant", func(in *helm.Intent) { in.Caller.Tenant = "" }),
		nobody(emptied, "the roles", func(in *helm.Intent) { in.Caller.Roles = []string{} }),
		nobody(null, "the roles", func(in *helm.Intent) { in.Caller.Roles = nil }),
		nobody(plain, "a role in other letters", func(in *helm.Intent) { in.Caller.Roles = []string{"Staff"} }),
		nobody(plain, "a role with a blank", func(in *helm.Intent) { in.Caller.Roles = []string{" staff"} }),
		nobody(plain, "many roles but that one",
			func(in *helm.Intent) { in.Caller.Roles = []string{"admin", "owner", "root", "*"} }),
		nobody(elsewhere, "a caller of another tenant", func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }),
		{kind: replayed, name: "a call that the next version of the bundle allows nobody of these roles",
			reason: contracts.ReasonNoPolicyDefined, do: func(s *target, in helm.Intent) answer {
				s.swapTo(barred)
				return s.guard(in)
			}, ends: true},
		{kind: raced, name: "a swap between reading and judgement", reason: contracts.ReasonNoPolicyDefined,
			do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(barred) })
			}, ends: true},

		rule(plain, "what a rule denies", "secrets", `{"to":"bob","text":"a secret"}`),
		rule(plain, "the same in an escape", "secrets", `{"to":"bob","text":"a s\u0065cret"}`),
		rule(omitted, "what a rule wants named", "unnamed", `{"text":"hi"}`),
		{kind: raced, name: "a denial by the bundle that is swapped in", reason: contracts.ReasonPolicyViolation,
			rule: "P1:office:unnamed", do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(denied) })
			}, ends: true},
		{name: "a bundle that has expired", reason: contracts.ReasonPolicyViolation, rule: "P1:office:expires",
			do: func(s *target, in helm.Intent) answer {
				s.ahead.Store(int64(5 * 24 * time.Hour))
				return s.guard(in)
			}, ends: true},

		task(plain, "a rule of it", "few", arguments(`{"to":"bob","n":6}`)),
		task(omitted, "what it wants named", "bob", arguments(`{"to":"eve"}`)),
		task(plain, "a tool that it leaves out", "only",
			func(s *target, in *helm.Intent) { in.Tool, in.Args = "list", []byte(`{}`) }),
		task(elsewhere, "another session and caller of the tenant", "few", func(s *target, in *helm.Intent) {
			in.Session, in.Caller.ID, in.Args = "another", "bob", []byte(`{"to":"bob","n":6}`)
		}),
		task(replayed, "its end has come", "expires",
			func(s *target, in *helm.Intent) { s.ahead.Store(int64(13 * time.Hour)) }),
		{kind: elsewhere, name: "a task: the wider kernel, from its context", reason: contracts.ReasonPolicyViolation,
			rule: "P2:task:few", do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(`{"to":"bob","n":6}`)
				return answered(s.Kernel.Guard(s.task(ruleTask).Context(context.Background()), in))
			}},
		{kind: elsewhere, name: "a task: its kernel, from the context of the wider one",
			reason: contracts.ReasonPolicyViolation, rule: "P2:task:few", do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(`{"to":"bob","n":6}`)
				return answered(s.task(ruleTask).Guard(s.Kernel.Context(context.Background()), in))
			}},
	}}
}

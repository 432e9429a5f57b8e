package gates

import (
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// Condition 8: the floors hold, whatever a bundle says.

const floorBundle = `
helm: policy/v1
layer: P1
bundle: {name: office, version: 1}
tools:
  send:
    effect: write
    input: {type: object, properties: {to: {type: string}, ok: {type: boolean}, n: {type: number, default: 1}}}
  sign: {effect: write, risk: high, input: {type: object}}
  list: {effect: read, input: {type: object}}
rules:
  - {id: all, allow: [send, sign, list]}
`

const floorText = `
helm: policy/v1
layer: P0
name: acme
version: 1
expires: "2026-07-20T00:00:00Z"
ceilings: {risk: medium}
lists: {planets: [mars, venus]}
rules:
  - {id: planets, deny: send, when: {arg: /to, in: {list: planets}, absent: false}}
  - {id: asked, deny: {effects: [write]}, when: {caller: roles, has: guest}}
  - {id: agreed, deny: send, unless: {arg: /ok, eq: true, absent: false}}
  - {id: ours, deny: send, unless: {caller: tenant, eq: acme, absent: false}}
  - {id: day, deny: send, unless: {time: utc, in: ["Mon-Fri 08:00-18:00"]}}
only: [send, sign]
`

func gateFloors() gate {
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "send", Args: []byte(`{"to":"earth","ok":true}`), Session: "s",
			Caller: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"staff"}}},
			[]string{floorBundle, floorText})
		s.good.Driver = s.World
		return s
	}
	ceiling := func(k kind, name, rule string, f func(in *helm.Intent)) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonCeilingViolation, rule: "P0:acme:" + rule,
			change: altered(f)}
	}
	late := func(rule string, ahead time.Duration) attack {
		return attack{kind: replayed, name: "a call when the time has come: " + rule,
			reason: contracts.ReasonCeilingViolation, rule: "P0:acme:" + rule,
			do: func(s *target, in helm.Intent) answer {
				s.ahead.Store(int64(ahead))
				return s.guard(in)
			}, ends: true}
	}
	stricter := strings.NewReplacer("version: 1", "version: 2", "[mars, venus]",
		"[mars, venus, earth]").Replace(floorText)
	return gate{name: "8 the floors", stage: stage, spared: map[kind]string{
		null:      "arguments that are null are SCHEMA_VIOLATION",
		retyped:   "arguments of another type are SCHEMA_VIOLATION",
		oversize:  "arguments over ceilings.args or ceilings.depth are SCHEMA_VIOLATION",
		panicking: "a rule has nothing that could panic; one that errs is FAIL_CLOSED_ERROR: see gateErrors",
	}, attacks: []attack{
		ceiling(plain, "what a rule denies", "planets", kerneltest.WithArgs(`{"to":"mars","ok":true}`)),
		ceiling(plain, "a tool of too much risk", "ceilings",
			func(in *helm.Intent) { in.Tool, in.Args = "sign", []byte(`{}`) }),
		ceiling(plain, "a tool that is not permitted", "only",
			func(in *helm.Intent) { in.Tool, in.Args = "list", []byte(`{}`) }),
		ceiling(plain, "a role too many", "asked",
			func(in *helm.Intent) { in.Caller.Roles = []string{"guest", "staff"} }),
		ceiling(omitted, "an agreement", "agreed", kerneltest.WithArgs(`{"to":"earth"}`)),
		ceiling(omitted, "the tenant", "ours", func(in *helm.Intent) { in.Caller.Tenant = "" }),
		ceiling(emptied, "the caller", "ours", func(in *helm.Intent) { in.Caller = helm.Caller{} }),
		ceiling(elsewhere, "a caller of another tenant", "ours",
			func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }),
		late("day", 6*time.Hour),
		late("expires", 4*24*time.Hour+23*time.Hour),
		{kind: elsewhere, name: "what a task would let pass", reason: contracts.ReasonCeilingViolation,
			rule: "P0:acme:planets", do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(`{"to":"mars","ok":true}`)
				return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nrules: [{id: mars, deny: send, unless: "+
					"{arg: /to, eq: mars, absent: false}}]\n"), in)
			}},
		{kind: replayed, name: "a call that the next version of the floor denies",
			reason: contracts.ReasonCeilingViolation, rule: "P0:acme:planets",
			do: func(s *target, in helm.Intent) answer {
				s.swapTo(floorBundle, stricter)
				return s.guard(in)
			}, ends: true},
		{kind: raced, name: "a swap between reading and judgement", reason: contracts.ReasonCeilingViolation,
			rule: "P0:acme:planets", do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(floorBundle, stricter) })
			}, ends: true},
	}}
}

package gates

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// Condition 7: no argument has a shape that no honest argument has.

const signalBundle = `
helm: policy/v1
layer: P1
bundle: {name: post, version: 1}
tools:
  send:
    effect: write
    input:
      type: object
      properties: {text: {type: string}, key: {type: string}, more: {type: object, additionalProperties: {type: string}}}
    threat: {deny: medium, except: [{arg: /key, signals: [control]}]}
rules:
  - {id: all, allow: [send]}
`

func gateSignals() gate {
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "send", Args: []byte(`{"text":"a plain word","key":"\u0001"}`), Session: "s",
			Caller: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"staff"}}}, []string{signalBundle})
		s.good.Driver = s.World
		return s
	}
	signal := func(k kind, name, args string) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonThreatSignalDetected,
			change: altered(kerneltest.WithArgs(args))}
	}
	const hidden = `\udb40\udc41`
	stricter := strings.NewReplacer("version: 1", "version: 2", "deny: medium, except: [{arg: /key, signals: [control]}]",
		"deny: medium").Replace(signalBundle)
	return gate{name: "7 the threat signals", stage: stage, spared: map[kind]string{
		null:      "an argument that is null has no shape",
		panicking: "a scan has nothing that could panic",
	}, attacks: []attack{
		signal(plain, "a hidden letter", `{"text":"a`+hidden+`"}`),
		signal(plain, "a control character, which another argument may have", `{"text":"\u0001"}`),
		signal(plain, "another signal in what is excepted", `{"key":"`+hidden+`"}`),
		signal(plain, "in a key", `{"more":{"a`+hidden+`":""}}`),
		signal(omitted, "all but the signal", `{"more":{"a":"`+hidden+`"}}`),
		signal(emptied, "all but the signal", `{"text":"`+hidden+`","key":"","more":{}}`),
		signal(retyped, "a NUL, which ends texts elsewhere", `{"text":"plain\u0000"}`),
		signal(oversize, "behind half a mebibyte", `{"text":"`+strings.Repeat("plain ", 90_000)+hidden+`"}`),
		{kind: replayed, name: "a call that the next version of the bundle denies",
			reason: contracts.ReasonThreatSignalDetected, do: func(s *target, in helm.Intent) answer {
				s.swapTo(stricter)
				return s.guard(in)
			}, ends: true},
		{kind: raced, name: "a swap between reading and judgement", reason: contracts.ReasonThreatSignalDetected,
			do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(stricter) })
			}, ends: true},
		{kind: elsewhere, name: "what a task would let pass", reason: contracts.ReasonThreatSignalDetected,
			do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(`{"text":"` + hidden + `"}`)
				return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nonly: [send]\n"), in)
			}},
	}}
}

package main

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

var helmProbes = map[string]string{
	"limit":    `{arg: /amount, gt: 1000}`,
	"fraction": `{arg: /amount, gt: 999.5}`,
	"network":  `{arg: /addr, cidr: 10.0.0.0/8}`,
	"unknown":  `{arg: /amount, exceeds: 1000}`,
	"misspelt": `{arg: /amuont, gt: 1000}`,
}

const helmProbe = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  pay.send:
    effect: write
    input: {type: object, required: [$REQUIRED], properties: {$ARG}}
rules:
  - {id: deny, deny: pay.send, when: $RULE}
  - {id: clerks, allow: pay.send, when: {caller: roles, has: clerk}}
`

func helmProber(rule string, optional bool) (func([]byte) answer, error) {
	required, arg := "amount", "amount: {type: number}"
	if rule == "network" {
		required, arg = "addr", "addr: {type: string}"
	}
	if optional {
		required = ""
	}
	doc, err := policy.Parse("bank.yaml",
		[]byte(strings.NewReplacer("$REQUIRED", required, "$ARG", arg, "$RULE", helmProbes[rule]).Replace(helmProbe)))
	if err != nil {
		return nil, err
	}
	p, err := guardian.Compile(doc)
	return func(args []byte) answer {
		in, _, err := inputs(new(crypto.Tree), nil, &call{&callers[0], "pay.send", args})
		if err != nil {
			return answer{unread: true, err: err}
		}
		d, _ := p.Judge(in, nil)
		return answer{allow: d.Verdict == contracts.Allow, reason: string(d.Reason)}
	}, err
}

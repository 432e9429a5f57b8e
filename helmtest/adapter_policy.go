package helmtest

import (
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

// suitePolicy is the policy of [AdapterSuite]: a support desk.
const suitePolicy = `
helm: policy/v1
layer: P1
bundle: {name: suite, version: 1}
tools:
  note_add:
    effect: write
    input: {type: object, required: [text], properties: {text: {type: string}, n: {type: number, default: 1},
      urgent: {type: boolean}}}
    limits: {timeout: 20s}
  note_slow:
    effect: write
    input: {type: object, required: [text], properties: {text: {type: string}}}
    limits: {timeout: 1s}
  vault_open:
    effect: write
    input: {type: object, properties: {text: {type: string}}}
  order_find:
    effect: read
    input: {type: object, required: [number], properties: {number: {type: string}}}
  order_track:
    effect: read
    input: {type: object, required: [number], properties: {number: {type: string}}}
  price_list:
    effect: read
    input: {type: object, properties: {}}
  mail_send:
    effect: write
    input: {type: object, required: [to, text], properties: {to: {type: string}, text: {type: string}}}
  refund:
    effect: write
    input: {type: object, required: [to, amount],
      properties: {to: {type: string}, amount: {type: integer, minimum: 1}, note: {type: string, default: none}}}
rules:
  - {id: vault, deny: vault_open}
  - {id: much, deny: note_add, when: {arg: /n, gt: 50}}
  - {id: urgent, deny: note_add, when: {arg: /urgent, eq: true, absent: false}}
  - {id: strangers, deny: mail_send, unless: {arg: /to, eq: ann@example.org}}
  - {id: desk, allow: [note_add, note_slow, order_find, order_track, price_list, mail_send, refund]}
requires:
  - {id: owner, tools: [refund], when: {arg: /amount, gt: 50}, all: [{approval: {roles: [owner], ttl: 10m}}]}
`

// deskPolicy compiles suitePolicy, and returns the schemas of its tools.
func deskPolicy() (*guardian.Policy, map[string]json.RawMessage, error) {
	d, err := policy.Parse("suite.yaml", []byte(suitePolicy))
	if err != nil {
		return nil, nil, err
	}
	p, err := guardian.Compile(d)
	if err != nil {
		return nil, nil, fmt.Errorf("the suite's own policy: %w", err)
	}
	schemas := map[string]json.RawMessage{}
	for _, t := range p.Tools() {
		schemas[t.Name] = t.Input
	}
	return p, schemas, nil
}

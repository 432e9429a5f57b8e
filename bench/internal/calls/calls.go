// Package calls makes the calls of a kernel that benchmarks measure.
package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const policyText = `
helm: policy/v1
layer: P1
bundle: {name: bench, version: 1}
tools:
  code.run:
    effect: write
    input:
      type: object
      required: [language, code]
      properties:
        language: {type: string, enum: [go, python, sh]}
        code: {type: string, maxLength: 4000}
        file: {type: string, pattern: "^[a-z0-9_.-]{1,64}$"}
        line: {type: integer, minimum: 1}
        timeout: {type: number, exclusiveMinimum: 0, maximum: 600}
        dry: {type: boolean}
        tags: {type: array, maxItems: 8, items: {type: string, maxLength: 32}}
rules:
  - {id: no-shell, deny: code.run, when: {arg: /language, eq: sh}}
  - {id: late, deny: code.run, when: {arg: /timeout, gt: 300, absent: false}}
  - {id: dev, allow: code.run, when: {caller: roles, has: dev}}
`

// A budget of all callers, which every call is charged to and which is never spent.
const budgetText = `
budgets:
  - {id: calls, tools: [code.run], limit: 1000000000, per: all, window: total, cost: 1}
`

// A Host makes the calls: it has the policy, the key, and arguments of about 900 bytes, others for
// each caller.
type Host struct {
	Policy *guardian.Policy
	Key    crypto.PrivateKey
	args   []json.RawMessage
	budget bool
}

// New returns a host of so many callers. With a budget they share one.
func New(key crypto.PrivateKey, callers int, budget bool) (*Host, error) {
	text := policyText
	if budget {
		text += budgetText
	}
	doc, err := policy.Parse("bench.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	h := &Host{Key: key, args: make([]json.RawMessage, callers), budget: budget}
	if h.Policy, err = guardian.Compile(doc); err != nil {
		return nil, err
	}
	code := strings.Repeat("for i := range 10 {\n\tfmt.Println(\"line\", i)\n}\n", 15)
	for i := range h.args {
		if h.args[i], err = json.Marshal(map[string]any{"language": "go", "code": code, "file": "main.go",
			"line": 10 + i, "timeout": 30.5,
			"dry": false, "tags": []string{"a", "b"}}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Kernel returns a kernel over a store, whose tool answers at once.
func (h *Host) Kernel(s proofgraph.Store) (*helm.Kernel, error) {
	return helm.New(helm.Options{Policy: h.Policy, Key: h.Key, Store: s, Drivers: map[string]executor.Driver{
		"code.run": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"exit":0}`), nil
		})}})
}

// Guard makes one call, which must have the expected outcome.
func (h *Host) Guard(k *helm.Kernel, caller int, session string, allow bool) (helm.Receipt, error) {
	in := helm.Intent{Tool: "code.run", Args: h.args[caller], Caller: helm.Caller{ID: "ada", Roles: []string{"dev"}},
		Session: session}
	if !allow {
		in.Tool = "no.such.tool"
	}
	d, r := k.Guard(context.Background(), in)
	switch {
	case allow && (d.Err() != nil || string(r.Output) != `{"exit":0}` || r.Record.Outcome != contracts.Executed):
		return r, fmt.Errorf("an ALLOW became %v %s: %w", d.Verdict, d.Reason, d.Err())
	case allow && h.budget != (len(r.Record.Settled) == 1):
		return r, fmt.Errorf("an ALLOW was charged to %d budgets", len(r.Record.Settled))
	case !allow && (d.Reason != contracts.ReasonToolNotFound || r.Record.Outcome != contracts.Denied):
		return r, fmt.Errorf("a DENY became %v %s: %w", d.Verdict, d.Reason, d.Err())
	}
	return r, nil
}

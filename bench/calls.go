package main

import (
	"bytes"
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

// A record is a signed entry and, if any, the inputs stored with it: one durable write makes it
// durable.
type record struct {
	payload []byte // the signed text, before the pre-authentication encoding
	entry   []byte
	inputs  []byte
}

// A work is what every row of one table does: a call is one record, or two, each durable before the
// next. The calls are real calls of a kernel over a store in memory, used in turn.
type work struct {
	name  string
	signs bool // each record is signed as it is written
	calls [][]record
}

// size is the bytes of one call.
func (w work) size() (n int) {
	for _, call := range w.calls {
		for _, r := range call {
			n += len(r.entry) + len(r.inputs)
		}
	}
	return n / len(w.calls)
}

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

// A host makes the calls: it has the policy, the key, and arguments of about 900 bytes, others for
// each caller.
type host struct {
	policy *guardian.Policy
	key    crypto.PrivateKey
	keyID  contracts.Digest
	args   [many]json.RawMessage
}

func newHost() (*host, error) {
	doc, err := policy.Parse("bench.yaml", []byte(policyText))
	if err != nil {
		return nil, err
	}
	h := new(host)
	if h.policy, err = guardian.Compile(doc); err != nil {
		return nil, err
	}
	if h.key, err = crypto.GenerateKey(); err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(h.key)
	if err != nil {
		return nil, err
	}
	h.keyID = crypto.KeyID(public)
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

func (h *host) kernel(s proofgraph.Store) (*helm.Kernel, error) {
	return helm.New(helm.Options{Policy: h.policy, Key: h.key, Store: s, Drivers: map[string]executor.Driver{
		"code.run": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"exit":0}`), nil
		})}})
}

// guard makes one call, which must have the expected outcome.
func (h *host) guard(k *helm.Kernel, caller int, session string, allow bool) (helm.Receipt, error) {
	in := helm.Intent{Tool: "code.run", Args: h.args[caller], Caller: helm.Caller{ID: "ada", Roles: []string{"dev"}},
		Session: session}
	if !allow {
		in.Tool = "no.such.tool"
	}
	d, r := k.Guard(context.Background(), in)
	switch {
	case allow && (d.Err() != nil || string(r.Output) != `{"exit":0}` || r.Record.Outcome != contracts.Executed):
		return r, fmt.Errorf("an ALLOW became %v %s: %w", d.Verdict, d.Reason, d.Err())
	case !allow && (d.Reason != contracts.ReasonToolNotFound || r.Record.Outcome != contracts.Denied):
		return r, fmt.Errorf("a DENY became %v %s: %w", d.Verdict, d.Reason, d.Err())
	}
	return r, nil
}

// works makes the three works of real calls, in memory.
func (h *host) works() ([]work, error) {
	m := proofgraph.NewMemory()
	k, err := h.kernel(m)
	if err != nil {
		return nil, err
	}
	receipt, deny, allow := work{name: "receipt"}, work{name: "DENY", signs: true}, work{name: "ALLOW", signs: true}
	for i := range h.args {
		for _, w := range []*work{&deny, &allow} {
			r, err := h.guard(k, i, fmt.Sprint("bench-", i), w == &allow)
			if err != nil {
				return nil, err
			}
			first := r.Index
			if w == &allow {
				first-- // the decision
			}
			call, err := stored(m, first, r.Index+1)
			if err != nil {
				return nil, err
			}
			w.calls = append(w.calls, call)
		}
		receipt.calls = append(receipt.calls, allow.calls[i][1:])
	}
	return []work{receipt, deny, allow}, k.Close()
}

// stored reads the records that a store keeps of a call.
func stored(s proofgraph.Store, from, to uint64) (call []record, err error) {
	var reader contracts.Reader
	for e, err := range s.Entries(context.Background(), from, to) {
		if err != nil {
			return nil, err
		}
		sealed, bad := reader.Open(e)
		if bad != nil {
			return nil, bad
		}
		r := record{entry: e, payload: bytes.Clone(sealed.Payload)}
		st, bad := sealed.Statement()
		if bad != nil {
			return nil, bad
		}
		if d := st.Judgement(); d != nil {
			if r.inputs, err = s.Blob(context.Background(), d.InputsHash); err != nil {
				return nil, err
			}
		}
		call = append(call, r)
	}
	return call, nil
}

// sign does with a payload what a kernel does: it makes the entry, with one Ed25519 signature.
func (h *host) sign(payload []byte) ([]byte, error) {
	var room [64]byte
	sig, err := crypto.AppendSignature(room[:0], h.key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	if err != nil {
		return nil, err
	}
	return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, h.keyID, sig), nil
}

package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/helmkernel/helm/bench/internal/calls"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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

// A host makes the calls, and entries as a kernel does.
type host struct {
	*calls.Host
	keyID contracts.Digest
}

func newHost() (*host, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return nil, err
	}
	c, err := calls.New(key, many, false)
	return &host{c, crypto.KeyID(public)}, err
}

// works makes the three works of real calls, in memory.
func (h *host) works() ([]work, error) {
	m := proofgraph.NewMemory()
	k, err := h.Kernel(m)
	if err != nil {
		return nil, err
	}
	receipt, deny, allow := work{name: "receipt"}, work{name: "DENY", signs: true}, work{name: "ALLOW", signs: true}
	for i := range many {
		for _, w := range []*work{&deny, &allow} {
			r, err := h.Guard(k, i, fmt.Sprint("bench-", i), w == &allow)
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
	sig, err := crypto.AppendSignature(room[:0], h.Key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	if err != nil {
		return nil, err
	}
	return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, h.keyID, sig), nil
}

package adapt

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

const (
	maxPayload   = contracts.MaxPresented // length of a payload, of which no more is presented with a call
	payloadDepth = 5                      // payload, list, envelope, signatures, signature
)

var errPayload = errors.New(`adapt: resume payload: want {"approvals": […]}, with signed answers and nothing else`)

// Interrupt returns the JSON with which a call that waits for an approver is interrupted:
// {"helm": REQUEST}. It has no arguments. An error means that there is no request, or one that no
// approver could read.
func Interrupt(pending *contracts.ApprovalRequest) (json.RawMessage, error) {
	if pending == nil {
		return nil, errors.New("adapt: interrupt: the call waits for no approver")
	}
	request, err := pending.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("adapt: interrupt: %w", err)
	}
	return append(append([]byte(`{"helm":`), request...), '}'), nil
}

// Approvals returns the envelopes of a resume payload: JSON in a []byte, a [json.RawMessage] or a
// string, or the value that a framework decoded it to. It has one member, approvals, a list of at
// most 16 approvals, each of the exact form of a signed one. The text has at most 1 MiB and may be
// spelled in any way, because the canonical form of each envelope is what is returned. A list
// without any is no error.
//
// If anything is wrong no envelope is returned, the good ones included. An adapter then judges the
// call without approvals, so that there is a denial and its receipt.
func Approvals(payload any) ([]contracts.Envelope, error) {
	text, err := textOf(payload)
	if err != nil {
		return nil, err
	}
	var tree crypto.Tree
	if tree.Parse(text, crypto.Limits{Bytes: maxPayload, Depth: payloadDepth, Object: true}) != nil {
		return nil, errPayload // its error may name a key of the payload
	}
	list := tree.Root().Get("approvals")
	switch {
	case tree.Root().Len() != 1 || list.Kind() != crypto.Array:
		return nil, errPayload
	case list.Len() > contracts.MaxListed:
		return nil, fmt.Errorf("adapt: resume payload: %d approvals: a call has at most %d", list.Len(),
			contracts.MaxListed)
	}
	var reader contracts.Reader
	var found []contracts.Envelope
	for v := range list.Elements() {
		e := contracts.Envelope(v.Append(nil))
		if len(e) > contracts.MaxEnvelope {
			return nil, fmt.Errorf("adapt: resume payload: /approvals/%d: over %d bytes", len(found),
				contracts.MaxEnvelope)
		}
		sealed, err := reader.Open(e)
		if err != nil || sealed.Kind != contracts.KindApproval {
			return nil, fmt.Errorf("adapt: resume payload: /approvals/%d: not a signed approval", len(found))
		}
		found = append(found, e)
	}
	return found, nil
}

// textOf returns the JSON of a payload, whose type may be the host's.
func textOf(payload any) (text []byte, err error) {
	switch x := payload.(type) {
	case nil:
		return nil, errPayload
	case []byte:
		return x, nil
	case json.RawMessage:
		return x, nil
	case string:
		if len(x) > maxPayload {
			return nil, errPayload
		}
		return []byte(x), nil
	case map[string]any:
		if list, ok := x["approvals"].([]any); len(x) == 1 && ok && len(list) > contracts.MaxListed {
			return nil, errPayload // before all of it is encoded
		}
	}
	defer contain.Error(&err, "adapt: resume payload: a method of its type")
	if text, err = json.Marshal(payload); err != nil {
		return nil, errPayload // its error may have a value
	}
	return text, nil
}

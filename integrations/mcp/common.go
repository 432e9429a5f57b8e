package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func refusal(code int64, what string) error {
	return &jsonrpc.Error{Code: code, Message: "helm: " + what}
}

var errWho = refusal(jsonrpc.CodeInvalidRequest, "it is not known who asks")

// A written result goes to the client as it stands. What the SDK sets in the embedded one is not
// sent, but for _meta of a result that has none.
type written struct {
	*sdk.CallToolResult
	json json.RawMessage
}

func (w *written) MarshalJSON() ([]byte, error) { return w.json, nil }

// whole returns a result that is an object of JSON. It says that it is complete, which clients
// since 2026-07-28 ask of it.
func whole(object []byte) (sdk.Result, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	if members["resultType"] == nil {
		members["resultType"] = json.RawMessage(`"complete"`)
	}
	if members["content"] == nil {
		members["content"] = json.RawMessage(`[]`)
	}
	b, err := encode(members)
	return &written{&sdk.CallToolResult{}, b}, err
}

// structured returns the result of a tool whose output is pinned: the output, and as a text.
func structured(output []byte) (sdk.Result, error) {
	b, err := encode(map[string]any{
		"content":           []any{map[string]any{"type": "text", "text": string(output)}},
		"structuredContent": json.RawMessage(output),
	})
	if err != nil {
		return nil, err
	}
	return whole(b)
}

// denial is a result, so that the model reads it.
func denial(text string, d helm.Decision) (sdk.Result, error) {
	verdict := map[string]any{"verdict": "DENY"}
	if d.Reason != "" {
		verdict["reason"] = string(d.Reason)
	}
	if d.Pending != nil {
		verdict["pending"] = d.Pending.Nonce
	}
	b, err := encode(map[string]any{
		"isError": true, "content": []any{map[string]any{"type": "text", "text": text}},
		"_meta": map[string]any{"helmkernel/verdict": verdict},
	})
	if err != nil {
		return nil, err
	}
	return whole(b)
}

// told returns what a client is told of a call.
func told(d helm.Decision, r helm.Receipt, pinned bool) (sdk.Result, error) {
	switch {
	case r.Output == nil:
		text, _ := d.ForModel(r)
		return denial(text, d)
	case d.Err() == nil && pinned:
		return structured(r.Output)
	}
	return whole(r.Output)
}

// encode is json.Marshal without the escapes for HTML, which would change what was recorded.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// canonical returns the canonical form of an object of strict JSON, and its members.
func canonical(object []byte) (b []byte, members map[string]json.RawMessage, err error) {
	var tree crypto.Tree
	limits := crypto.Limits{Bytes: maxMessage, Depth: contracts.MaxRecordDepth, Object: true}
	if err := tree.Parse(object, limits); err != nil {
		return nil, nil, err
	}
	b = tree.Root().Append(nil)
	return b, members, json.Unmarshal(b, &members)
}

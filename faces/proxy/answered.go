package proxy

import (
	"bytes"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// answered returns the items that a request needs since the provider keeps the conversation, and
// with it the calls that were denied: it demands an output for each.
func (p *reader) answered() (items [][]byte) {
	if p.r.previous == "" || p.denied == nil {
		return nil
	}
	for _, d := range p.denied(p.r.previous) {
		if item := refused(d.Kind, d.ID, d.Refusal); item != nil {
			items = append(items, item)
		}
	}
	return items
}

// noPicture is a picture of one point, for what must be answered by a picture.
const noPicture = "data:image/png;base64," +
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// refused returns the item that answers a denied call of a kind with its refusal.
func refused(kind, id, refusal string) []byte {
	item := func(name string, members ...string) []byte {
		var b bytes.Buffer
		b.WriteString(`{"type":"` + name + `"`)
		for i := 0; i < len(members); i += 2 {
			b.WriteString(`,"` + members[i] + `":` + members[i+1])
		}
		b.WriteByte('}')
		return b.Bytes()
	}
	name, text := string(quote(id)), string(quote(refusal))
	switch kind {
	case "function_call", "custom_tool_call":
		return item(kind+"_output", "call_id", name, "output", text)
	case "local_shell_call":
		return item("local_shell_call_output", "id", name, "output", text)
	case "shell_call":
		return item("shell_call_output", "call_id", name, "output",
			`[{"stdout":"","stderr":`+text+`,"outcome":{"type":"exit","exit_code":1}}]`)
	case "apply_patch_call":
		return item("apply_patch_call_output", "call_id", name, "status", `"failed"`, "output", text)
	case "computer_call":
		return item("computer_call_output", "call_id", name, "output",
			`{"type":"computer_screenshot","image_url":"`+noPicture+`"}`)
	case "mcp_approval_request":
		return item("mcp_approval_response", "approval_request_id", name, "approve", "false", "reason", text)
	}
	return nil
}

// ownItem is what the ids of messages of HELM's own begin with.
const ownItem = "msg_helm_"

// spoken returns a message of HELM's own in the place of a reference to it, or nothing if its text
// is not known any more.
func (p *reader) spoken(id string) rawjson.Value {
	if p.said == nil || p.said(id) == "" {
		return rawjson.Value{}
	}
	text := `{"type":"message","role":"assistant","content":[{"type":"output_text","text":` +
		string(quote(p.said(id))) + `,"annotations":[]}]}`
	v, _ := rawjson.Check([]byte(text)) // it is JSON
	return v
}

package helm

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// A Caller is the user or service that a tool is called for. The zero Caller is anonymous. ID and
// Tenant have at most 256 bytes. There are at most 32 Roles of 64 bytes, in any order.
type Caller = contracts.Caller

// A Driver runs one tool.
type Driver = executor.Driver

// Func is a function as a Driver.
type Func = executor.Func

// Text is a function as a Driver whose output is text, which is never read as JSON.
type Text = executor.Text

// An Envelope is what callers present: a grant, an approval, an attestation.
type Envelope = contracts.Envelope

// An Intent is a call to be judged. A field outside its limits is DENY, with a receipt;
// docs/FORMATS.md section 1 lists all limits.
type Intent struct {
	// Tool has 1 to 128 letters, digits and . _ : @ / -.
	Tool string

	// Args is one JSON object of at most 1 MiB, as the model wrote it. Empty is DENY.
	Args json.RawMessage

	// Caller is the user or service that the tool is called for.
	Caller Caller

	// Session is the conversation that this call belongs to. It is named like a tool, but does not
	// begin with @. Empty is "main", which cannot be closed.
	Session string

	// Idempotency is a key of at most 256 bytes: one effect per key and session. The durable ALLOW
	// binds it, a denial never. It must not be chosen by a model. It needs a named session, because
	// main would keep it for ever; and it is not taken from a With without Tool, because every call
	// under that context would have it.
	Idempotency string

	// After names the entries that caused this call, at most 32. See Receipt.Ref.
	After []contracts.Ref

	// Delegation holds the grants under which the call is made, at most 16: the leaf, then each
	// grant's parent.
	Delegation []Envelope

	// Approvals holds the signed answers to Decision.Pending (ApprovalRequest.Approve), at most
	// 16. Anything that is no envelope is left out. Those that count are used up by an ALLOW.
	Approvals []Envelope

	// Attestations holds the statements of attestors about the call, at most 16. They are not used
	// up.
	Attestations []Envelope

	// Driver runs the call, if Options.Drivers has no driver for the tool. Both or neither is
	// DENY, and so is a driver that does not declare the pinned definition.
	Driver Driver
}

// clone returns a copy that shares nothing with in that could be changed.
func (in Intent) clone() Intent {
	in.Args = bytes.Clone(in.Args)
	in.Caller.Roles = slices.Clone(in.Caller.Roles)
	in.After = slices.Clone(in.After)
	in.Delegation = cloneAll(in.Delegation)
	in.Approvals = cloneAll(in.Approvals)
	in.Attestations = cloneAll(in.Attestations)
	return in
}

func cloneAll(list []Envelope) []Envelope {
	out := slices.Clone(list)
	for i := range out {
		out[i] = bytes.Clone(out[i])
	}
	return out
}

package helm

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
)

// Caller is on whose behalf a tool is called. The zero Caller is anonymous. ID and Tenant have at most 256 bytes, and there are at most 32
// Roles of 64 bytes, in any order.
type Caller = contracts.Caller

// Func is a function as a Driver.
type Func = executor.Func

// Intent is a call that somebody wants to make. A field outside its limits is DENY, with a receipt; docs/FORMATS.md section 1 has them all.
type Intent struct {
	Tool         string          // 1 to 128 letters, digits and . _ : @ / -
	Args         json.RawMessage // as the model wrote them: one JSON object of at most 1 MiB; empty is DENY
	Caller       Caller
	Session      string               // the conversation that this call belongs to, named like a tool, the first letter not @; "" is "main", which cannot be closed
	Idempotency  string               // one effect per value and session; at most 256 bytes; bound by the durable ALLOW, never by a denial; never chosen by a model
	After        []contracts.Ref      // entries that caused this call, at most 32; see Receipt.Ref
	Delegation   []contracts.Envelope // the grants under which the call is made: the leaf, each followed by its parent; at most 16
	Approvals    []contracts.Envelope // what approvers made of Decision.Pending (ApprovalRequest.Approve), at most 16, what is no envelope left out; those that count are used up by an ALLOW
	Attestations []contracts.Envelope // what attestors say of the call, at most 16; these are not used up
	Driver       executor.Driver      // what runs, for tools that Options.Drivers does not bind; both or neither is DENY, and so is one of another definition than is pinned
}

// fill takes what in leaves zero from the layers of a context.
func (in *Intent) fill(l *layer, log *proofgraph.Log) {
	for ; l != nil; l = l.up {
		from := &l.in
		if from.Tool != "" && from.Tool != in.Tool {
			continue
		}
		if in.Caller.ID == "" && in.Caller.Tenant == "" && len(in.Caller.Roles) == 0 {
			in.Caller = from.Caller
		}
		if in.Session == "" {
			in.Session = from.Session
		}
		if in.Idempotency == "" {
			in.Idempotency = from.Idempotency
		}
		if len(in.After) == 0 && (l.log == nil || l.log == log) {
			in.After = from.After
		}
		if len(in.Delegation) == 0 {
			in.Delegation = from.Delegation
		}
		if len(in.Approvals) == 0 {
			in.Approvals = from.Approvals
		}
		if len(in.Attestations) == 0 {
			in.Attestations = from.Attestations
		}
	}
}

// clone shares nothing with in that somebody could change.
func (in Intent) clone() Intent {
	in.Args = bytes.Clone(in.Args)
	in.Caller.Roles = slices.Clone(in.Caller.Roles)
	in.After = slices.Clone(in.After)
	in.Delegation = cloneAll(in.Delegation)
	in.Approvals = cloneAll(in.Approvals)
	in.Attestations = cloneAll(in.Attestations)
	return in
}

func cloneAll(list []contracts.Envelope) []contracts.Envelope {
	out := slices.Clone(list)
	for i := range out {
		out[i] = bytes.Clone(out[i])
	}
	return out
}

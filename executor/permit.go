package executor

import (
	"errors"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Permit allows one call to be run once. Only [Admit] makes one. The zero Permit, a used one, and
// a copy of a used one run nothing.
type Permit struct {
	run *run // shared by all copies
}

// A Slot is a place in the log. [Admit] asks it for the decision that a permit is made from.
type Slot interface {
	// Durable returns the entry and its decision. It is an error unless the decision is an ALLOW
	// and the entry is on stable storage.
	Durable() (contracts.Entry, *contracts.DecisionRecord, error)
}

// Admit makes the permit for a call from the durable ALLOW in slot. Tool, arguments, caller and
// session of the call must be those that were decided. Admit copies the call and fills in
// call.Permit.
func Admit(slot Slot, call contracts.Call) (*Permit, error) {
	if slot == nil {
		return nil, errors.New("executor: admit: there is no slot")
	}
	entry, d, err := slot.Durable()
	if err != nil {
		return nil, err
	}
	if what := mismatch(entry, d, &call); what != "" {
		return nil, errors.New("executor: admit: " + what)
	}
	buf := make([]byte, len(call.Args)+len(entry)) // one for both: the driver may write to them
	args, proof := buf[:len(call.Args):len(call.Args)], buf[len(call.Args):]
	copy(args, call.Args)
	copy(proof, entry)
	r := &run{call: call}
	r.call.Args = args
	r.call.Caller.Roles = append(r.roles[:0], call.Caller.Roles...)
	r.call.Permit = contracts.AuthorizedExecutionIntent{DecisionID: d.ID, Expires: d.Expires, Decision: proof}
	r.permit.run = r
	return &r.permit, nil
}

// mismatch returns why the decision does not permit the call, or "".
func mismatch(entry contracts.Entry, d *contracts.DecisionRecord, call *contracts.Call) string {
	switch {
	case d == nil || len(entry) == 0:
		return "the slot holds no decision"
	case d.Verdict != contracts.Allow || d.Reason != contracts.ReasonAllow || d.ArgsForm != "":
		return "the decision is no ALLOW"
	case d.Tool != call.Tool:
		return "the decision is for another tool"
	case d.ArgsHash != crypto.Sum(call.Args):
		return "the decision is for other arguments"
	case !d.Caller.Equal(call.Caller):
		return "the decision is for another caller"
	case d.ID[:max(0, strings.LastIndexByte(d.ID, '/'))] != call.Session:
		return "the decision is of another session"
	}
	return ""
}

// Package adapt holds what several adapters to agent frameworks need: the approvals in a resume
// payload, the JSON of an interrupt, the published form of a tool, and the judged arguments as a
// framework's map. An adapter whose call waits for an approver interrupts with
//
//	info, err := adapt.Interrupt(decision.Pending)
//
// and when the framework resumes the call, judges it again with what came back:
//
//	approvals, err := adapt.Approvals(payload) // on error there are none, and Guard denies
//	in := helm.Intent{Tool: name, Args: args, Approvals: approvals, Driver: driver}
//	decision, receipt := k.Guard(ctx, in)
//
// The interrupt is {"helm": REQUEST}, and REQUEST a [contracts.ApprovalRequest]: an approver needs
// no more than the request and the arguments, which are not in it. The payload is
//
//	{"approvals": [ENVELOPE, …]}
//
// with envelopes that ApprovalRequest.Approve or Refuse returned. A payload of any other form, such
// as {"approved": true}, approves nothing.
//
// Nothing here verifies a signature: the kernel does. Everything is a function of its arguments and
// safe for concurrent use. No error has a part of a payload, an argument or a schema in its text.
package adapt

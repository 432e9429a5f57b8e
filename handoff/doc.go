// Package handoff permits a call here and lets it run elsewhere: in an app, or in a worker that
// takes jobs from a queue. What became of it is reported later, and recorded then.
//
//	desk := handoff.New(k, 0)
//	in := helm.Intent{Tool: "send_mail", Args: args, Caller: user}
//	d, r, t := desk.Begin(ctx, in, contracts.Digest{})
//	if t == nil {
//		return refuse(d.ForModel(r)) // denied, or a repeat whose outcome is known
//	}
//	queue.Send(t.ID(), t.Call().Args) // run these bytes, and no others
//	…
//	d, r, recorded := desk.Ticket(id).Settle(handoff.Outcome{Output: output})
//
// A [Ticket] is the permission, and nothing else is. There is none before the signed ALLOW is
// durable. It ends with one receipt: when its outcome is reported, when it is dropped, or at the
// tool's time limit.
//
// [Desk.Begin] is [helm.Kernel.Guard] with a driver that waits, on a goroutine of its own. So
// budgets, the order of a session, requirements, idempotency and replay are those of any call, and
// a process that ends leaves OUTCOME_UNKNOWN to the next [helm.New]. While a call is open no lock
// is held.
//
// The receipt of such a call names the sandbox profile "reported": it says what was reported, and
// not that the kernel saw it. A policy governs that: `sandbox: reported` of a tool allows it by
// hand-off only, and a profile of a floor that demands another sandbox forbids it for an effect.
// See docs/POLICY.md section 8 and docs/FORMATS.md section 3.
package handoff

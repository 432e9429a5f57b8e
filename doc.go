// Package helm decides whether a tool call of an AI agent may run, runs it, and leaves a signed receipt that anyone can check offline.
//
// Make a [Kernel] with [New] and pass every call through [Kernel.Guard], or wrap a function once with [Wrap]. An [Intent] describes the
// call; the answer is a [Decision] and a [Receipt]:
//
//	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: proofgraph.NewMemory()})
//	d, r := k.Guard(ctx, helm.Intent{Tool: "fs.read", Args: args, Caller: who, Session: "chat-1", Driver: helm.Func(readFile)})
//	if err := d.Err(); err != nil {
//		return err // denied, withheld, or the tool's own error
//	}
//	use(r.Output)
//
// Do not run the tool yourself after an Allow: the kernel has run it already, and recorded it. Do not judge by d.Record: it is what was
// decided before anything ran; d.Verdict is the last word.
//
// What holds, whatever fails:
//
//   - Anything unknown, invalid, missing, failing or panicking is DENY. A zero or nil Kernel, Decision or Error denies.
//   - The driver gets exactly the canonical bytes that were judged, defaults filled in, and no others.
//   - The signed permission is durable before the driver runs, and the receipt before the output is released. When signing or storing
//     fails, the kernel seals: every later call is KERNEL_SEALED, and the next New over the store settles what was open.
//   - The same policy and inputs give the same verdict, reason, rule and hashes, on any machine.
//
// An error from [Decision.Err] answers one question first: did it run? [ErrDenied]: surely not. [ErrWithheld]: it did, or may have, and
// nothing is released. Neither: the tool's own error. What to tell the model is in Reason.Advice().
//
// A policy is made by policy.Load from YAML, or by guardian.Compile; a key by crypto.GenerateKey, or any crypto.Signer over Ed25519, a
// KMS for instance. The log lives in a [proofgraph.Store]. Package evidence writes and verifies packs of it, and erases
// what it keeps of a call beside the signed entries.
//
// Who may sign what changes by events that the roots of Options.Trust sign ([Kernel.Govern]): keys are added and revoked, that of the kernel
// too, and a freeze denies every call. A policy is put in the place of another, under running calls, by [Kernel.Swap]. [Kernel.Narrow] gives
// a kernel for one task, over the same log, that can only deny more; under its [Kernel.Context] functions that were wrapped once, and tools
// that call tools, are judged by it.
//
// A call that a person must approve is denied APPROVAL_REQUIRED, and [Decision].Pending is what he must sign. His answer goes into
// Intent.Approvals when the same call is made again; it then runs, once. It is no answer to any other call, nor under another policy.
// examples/approvals has the whole way.
//
// Limits: arguments of 1 MiB, nested 64 deep; names and lists as in docs/FORMATS.md section 1, the common ones at [Intent]. A kernel keeps
// in memory a few hundred bytes for every session of its log and for every policy, 44 for every entry and, until the session is closed,
// every idempotency key that was bound in it, and some 60 bytes for every call that ran in it, for the arguments that a policy compares
// with later ones, and for every approval that was used; so a session that ended should be closed ([Kernel.CloseSession]), and a narrowed
// kernel when its task is over ([Kernel.Close]). Of budgets it keeps the balance of every window that the log has had, some 80 bytes each:
// one per caller and hour of a million callers is too many. A store keeps some 2 KiB for a denial and 4 KiB for a run, and unless
// Options.Keep says otherwise the arguments, up to 1 MiB, of every call, denied ones too: budgets limit what is allowed, and how often a
// model may be denied is the host's to limit.
//
// A Kernel is safe for concurrent use. Calls of one session are judged one after the other, and run side by side. Tools,
// observers and contexts may call the kernel; its key, store and clock must not, for every call waits for them.
package helm

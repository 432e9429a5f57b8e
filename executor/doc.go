// Package executor runs one permitted call of one tool, once, and tells what became of it.
//
// A [Permit] is made by [Admit] from a decision that is durable, and is spent by [Run]:
//
//	permit, err := executor.Admit(slot, call)            // the ALLOW is on stable storage, and is for this call
//	outcome := executor.Run(ctx, permit, driver, limits, nil)
//
// What the driver does decides the reason, by the first line that fits:
//
//	it panics, or calls runtime.Goexit                   TOOL_PANIC
//	it is Sandboxed and returns a LimitError             ERR_COMPUTE_GAS, _TIME, _MEMORY or _OUTPUT_EXHAUSTED
//	it returns an error after its time limit             TOOL_TIMEOUT
//	it returns an error after the caller's context ended TOOL_CANCELED
//	it returns another error                             TOOL_ERROR
//	it has not returned soon after its time limit        TOOL_TIMEOUT, or TOOL_CANCELED where the caller's context had ended before
//	its output is over the limit                         ERR_COMPUTE_OUTPUT_EXHAUSTED
//	its output does not conform to the pinned schema     ERR_CONNECTOR_CONTRACT_DRIFT
//	else                                                 ALLOW
//
// So a nil error wins over an ended context. An output that is one strict JSON text, nested at most 128 deep, is handed on in canonical form
// ("jcs"), and no output at all as null. Other bytes are handed on as they are ("raw"), but for a tool with a pinned schema, to which they
// cannot conform.
//
// A driver runs on a goroutine of its own, so that one which panics, exits or hangs costs its caller nothing but the time limit. What cannot be
// contained in one process are goroutines that the driver starts, and what the Go runtime calls fatal: running out of memory or stack,
// unsynchronised use of a map. A tool that is not trusted so far belongs in a sandbox.
//
// The driver works on copies. Nothing that it does to its arguments, or later to the bytes that it returned, changes what is recorded.
package executor

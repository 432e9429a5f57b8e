// Package executor runs one permitted call of one tool, once, and reports how it ended.
//
// A [Permit] is made by [Admit] from a durable decision, and is spent by [Run]:
//
//	permit, err := executor.Admit(slot, call) // the ALLOW is durable, and for this call
//	outcome := executor.Run(ctx, permit, driver, limits)
//
// The reason of the outcome is that of the first line that holds for the driver:
//
//	it panics, or calls runtime.Goexit                    TOOL_PANIC
//	its cell has grants and returns a LimitError          ERR_COMPUTE_GAS_EXHAUSTED, or _TIME,
//	                                                      _MEMORY or _OUTPUT
//	it returns an error after its time limit              TOOL_TIMEOUT
//	it returns an error after the caller's context ended  TOOL_CANCELED
//	it returns another error                              TOOL_ERROR
//	it has not returned soon after its time limit         TOOL_TIMEOUT, or if the caller's context
//	                                                      had ended before, TOOL_CANCELED
//	its output is over the limit                          ERR_COMPUTE_OUTPUT_EXHAUSTED
//	its result says Failed                                TOOL_ERROR
//	its output does not conform to the pinned schema      ERR_CONNECTOR_CONTRACT_DRIFT
//	else                                                  ALLOW
//
// So a nil error wins over an ended context. An output that is one strict JSON text, nested at most
// 128 deep, is returned in canonical form ("jcs"), and an empty output as null. Other bytes, and
// what the driver says is text, are returned as they are ("raw"), unless the tool has a pinned
// schema, to which they cannot conform.
//
// A driver runs on a goroutine of its own, so that one that panics, exits or hangs costs its caller
// no more than the time limit. One process cannot contain goroutines that the driver starts, nor
// the failures that the Go runtime calls fatal: running out of memory or stack, unsynchronised use
// of a map. A tool that is not trusted so far belongs in a sandbox.
//
// The driver works on copies. Nothing that it does to its arguments, or later to the bytes that it
// returned, changes the record.
package executor

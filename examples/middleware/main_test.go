package main

import (
	"context"
	"os"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// model  order.find {"number": "4711"}
	// tool   order 4711: one lamp, 79.00 EUR, paid
	// model  order.refund {"amount": 79.00, "number": "4711"}
	// tool   NO_POLICY_DEFINED (no rule matches the call).
	//        No rule allows this call. Find another way or report this.
	// model  order.refund {"amount": 50, "number": "4711"}
	// tool   refunded 50.00 EUR on order 4711
	// model  order.refund {"amount": 29}
	// tool   SCHEMA_VIOLATION (required: number).
	//        Correct the arguments as the tool's schema says, and call again.
	// model  order.delete {}
	// tool   DENY_TOOL_NOT_FOUND (no bundle declares the tool).
	//        There is no such tool. Use one of the tools you were given.
}

package main

func Example() {
	main()
	// Output:
	// refunded {"amount":80,"order":"4711"}
	// refund was denied: POLICY_VIOLATION. A rule forbids this call. Do not try to get round it; find another way or report this. (P1:shop:much: the rule denies the call)
	// wipe was denied: DENY_TOOL_NOT_FOUND. There is no such tool. Use one of the tools you were given. (no bundle declares the tool)
}

package main

func Example() {
	main()
	// Output:
	// 40 paid back for 4711
	// refund was denied: POLICY_VIOLATION. A rule forbids this call. Do not try to get round it; find another way or report this. (P1:shop:large: the rule denies the call)
	// drop_all was denied: DENY_TOOL_NOT_FOUND. There is no such tool. Use one of the tools you were given. (no bundle declares the tool)
	// That is all.
}

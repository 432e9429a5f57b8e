package main

func Example() {
	main()
	// Output:
	// refunded 80
	// refund was denied: NO_POLICY_DEFINED. No rule allows this call. Find another way or report this. (no rule matches the call)
	// shell was denied: DENY_TOOL_NOT_FOUND. There is no such tool. Use one of the tools you were given. (no bundle declares the tool)
}

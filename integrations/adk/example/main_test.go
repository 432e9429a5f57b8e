package main

func Example() {
	main()
	// Output:
	// note_add map[result:did tea]
	// vault_open map[error:vault_open was denied: NO_POLICY_DEFINED. No rule allows this call. Find another way or report this. (no rule matches the call)]
}

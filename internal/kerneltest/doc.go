// Package kerneltest has what tests of the kernel are made of: a [World] is a kernel over a store
// and a signer that fail when the test says so, with a tool that counts its runs. A test reads as a
// story:
//
//	w := kerneltest.New(t)
//	w.Store.FailIn(2) // the second append from now: the receipt of the next call
//	w.MustCall(kerneltest.NotStored(), "echo", `{}`)
//	w.MustBeSealed()
//	w.MustRecover(nil)
//
// [NewGoverned] is a world whose log is governed by roots, [NewBank] one whose policy asks for
// approvals, and [Delegators] and [Chain] are for calls under delegations. Failures of the helpers
// end or fail the test that the world was made for.
package kerneltest

// Package conformance runs the gates that an implementation of the kernel must pass, and grades the
// answers of another implementation to vectors in files.
//
// A gate is a list of named cases. [Run] runs them against the kernel of this module, with stores,
// keys, clocks and tools that fail when a case says so. It returns a [Report], signed by who
// ran it:
//
//	report, err := conformance.Run(ctx, conformance.Options{Key: key})
//	fmt.Print(report)
//
// The report says what was run and by whom. It does not say that a host uses the kernel in the same
// way. docs/CONFORMANCE.md lists the gates, the levels and the format of the report.
package conformance

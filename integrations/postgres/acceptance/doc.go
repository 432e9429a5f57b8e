// Package acceptance has tests of faults and nothing else: kernels in processes of their own, over
// one log in a PostgreSQL server, under load.
//
// Processes, the server's processes, and connections are killed, stopped, or lose what they send.
// Each run of a tool, and each receipt that a process was given, is written to a file outside of
// the log. After each fault the log is compared with these: no call ran twice, or without its
// durable permission, no output was released without its durable receipt, and nothing of a fenced
// process stands after its fence.
//
//	go test ./acceptance -v -kills 500 -seed 1 -timeout 2h
//
// The default is a few faults of each kind. What the time limit leaves no time for is not made, and
// each test prints how many were. A failure prints its seed.
package acceptance

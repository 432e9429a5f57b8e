// Package state holds what a process needs that holds a kernel for others: its configuration, the
// directory with key, trust state, log, tokens and approvals, and the order in which all of it
// begins and ends.
//
//	c, err := state.ReadConfig("helm.yaml")
//	s, err := state.Open(ctx, c, state.Options{})
//	defer s.Close(ctx)
//	s.Kernel().Guard(ctx, …)
//
// The directory, which helm.yaml names, is of mode 0700, and one process holds it:
//
//	log/         the log, which package filestore keeps
//	key.pem      the key of the kernel, which signs entries
//	trust.json   the trust state that the log begins with; what changed since is in the log
//	tokens.json  who asks over HTTP, see package auth
//	approvals/   requests that wait for a person, and their answers
//	calls.idx    which session a call of the proxy belongs to, see package proxy; it may be lost
//
// Nothing in it may be a link, and nobody else may read the key. What is faulty is refused, with
// what, where, and what to do; nothing is mended by guessing.
package state

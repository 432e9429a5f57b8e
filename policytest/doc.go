// Package policytest runs policies against cases: calls, and what must become of them.
//
// A file of cases stands next to the documents of a stack, and is as strict as they are: [Load]
// returns every fault of it at once, with line and remedy.
//
//	helm: cases/v1
//	policy: [bank.yaml]
//	callers: {ann: {id: ann, roles: [clerk]}}
//	cases:
//	  - {name: small, caller: ann, call: pay, args: {sum: 5}, want: ALLOW, rule: P1:bank:pay}
//	  - {name: large, caller: ann, call: pay, args: {sum: 5000}, want: DENY, rule: P1:bank:dear}
//
// [Suite.Run] makes a kernel, a log and a clock for each case, so that no case can change another,
// and verifies the log of each with replay. Keys, nonces and times follow from the file alone: two
// runs write the same logs.
//
// What the cases cover is counted from [guardian.Policy.Explain] of every recorded call. Mutants
// are copies of the policy with one change; one that no case notices is a survivor.
//
// [Transcript] reads what an agent said and called, and [Replay] judges those calls: by a kernel,
// with stubs that return what was recorded. A case may be a transcript.
package policytest

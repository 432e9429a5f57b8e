// Package condense computes the set of a condense entry: the entries of a range of the log that
// stores may let go of, and the stubs that are left of them.
//
// [ReadTerms] reads what the documents of a policy say of letting go. A [Range] takes the lines of
// a range in order, and returns their [Set]. The kernel that writes a condense entry, the kernel
// that lets go, and a verifier all compute the set here.
//
// # The set
//
// The set follows from the log, from the fields from, to, size and until of the condense entry, and
// from the earlier condense entries. It is the entries of the indexes from to to-1 that may go and
// are in the set of no earlier condense entry: all of them. An entry may go if and only if:
//
//  1. It is an ALLOW or its receipt, and both are in the range. The receipt is EXECUTED, or FAILED
//     with the reason TOOL_ERROR.
//  2. Its session has its close below the index size. Or the session is main, the decision has no
//     idempotency key, and neither of the two is the last entry of main below the index to.
//  3. The decision has no approvals and no signals, and the receipt has no signals.
//  4. The policy of the decision has a P0 document, and all its P0 documents have the key condense.
//     The risk of the tool in the P1 documents of that policy is below the least kept of them. And
//     the latest time of all entries of the log up to the decision and the longest after of them
//     together are not later than until.
//
// A decision and its receipt are in a set together, or neither is.
//
// # Terms
//
// The terms are those under which the call was judged: of the documents of the policy entry that
// has the decision's policyHash. A policy of another time changes nothing, and the engine does not
// matter. The key condense of a P0 document is an object of exactly two members: kept, which is
// medium or high, and after, which is a duration of 24 hours or more. A duration is a positive
// number without leading zeros, and s, m, h or d.
//
// The risk of a tool is low, medium or high, as its entry in a P1 document says. If the entry does
// not say, the risk is low for the effect read, medium for write and high for destructive. Of a
// tool that two documents declare it is the higher one. A tool that no P1 document declares, and
// one of an unknown risk, may not go. If a document is malformed, or the condense of a P0 document
// is, nothing that its policy judged may go.
//
// Times are compared as instants, to the millisecond. The latest time up to a decision includes its
// own, and those of other sessions: so no entry is old because it is dated back. The time of the
// receipt plays no part.
//
// # Stubs
//
// A line of the range may be a stub: of an entry that went with an earlier set, or, for those who
// read the log after it was let go of, with this one. A stub counts by rules 1, 2 and 4, as far as
// it shows: its outcome FAILED passes rule 1. It is taken to pass rule 3. If one of a pair is
// whole, that one is asked rule 3. So the set is the same, whichever of its members are stubs.
//
// The condense entry has the number of members, dropped, and the RFC 6962 root over their stubs by
// index, each without a line end: stubs.
package condense

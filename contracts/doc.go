// Package contracts holds the records of HELM, their one canonical form, the closed registry of
// reasons, and the table of outcomes.
//
// A record is written and read by one description of its fields: [Statement.Append], [Reader.Open],
// [Sealed.Statement], [Inputs.Append], [ParseInputs] and so on. Its form is canonical JSON (RFC
// 8785). Every field is known and none is missing, except optional fields, which are left out if
// they are zero. Lists that are sets are sorted. A reader refuses whatever differs by one byte from
// the text that a writer would write.
//
// # Entries
//
// An entry of the log is a DSSE envelope with exactly one Ed25519 signature. Its payload is an
// in-toto Statement v1. The predicate has a [Header], the position of the entry, and one record:
//
//	genesis   Genesis         the first entry of a log: its name, its initial trust state
//	policy    PolicyRecord    the documents and the engine that a PolicyHash stands for
//	decision  DecisionRecord  an ALLOW, durable before the tool runs
//	receipt   Receipt         how a call ended; a denial holds its DecisionRecord
//	session   Close           the last entry of a session
//	message   Message         a text of the user
//	trust     TrustRecord     a change of the keys that may sign
//	condense  Condense        entries that stores may let go of
//
// In the place of an entry that a store has let go of the log has a [Stub]: a line of its own
// form, which [IsStub] tells and [Reader.Stub] reads.
//
// Nothing in a record can be relied on before its signature is verified. So reading has three
// steps, of which the first and the last return a [FormatError] if the entry is not of its form:
//
//	sealed, err := reader.Open(entry)     // the form of the envelope and of the statement
//	key, ok := sealed.Key()               // find the key, verify Sig over PAE of Payload
//	statement, err := sealed.Statement()  // the form of the record
//
// # Envelopes that callers present
//
// These have the same form but no header. Each is signed by its author and opened by package
// trust/registry:
//
//	approval     Approval     the answer to an ApprovalRequest: request.Approve(key)
//	delegation   Delegation   a grant: Delegation{…}.Sign(key)
//	attestation  Attestation  a statement of a third party: Attestation{…}.Sign(key)
//	bundle       Bundle       a publisher's signature over a P1 document: Bundle{…}.Sign(key)
//
// # Trust events
//
// A trust event has an envelope of its own, which several keys sign in turn. First a new key proves
// its possession, then the roots sign:
//
//	event := TrustEvent{Type: "key", Name: "ann", Role: "approver", Origin: origin, Version: 2}
//	event, err := event.Prove(annsKey)
//	envelope, err := TrustRecord{Event: event}.Sign(firstRoot)
//	record, err := ParseTrust(envelope) // the second root reads the event before signing it
//	envelope, err = record.Sign(secondRoot)
//
// Lengths are in bytes, times in milliseconds, and hashes are SHA-256. All values may be read from
// several goroutines at once, except a [Reader].
package contracts

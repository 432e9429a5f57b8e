// Package contracts has the records of HELM, their one canonical form, the closed registry of reasons, and the table of outcomes.
//
// A record is written and read by one description of its fields ([Statement.Append], [Reader.Open], [Sealed.Statement],
// [Inputs.Append], [ParseInputs], …): canonical JSON (RFC 8785), every field known, none missing, absent optional fields left out,
// lists sorted where they are sets. A reader refuses what a writer would not have written, byte for byte.
//
// An entry of the log is a DSSE envelope with exactly one Ed25519 signature around an in-toto Statement v1; its predicate has a [Header]
// (where the entry stands) and one record (what it says):
//
//	genesis   Genesis         the first entry of a log: its name, its initial trust state
//	policy    PolicyRecord    the documents and the engine that a PolicyHash stands for
//	decision  DecisionRecord  an ALLOW, durable before the tool runs
//	receipt   Receipt         what became of a call; a denial holds its DecisionRecord
//	session   Close           the last entry of a session
//	message, trust, condense  Message, TrustRecord, Condense
//
// Reading is in three steps, because a record that nobody signed says nothing:
//
//	sealed, err := reader.Open(entry)        // ENCODING, ENVELOPE
//	key, ok := sealed.Key()                  // find the key, verify the signature over sealed.Payload
//	statement, err := sealed.Statement()     // RECORD: what the entry shows by itself
//
// What callers present are envelopes of the same shape without a header, each of which its signer makes and package trust/registry opens:
//
//	approval     Approval     an approver's answer to an ApprovalRequest: request.Approve(key), request.Refuse(key)
//	delegation   Delegation   a grant: Delegation{…}.Sign(key)
//	attestation  Attestation  a third party's word: Attestation{…}.Sign(key)
//	bundle       Bundle       a publisher's signature over a P1 document: Bundle{…}.Sign(key)
//
// A trust event has an envelope of its own, which many sign, one after the other: a new key proves itself, then the roots sign.
//
//	event, err := TrustEvent{Type: "key", Origin: origin, Version: state.Version() + 1, Name: "ann", Role: "approver"}.Prove(annsKey)
//	envelope, err := TrustRecord{Event: event}.Sign(firstRoot)
//	record, err := ParseTrust(envelope)         // the second root reads what it signs
//	envelope, err = record.Sign(secondRoot)
//
// Sizes are in bytes, times in milliseconds, hashes SHA-256. The limits are in names.go, once for writers and readers. Everything here is a
// value without locks: safe to read from many goroutines, but for a [Reader], which is for one.
package contracts

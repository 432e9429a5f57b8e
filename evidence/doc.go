// Package evidence packs a log for people who were not there, and verifies such packs offline: that
// nothing was removed, reordered, changed or put in, and that every verdict that can be made again
// comes out the same.
//
// [Write] makes the pack of a store, [Verify] reports what a pack proves to this caller, and
// [VerifyStore] does so for a store, in its place:
//
//	state, err := registry.ParseState(trustJSON) // not from the pack: by other means
//	…
//	f, err := os.Open("log.pack")
//	…
//	info, err := f.Stat()
//	…
//	o := evidence.Options{Trust: state, Origin: "example.test/log"}
//	report, err := evidence.Verify(ctx, f, info.Size(), o)
//	if err != nil {
//		return err // INVALID: the first check that failed, the entry, the field
//	}
//	fmt.Print(report) // what is proved and what is not, for people; as JSON for programs
//	if !report.Success(evidence.Logged) {
//		return errors.New("not what was asked for")
//	}
//
// A nil error is not success. Without a trust root anyone may have made the pack (UNPINNED). An old
// pack is a valid one: set Last to the checkpoint that you kept, as package evidence/kept does. A
// pack is not evidence of anything that its kernel never logged.
//
// # Packs
//
// A pack is a USTAR archive: manifest.json, checkpoint, entries.jsonl, and blobs/<sha256> in
// ascending order. It holds a prefix of the log, all entries below the size of its checkpoint, byte
// for byte, one a line. Blobs are named by entries, by digest: the initial trust state and the
// policy documents, which must be there; the inputs of judgements and the outputs of tools, as far
// as they are kept. The checkpoint is a C2SP tlog-checkpoint over the RFC 6962 root of the entries.
// The manifest names the other members and is signed by a kernel key. Each header is the only one
// that its name and size may have; archives that other programs write otherwise are refused, and
// nothing is ever decompressed.
//
// [OpenPack] verifies a pack and returns it to be read: entries, blobs and checkpoint, as of a
// store. Bytes that it reads again are compared with the hashes that were verified. So a change of
// the file meanwhile causes errors, and never other bytes. Package evidence/graph answers which
// entries led to which.
//
// # Stores
//
// VerifyStore verifies a log in place: a directory that was opened to be read
// (filestore.OpenReadOnly) while a kernel goes on writing it, or a store of this process. It goes
// as far as the latest checkpoint, as the pack of the store would, and the report counts the
// entries after it. A store has no archive and no manifest, and blobs that no entry names cannot be
// seen in it. All else is checked as in a pack, with the same result. The keeper of a store may
// show an old one, as the keeper of a pack may: set Last here too.
//
// # Trust
//
// Keys change hands: trust entries of a log add keys, revoke them, replace the roots, end grants,
// freeze and unfreeze. Verify starts with the initial trust state, which its caller passes and the
// genesis names, and applies each event in its place (registry.State.Apply): the entries before it
// are judged by the state before it, those after it by the state after it, and manifest and
// checkpoint, of size n, by the state after entry n-1. So entries that a key signed before it was
// revoked stay valid, and nothing that it signs afterwards is. An auditor needs the initial state
// and no other, however often keys were changed since; [Report].Trust is the digest of the last
// one. Write holds its key to the state at the checkpoint in the same way.
//
// docs/FORMATS.md in this repository specifies packs (section 8) and the entries in them, byte for
// byte, for authors of other verifiers.
//
// # Checks
//
// They fire in this order, and the first that fails is the answer, an [Error] that is one of the
// exported errors:
//
//	INPUT       what the caller gave: reader and size, or store; trust root, origin, last
//	            checkpoint, level; the candidate of a back-test
//	ARCHIVE     headers re-encoded and compared, names, order, padding, end; a pack that cannot be
//	            read, or is another one when it is read again
//	STORE       in its place for a store: it cannot be read, wherever that is, or is no store: it
//	            panics, or returns other things when asked again
//
// then entry by entry
//
//	ENCODING    strict JSON in RFC 8785 bytes, base64, sizes, lines
//	ENVELOPE    DSSE and in-toto: fields, types, one signature, one subject
//	KEY         a kernel key of the trust state here, valid at the index, and the header's; for
//	            the genesis the pinned key
//	SIGNATURE   Ed25519 over the pre-authentication encoding; nothing of an entry is used before
//	RECORD      the entry by itself: fields, limits, outcome against verdict against reason, its
//	            own hashes
//	CHAIN       seq, prev, time; nothing after a close; one genesis, and first
//	GRAPH       parents are earlier entries; Lamport times
//	REFERENCE   a receipt has its decision, once; no close over an open call; policies before
//	            their use; keys and approvals used once
//	BUDGET      charges are made on the balances of the log, in its order; receipts keep all of a
//	            charge, or nothing of it if a tool failed
//	TRUST       the genesis names the initial trust state; each trust event may happen: its log,
//	            its version, keys, proofs, signatures and thresholds; no ALLOW while frozen or on
//	            a revoked delegation, no SYSTEM_FROZEN while not
//
// and after them
//
//	GAP         condensed stretches
//	MERKLE      size and root of the checkpoint are the log's
//	CHECKPOINT  that member: three lines, origin, and the log key's line first and verifying
//	MANIFEST    that member, of a pack: envelope, key, signature, and each of its claims
//	BLOB        content hashes to its name and has its form; none missing that must be there, none
//	            in a pack that no entry names
//	REPLAY      the guardian, given kept inputs and the documents, makes the same decision in
//	            every field, pending and the approvals that count included; inputs agree with
//	            decision, entry and log; outputs with the entries that name them and with the
//	            response schema that the tool pins
//
// Verdicts are counted and named, and are no fault, if their inputs are not there, because they
// were erased or never kept, or if another version of the engine made them. If only the inputs are
// not there, effect, risk and time limit are still compared with the documents. The kernel's own
// refusals, which no policy makes, are compared as far as their inputs show.
//
// The kept inputs have the past of the session that a verdict was made from: how many calls it had,
// which receipt of a tool was the latest, which approvals were used. REPLAY asks the same of the
// log, and they must agree in all of it, nothing more and nothing less. So a kernel that passed
// over a call, an earlier receipt or a used approval is found, though it signed a verdict that
// follows from its claims. Which receipt has equal values in the arguments of its call hangs on the
// inputs of that call. If those are not there, the receipt that the kept inputs name is accepted if
// it may be the one: an EXECUTED receipt of that session and tool with that time, later than all
// that can be read. In the same way kept inputs decide whether an approval is used, if an earlier
// call of the same kind consumed approvals that are not there.
//
// Gaps, condense and message entries, facts documents, what inputs say of sources, labels, taint
// and facts of earlier receipts, and policies that [guardian.Compile] refuses are later features:
// they are refused by name, under the check that they belong to.
//
// With [Options].CrossCheck all JSON that our implementation found canonical is canonicalised by
// another one too, and must come out unchanged: entries under ENCODING, the manifest under
// MANIFEST, blobs under BLOB.
//
// # Back-tests
//
// [BackTest] verifies a pack and, in the same pass, has a candidate judge its calls: which verdicts
// would be others under that stack. The candidate is a whole stack, with the overlays that calls
// were judged under or should be. It does not judge again a call that it has judged itself. For all
// others it is given the kept inputs of the call, and the past as the log has it:
//
//	caller, time, session       as they were
//	arguments                   as kept, with the defaults of then; the candidate's defaults are
//	                            filled in for what they lack
//	drivers, sandbox            as kept: a tool that was not declared then may have had none, and
//	                            whether a driver has another definition, which the candidate pins,
//	                            is not known
//	attestations, delegation    as presented, by the trust state of the entry
//	receipts, calls             of the log, also those that nobody asked for then, and whatever
//	                            the candidate would have let happen before
//	approvals                   as presented, used or not as the log says. They name a policy and
//	                            its declaration of the tool, so nearly all are for the stack of
//	                            then, and none for the candidate
//	balances                    the candidate's own, from nothing on: what it allows is charged to
//	                            its budgets, at its place in the log
//	idempotency keys            nothing: each call is judged by itself, also one that the same key
//	                            would have made a repeat
//
// Approvals are judged last, when all else holds. So a call that ran because people approved it,
// and now lacks nothing but approvals, is no denial: it counts apart, since people would have to
// be asked again, whichever and however many the candidate asks. It is charged as if they said yes.
// If approvals were presented and did not suffice then, and do not now, neither reason nor rule is
// compared.
//
// The charges of a call are refunded as the candidate says if the receipt in the log says that the
// tool itself failed. A call that was denied then and is allowed now stays charged: how it would
// have ended is not known. Calls that cannot be judged are taken to have gone as they did: their
// charges of then stay, to budgets of that name. So do those of calls that the candidate has judged
// itself. Balances are those at the places of the decisions; a kernel at work may have read older
// ones for a denial.
//
// The fields of [Judged] are compared. That other limits, charges or risks would have been recorded
// is no change.
//
// # Erasure
//
// Package evidence/erasure erases what a store keeps of calls besides their entries. The log stays
// as it is, so all that was proved of it stays proved, and checkpoints that were kept stay valid. A
// pack that is written afterwards lacks the blobs, and the report lists them as Erased.
//
// # Cost
//
// Verify reads headers and entries once, blobs when entries name them, and earlier entries when a
// policy asks for the past of a session. It holds no entry: some 46 bytes for each, 9 a blob, 256 a
// session, 64 for each idempotency key, balance, used approval and policy, 180 for an ALLOW without
// a receipt, the compiled policies in use, and the lists of the report; and the trust state, which
// grows by some 500 bytes with a key and 110 with a grant that was ended. Of the sessions whose
// past is asked for it holds at most 256 MiB, up to 1 GiB if a log would else be read again and
// again, and more for a single one alone: 112 bytes a run, and 96 more for each set of values that
// receipts are asked for by, up to 16 of these. Sessions that were dropped are read again. A blob
// of more than 64 MiB is refused. Nearly all the time goes into signatures; a trust event takes as
// long as its own signatures, and as its state is large. BackTest takes one judgement a call
// longer, and holds 8 bytes a change, whose entries it reads again, 8 for each call that cannot be
// judged, and the candidate's balances.
//
// If GOMAXPROCS allows several processors, goroutines open entries ahead of their turn: up to 16
// with the caller's, which alone reads and does all that hangs on the entries before. Each adds
// some 200 KiB. They end before Verify does, and change nothing of its answer: a fault of an entry
// is found in its turn, so the first fault in the log is the first one found.
//
// # Example
//
// This is a pack of one entry, its genesis, for base64 -d | gunzip:
//
//	H4sIAAAAAAAC/+yX3W7juBWA53qeYuHbpBuK+rEVYC7syFakhNTI0Y/JxV7oNyJFyo5lW5YWA/Qh+oR9kkLO7nZ326Jb
//	dHbaAXIAQUIYnz8envNRJg0ri/bwLW+3zbs/RgAAwNC0yxsA8Ns3NIyf117/rihTxXj3DXj3BeTYHpL9OwA+R5C/DO4r
//	kR8mu6QX2ySf3E6K3i3ze9HRJ8dwZAXy+8XgsdkpibVDbpsg7fVd2ptBbq8AjRWRNv4p50v2eOd2mYzqJMZVbofMa1pG
//	5PlEGvT63QhAN4h53O8Q6xiBppI2PvP4snUa95SqPvOYo2O4lgRGnEDMyBAJxFHnBaFKpXOmMuy92FERXDPM657EIcAy
//	qnGQ9SRwAJEu96yowpJAKv0zjZcdsiPpNKB1JN7SGO8z29xd7DKnw3bEMY8YtkMd8RCQYAkJXALKFwxDt8LDM6BxqKBh
//	JWiwhChGPRn8M5FI8eIQIBlCbK854osKW1Qg/gwc1jEa6yCTQmS9YxS9y4rN+vKNgrmO+o5lsKoQD6HDtwyPumxaY7mS
//	JHBULAnwLAIIpxWyMaMx5oT7Kg5WgsqV8KzRz1pF0lERj2rPqjgKnAHZfk95zvEQ6qh3zcc7d0839RjngK1MQTbRPdut
//	cSDG7HAv8CG1lwDHq4rErvACNBAZnnGwrrDtKMiqAQ1WHNsrRrnfexaBOJgrlGPuBbkY40zjqE/gWYTSPOV3Y70Qncak
//	o4Gjo4CyS36CTMUD5WTIALaxxDbqPZtKHKw4GsKB8KjGkgrCVwJLoqPRfjAHKPDPVKIeS2esrVMmRZPEGvOYKwp7dcjs
//	s3hs1iJT/VNqm83oT3bvnlJI7zO56pJlVWXwefx/iXl2JjCEnuXrJI4EGpyBWi4j8RIga67SoFY8a1Vhvq6xNe/xQACV
//	mNPA75DlDJSHPbIiRgJcY55XeEDqxR6MhgyKU/pTjf/TmnYrZIcKka6kfMwlZjheap71rCK+PFPp69SaQxJjQWXEPGsh
//	cBBCwuc6tUOdxs7gWSuBuagRdAC1HUglAZeabvCukCHz+Mr89fmLwmKzEGN9JfdrkN0j47E3m2Sz3uaxcyTQPDzCSqS2
//	sqcb90jj7pTYUZs+mQcS6zsqoyG/MyF6ckYbCpE7QcZYxGHqyPWOwnH9UttDYi97HJBLnr04ksgOe288R9wVmIcqHjJI
//	IFKxteaUj2elkpSHZzIgBUFHoRaVNHbONKDSC5aABGGHrSVAMeWIU/Z6dvUqjcN/vfeNkpf+hw+T658aWdDvisntJNnt
//	BMuSA9s2N6cm/5Y1fzpsD9urcc5Nricte26Sw3FftJPb736Y1EXPxhaoalMdlOYszXWzzMrM1Iw80fQkSdLCVNW0UHQt
//	0VIdmFqhZFqSlhqcGYYO9FLNzGnxqnlyO9Ggvgr73RXLdi99FV7tLbQZ9pjfXLnUuXfEXHZ7LV48Hc6LWSw/xrUKG3pz
//	7lTW2qeFvOt5etc9nlOxvpnuHp468pIFVvfhw+TT958+Z//PqiKrd1vWHP64GfNv5j+Ahvrb+Q8N8Db/v4QU50TuRPHt
//	oWgPN2L7/F55f1XMvId10usiV1OULwfQbW+UeyucbuKb/b28Wj+JxcIvO9l+eP/+r3/+yze/VfJNCU5XV3q2VVJ37ej+
//	R1fo+9Wc9bC981Stsh9KvtOTOwXAl+RkBs+R+fAxogt/RrN80w6AzB/X1nrIwmWizHu1PLjro17KuT6ffXj/7k0+4/43
//	hz0r2gv+i/8R/ytA/wf+h+rb+f+a+T+BkT4yCBpGfl1IL6gYtUKdSizJUAMs1xW2oorEK0aDekDQFSgY+XbNcDDXsT1y
//	wroikgDEnyHmYYdjMpChVunIJvJcpZvFKbsw13zkhFMq8YV7kDXvfufz+/nSXvUXtu8dI1ZG/lr0dEMud4n/wN7vfn5k
//	zLPDt93jnTvQDR6S2DyO8Y1ruS0Ol33iToc4OSCrPiC+ClHgGyhABuLz46gnZiPHrft8g8H4W2qJCvPnM43XkgQLQS1H
//	QdCHNF5XdLx3BGQgQQiotVSpNe9RHKrYQhoNcokHpJHA0QhHPZUOxLySJCYD7kcbVGQN3qVQ+5xM2tBYFxkUw6NKzpec
//	qBFLZMRHBo3VllFbNPQS227qNHhLAkfBbKxfXycB0VAc1VQuOxr7PR4ZXkY1iQkc73sILhVs+2cM/Q6Nd5DBHzw7VCnP
//	Bs9e9p7tDEhShjnRqFxJNGSsfOpYKlevuZeRRmKlS+3wmNsXbm5TmLEyUsz/Nx49Fps84NsrWByvmLcx9/NSebgiq6ME
//	Rbapl4O+kC/W8/3mZX81P7VWlFazqXXXPmmmh2PXuzl4fD6LXmZGTG6c+fHpeIKLH3n0bSJ/vZKKbdre5GZizJQiLxNQ
//	5FBXc6PIk9JIFENNdC1XpjmASjHV1FkxLafqLIGzVIVlahizMinV6X/H/waEv57/UFE17W3+f5n5X+63Q9FMbstEtMX1
//	2HleW9Dn6j9NIsf+Vxf7phBjWzymgmWT2wnbcq5ufHdGN2Z4aA8fH3d51u6au3SWi4WTztQnZ576H1OlG6/3+634lZ6W
//	NVkxuQWfrn/0NTVgMTOmZQJLVU3KwoC5nhupYmiwUAyo5LqmqmA604wUJvo0nZnTYqoAUzHTqTEF5t99FdvnXzo6Devt
//	mfF116Yvho+0eiUj8iSoO+wyclND3K7s1UN/j83lLxx9VfKzl99fT/bFaVsX+eT2u++vJ4dqX7TVVuSTW3A9ORX7lm2b
//	ya3y6a0nvcmbvMmXkb8FAAD//xVI3fsAHAAA
//
// Its log is example.test/log, the key that signed the genesis (Options.Kernel) is
//
//	8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c
//
// and it verifies: LOGGED, of size 1, with the Merkle root
//
//	f9ef0e2916b2e657776cc744cf4c28ff51c353b5d6feb1e6f914a504141fc26b
package evidence

// Package evidence makes packs of a log and verifies them offline: that nothing was removed,
// reordered, changed or inserted, and that every verdict that can be replayed has the same result.
//
// [Write] makes the pack of a store, [Verify] reports what a pack proves to this caller, and
// [VerifyStore] reports the same of a store, in place:
//
//	state, err := registry.ParseState(trustJSON) // from another source than the pack
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
// policy documents, which must be there; the inputs of judgements, the outputs of tools, their
// facts and the texts of user messages, as far as they are kept. The checkpoint is a C2SP
// tlog-checkpoint over the RFC 6962 root of the entries. The manifest names the other members and
// is signed by a kernel key. Each header is the only one that its name and size may have; archives
// that other programs write otherwise are refused, and nothing is ever decompressed.
//
// [OpenPack] verifies a pack and returns it to be read like a store: entries, blobs and checkpoint.
// Bytes that it reads again are compared with the hashes that were verified. So if the file changes
// meanwhile, it returns errors, and never other bytes. Package evidence/graph answers which entries
// led to which.
//
// # Excerpts
//
// A pack shows the whole log to those who read it. An excerpt shows one receipt: [WriteExcerpt]
// writes it and its decision, a C2SP tlog-proof of each, the checkpoint that the proofs lead to
// and, if asked, inputs, output and facts of the call. [VerifyExcerpt] checks the two entries by
// themselves and against each other, their proofs, the checkpoint and its cosignatures:
//
//	err := evidence.WriteExcerpt(ctx, f, store, evidence.Excerpt{Receipt: 1204})
//	…
//	report, err := evidence.VerifyExcerpt(ctx, f, size, evidence.Options{Trust: state})
//
// This proves that the kernel signed the decision and how the call ended, and that the log of the
// checkpoint has both. No verdict is replayed: an excerpt has neither the policy documents nor what
// was before the call. Nor does it show anything else of the log: its chains, its budgets, its
// trust events. A pack does. A pack and an excerpt with the same Report.Size and Report.MerkleRoot
// are of the same log, which has the receipt.
//
// Options.Trust is here any trust state of the log at the receipt or later, because an excerpt
// holds no trust events. The initial state will do while keys of that state sign. To trust a later
// one, compare its digest with the Report.Trust of a pack.
//
// A store that let go of an entry has its hash still, so the entry can be proved as long as anyone
// has it: see [Excerpt].
//
// # Stores
//
// VerifyStore verifies a log in place: a directory that was opened for reading
// (filestore.OpenReadOnly) while a kernel writes to it, or a store of this process. It verifies up
// to the latest checkpoint, as far as a pack of the store would reach, and the report counts the
// entries after it. A store has no archive and no manifest, and blobs that no entry names cannot be
// seen in it. Everything else is checked as in a pack, with the same result. The owner of a store
// may show an old one, as the owner of a pack may: set Last here too.
//
// # Trust
//
// Trust entries of a log add keys, revoke them, replace the roots, end grants, freeze and unfreeze.
// Verify starts with the initial trust state, which its caller passes and the genesis names, and
// applies each event in its place (registry.State.Apply): the entries before it are judged by the
// state before it, the entries after it by the state after it, and manifest and checkpoint, of size
// n, by the state after entry n-1. So entries that a key signed before it was revoked stay valid,
// and nothing that it signs afterwards is. An auditor needs the initial state and no other, however
// often keys were changed since; [Report].Trust is the digest of the last one. Write checks its key
// by the state at the checkpoint in the same way.
//
// # Witnesses
//
// The holder of the log key can show one log to one auditor and another log to the next. A witness
// cosigns checkpoints of a log only if each goes on from the one before it (C2SP tlog-cosignature,
// by Ed25519). An auditor who trusts some witnesses passes their verifier keys, and how many must
// have cosigned:
//
//	o.Witnesses = []string{"w1.example+a0b1c2d3+BAEC…", "w2.example+…", "w3.example+…"}
//	o.Quorum = 2
//
// A pack that is LOGGED and that a quorum cosigned is WITNESSED, and this is then the level that
// is asked for. Without the log's own line it is INTACT, no matter who cosigned. Cosignatures that
// were made after the pack are in a checkpoint that comes with it: pass it as Options.Cosigned.
// Times are as the witnesses say. This package has no clock, so it is for the caller to see that
// Report.Witnesses are not of too long ago.
//
// # Stubs
//
// A log may let go of calls: what its policies allow, after the time that they say, and of sessions
// that are closed. A condense entry, signed as every entry, says which: its set. From then on each
// entry of the set stands in a store or a pack as itself or as its stub, a line of a few hundred
// bytes that is not signed, and that the condense entry covers together with the others of the set.
// From stubs everything follows that other entries depend on: hashes, chains, causes, the pairing
// of decisions and receipts, balances, keys that are used once, taint and labels, and what
// judgements were told of the past. So the rest of the log is verified as before, and old
// checkpoints and receipts stay provable. Verify computes each set again from the policies and the
// log. So, as far as the stubs show, nothing was let go of that may not go, and a set lacks
// nothing.
//
// What a stub does not have, nobody can verify: by whom the call was made, with which arguments,
// and whether the verdict was right. A kernel that lies may even write the stub of a harmless call
// in the place of another one. There are two ways not to take its word:
//
//	o.Seen = append(o.Seen, r.Hash) // of each Range r in an earlier report with no Stubs
//	o.Kept = append(o.Kept, entry)  // a receipt that was kept: is the stub in its place its own?
//
// The first is for auditors who verify the log after a condense entry was written and before
// anything was let go of; package evidence/kept does it. The second is for those who have single
// entries. [Report].Condensed lists all condense entries, and says how many stubs there are of each
// and whether someone has Seen them whole. A stub that is not that of a kept entry is GAP.
//
// A kernel whose clock was set ahead could let go of entries too early. So if a quorum cosigned, a
// condense entry that is more than 5 minutes later than the witnesses' time is COSIGN.
//
// docs/FORMATS.md in this repository specifies packs (section 8) and the entries in them, byte for
// byte, for authors of other verifiers.
//
// # Checks
//
// They fire in this order, and the first that fails is the answer, an [Error] that is one of the
// exported errors:
//
//	INPUT       what the caller passed: reader and size, or store; trust root, origin, last
//	            checkpoint, witnesses, quorum, cosigned checkpoint, level; the candidate of a
//	            back-test
//	ARCHIVE     headers re-encoded and compared, names, order, padding, end; a pack that cannot be
//	            read, or is another one when it is read again; an excerpt of a denial that has a
//	            decision, or of another receipt that has none
//	STORE       for a store, in place of ARCHIVE: it cannot be read, at whatever place, or is no
//	            store: it panics, or returns other bytes when it is read again
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
//	GAP         of a condense entry: size, root, number and stubs of its set are those that follow
//	            from the log; of a stub: it is that of the entry in Options.Kept
//
// and after them
//
//	GAP         a stub is of the set of a condense entry
//	MERKLE      size and root of the checkpoint are the log's; the proofs of an excerpt lead from
//	            the entries to that root, and have one spelling
//	CHECKPOINT  the member checkpoint: three lines, origin, and the log key's line, which is the
//	            first and verifies; and the cosigned checkpoint that the caller passed has the
//	            same three lines; and the checkpoints in proofs are the member
//	MANIFEST    the member manifest.json of a pack: envelope, key, signature, and each claim
//	BLOB        the content of each hashes to its name and has its form, and a policy document has
//	            the layer, name and version that its entry says; no required one is missing, and
//	            none is in a pack that no entry names
//	REPLAY      the guardian makes the same decision from the kept inputs and the documents, in
//	            every field, with pending and the approvals that count; inputs agree with
//	            decision, entry and log; outputs with the entries that name them and with the
//	            response schema that the tool pins; facts and signals with outputs, and with what
//	            the tool declares; the sandbox of a receipt with that of the inputs, and its gas
//	            with what was granted
//	RERUN       a call that ran in a closed sandbox, run again, ends as its receipt says; only if
//	            Options has a Rerun
//	COSIGN      a line that has the name and the key hash of one of Options.Witnesses is its
//	            cosignature of the checkpoint; no condense entry is later than the witnesses' time
//
// A verdict whose inputs are missing, because they were erased or never kept, or that another
// version of the engine made, is counted and named, and is no fault. If only the inputs are
// missing, effect, risk and time limit are still compared with the documents. Kept inputs of
// another engine are compared with decision and entry, and not with the log: what that engine reads
// of the past is not known. The kernel's own refusals, which no policy makes, are compared as far
// as their inputs show.
//
// The kept inputs contain what the verdict depended on of the session's past: how many calls it
// had, which receipt of a tool was the latest, which approvals were used. REPLAY reads the same
// from the log, and the two must agree in all of it, nothing more and nothing less. So a kernel
// that left out a call, an earlier receipt or a used approval is found, even though the verdict
// that it signed follows from its claims. Which receipt has equal values in the arguments of its
// call depends on the inputs of that call. If these are missing, the receipt that the kept inputs
// name is accepted if it may be the one: an EXECUTED receipt of that session and tool with that
// time, later than all that can be read. In the same way kept inputs decide whether an approval is
// used, if an earlier call of the same kind consumed approvals that are missing.
//
// How much the user and the tools had said, and whether the session was tainted and its labels,
// always follow from the log: of a tool its documents say what a receipt brings, for whatever
// engine they are. Which values were found in texts and facts depends on these. If some of them are
// missing, what was found is as the inputs say, and [Replay].Unseen counts the source; the same
// holds of what was read of one receipt's facts. A kernel that could not read them denied, and its
// inputs lack the source or the facts: that is accepted. Facts and signals of a receipt are
// compared with the output, if it was kept, and in any case with what the tool declares.
//
// Policies that [guardian.Compile] refuses, which may be of a later version, are refused by name
// under REPLAY.
//
// Of an excerpt these are done: INPUT; ARCHIVE; ENCODING to RECORD of each entry; REFERENCE and
// BUDGET between the two, as far as they show it; MERKLE; CHECKPOINT; BLOB; COSIGN. A key is judged
// at the index that the entry's proof says. If that cannot be read, MERKLE takes the place of KEY.
//
// With [Options].CrossCheck another implementation canonicalises all JSON that ours found
// canonical, and must leave it unchanged: entries under ENCODING, the manifest under MANIFEST,
// blobs under BLOB.
//
// # Runs again
//
// A sandbox is closed if its run is a function of the module, the grants, the arguments and the
// decision alone (contracts.Sandbox.Closed). An auditor who has these can derive the receipt. With
// [Options].Rerun, which package sandbox provides, each such call is run again, with the gas that
// its receipt says was used and no more. What it returns goes through the tool's output limit and
// the pinned response schema, as in the executor. Reason, gas, outputHash and outputForm must then
// be the receipt's: that is RERUN. The output itself need not be kept.
//
// So neither the kernel nor the host can have put another output into the place of the one that the
// module computes. That the module does what its name says is not proved: [Rerun].Unpinned counts
// the runs whose module no demand of the policy lists, so that the host chose what ran. Nor is it
// proved that a call was made only once. Who holds the kernel's key may try decisions, until the
// random numbers or the time that follow from one give an output that they like.
//
// Every other receipt of a sandbox is counted by why it was not run, and none of them counts as the
// same. A receipt that leaves out the sandbox which the inputs have is found by REPLAY.
//
// # Back-tests
//
// [BackTest] verifies a pack and, in the same pass, judges its calls again by a candidate, to find
// which verdicts would change. The candidate is a whole stack, with the overlays that calls were
// judged under or should be. It does not judge again a call that it has judged itself. For each
// other call it gets the kept inputs, and the past from the log:
//
//	caller, time, session       as they were
//	arguments                   as kept, with the defaults filled in at that time; the candidate's
//	                            defaults are filled in if anything is still missing
//	drivers, sandbox            as kept: a tool that was not declared at that time may have had no
//	                            driver, and whether a driver has the definition that the candidate
//	                            pins is not known
//	attestations, delegation    as presented, by the trust state of the entry
//	receipts, calls             those of the log, also if no policy asked for them at that time,
//	                            and whatever the candidate would have allowed before
//	sources, facts              as kept, by the pointers of the candidate's facts: what an earlier
//	                            policy did not extract is not there
//	taint, labels               what the receipts of the log bring as the candidate declares their
//	                            tools, with the signals that were recorded
//	approvals                   as presented, and used or not as the log says. They name a policy
//	                            and its declaration of the tool, so nearly all are for the earlier
//	                            stack, and none for the candidate
//	balances                    the candidate's own, which begin with nothing spent: what it
//	                            allows is charged to its budgets, at its place in the log
//	idempotency keys            not used: each call is judged by itself, also one that the same
//	                            key would have made a repeat
//
// Approvals are judged last, when all else holds. So a call that ran because people approved it,
// and now lacks nothing but approvals, is no denial: it is counted apart, since people would have
// to be asked again, whichever and however many the candidate asks. It is charged as if they had
// approved. If approvals were presented that did not suffice, and do not suffice now, neither
// reason nor rule is compared.
//
// The charges of a call are refunded as the candidate says if the receipt in the log says that the
// tool itself failed. A call that was denied and would now be allowed stays charged: how it would
// have ended is not known. Calls that cannot be judged are taken to have ended as they did: their
// charges in the log count for budgets of that name. So do the charges of calls that the candidate
// has judged itself. Balances are those at the places of the decisions; a running kernel may have
// read older ones for a denial.
//
// The fields of [Judged] are compared. If other limits, charges or risks would have been recorded,
// that is no change.
//
// # Erasure
//
// Package evidence/erasure erases the data that a store keeps of calls besides their entries. The
// log stays as it is, so everything that was proved of it stays proved, and checkpoints that were
// kept stay valid. A pack that is written afterwards lacks the blobs, and the report lists them as
// Erased.
//
// # Cost
//
// Verify reads headers and entries once, blobs when entries name them, the entries of a range once
// more at its condense entry, and earlier entries when a policy asks for the past of a session. It
// holds no entry: some 49 bytes for each, of which 4 are for taint and labels, up to 30 more for a
// stub, 9 a blob, 256 a session, 64 for each idempotency key, balance, used approval and policy,
// 180 for an ALLOW without a receipt, a bit a label and up to 512 bytes for each set of labels that
// a session had, the compiled policies in use, and the lists of the report; and, while a condense
// entry is verified, up to 60 for each entry of its set, which has at most 1,048,576; and the trust
// state, which grows by some 500 bytes with a key and 110 with a grant that was ended. Of the
// sessions whose past is asked for it holds at most 256 MiB, up to 1 GiB if a log would else be
// read again and again, and more for a single one alone: 112 bytes a run, and 96 more for each set
// of values that receipts are asked for by, up to 16 of these; 64 a message, 48 a facts document,
// and up to 4 for each byte of what was said by sources that are asked. Sessions that were dropped
// are read again. A blob of more than 64 MiB is refused. Nearly all the time goes into signatures;
// a trust event takes that of its own signatures, and a judgement after one that of writing out the
// trust state. BackTest takes one judgement a call longer. It holds 8 bytes a change, whose entries
// it reads again, 8 for each call that cannot be judged, the candidate's balances, and the taint
// and labels that sessions have by it.
//
// A run again takes the time that its module takes, within RerunGas, and reads the inputs of its
// call again. Up to 64 MiB of modules are held, and the arguments of the calls that are under way,
// two for each goroutine; what runs has its own memory.
//
// If GOMAXPROCS allows several processors, goroutines open entries ahead of their turn: up to 16
// with the caller's, which alone reads, and does everything that depends on earlier entries. Each
// adds some 200 KiB. They end before Verify does, and do not change its answer: a fault of an entry
// is reported in its turn, so the first fault in the log is the answer.
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

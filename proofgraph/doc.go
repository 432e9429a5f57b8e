// Package proofgraph keeps a log of signed entries: in one order, linked into chains, under one Merkle root.
//
// [Open] a log over a [Store], take a place for the next entry of a session's [Chain] with [Log.Place], sign what happened with
// [Slot.Sign], and act on it when [Slot.Wait] says that it is durable. [Log.Checkpoint] signs the whole. [NewMemory] is a store that ends
// with the process. Add no entry and no checkpoint to a store that a log is open over: it has one writer. Blobs may be erased meanwhile
// ([Eraser]), and put back. What the records mean, and whether a signature is of a key that may sign, is not known here: see packages
// contracts and evidence.
//
// # Entries and how they stand
//
// An entry is the bytes of a DSSE envelope around an in-toto statement, at most 32,768 of them, its payload at most 16,384; package contracts
// has their form. "Its hash" is the RFC 6962 leaf hash SHA-256(0x00 ‖ entry), which covers the signature. Entries are numbered from 0 in the
// one order of the log. Each has a header:
//
//	session  the chain that it is part of; "" is the kernel's own, which begins with genesis
//	seq      0, 1, 2 … within the session
//	prev     hash of the session's entry before; of genesis where seq is 0; 64 zeros for genesis itself
//	parents  hashes of at most 32 other entries that caused this one: sorted, unique, durable when it was placed
//	lamport  0 for genesis, else 1 + the greatest among prev and parents
//	time     at least that of the session's entry before
//
// So prev and parents always stand earlier in the log, and a session whose last entry closes it has no further one.
//
// # Places before bytes
//
// Order is fixed before anything is signed. Place appends an empty [Slot] to a queue, under the log's lock, and can call back under it: what
// the callback books is booked in log order. The header is final then; the bytes of an entry name what is before it, not its number. Many
// sessions sign at once, in any order, while each session signs one entry at a time and may sign the next before the last is durable.
//
// Nothing is written past a place that is not signed yet. There is no timer and no goroutine behind the log: of those who wait, one writes
// the longest signed prefix of the queue by one Store.Append, then hands that task to one who waits for the next. An Append is never
// cancelled, and there is one at a time, of at most 1,024 entries and about 4 MiB. Who comes alone writes its own entry, at once.
//
// The queue has no limit of its own, because what has happened must find a place. Who places what may wait holds it back: see helm.Kernel.Guard.
//
// # Failing closed
//
// A place that cannot be signed, or was given up, is a hole; an Append that fails or panics leaves unknown what is stored. Either seals the
// log: whoever waits for what was not being written, and whoever comes later, gets [ErrSealed] with the first cause, and nothing is written
// any more. What was being written is durable or not as its Append says. Who opens the store again goes on from what is there.
//
// A log can also be ended in good order: [Log.PlaceLast] takes a place behind which there is none, and the log is sealed when its entry is durable.
//
// Open reads each entry once. It checks form, order and links, and the store's checkpoint against the entries, so that a store which lost or
// exchanged entries below it is noticed. It verifies no signature: that is for those who do not trust the store.
//
// # Checkpoints
//
// A [Checkpoint] is a C2SP tlog-checkpoint, a signed note with a body of exactly three lines: the log's name, the number of entries in
// decimal, the base64 of their RFC 6962 root. Signature lines follow an empty line, that of the log key first. This one
//
//	example.com/log
//	2
//	AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=
//
//	— example.com/log P0pBm4DxpOjI6bUKSmfITjyN+QcWth1Er6Ji5tV6eN06QAZdIuKUTO9GKbLyYnRCC1NIAEcBri81FVEd9RJ+Z0aKTAo=
//
// verifies under this key, which is in the form that tools for signed notes take ([VerifierKey])
//
//	example.com/log+3f4a419b+AVOJqTV8bbLifI8EBiciE5ORT9cRcqbMmNbuIj3B3LhG
package proofgraph

// Package proofgraph keeps a log of signed entries: in one order, linked into chains, under one
// Merkle root.
//
// [Open] a log over a [Store], place the next entry of a session's [Chain] with [Log.Place], which
// signs it, and act on it after [Slot.Wait] returned nil: then it is durable. [Log.Checkpoint]
// signs the whole log. [NewMemory] is a store that ends with the process. While a log is open over
// a store, nothing else may add entries or checkpoints to it. Blobs may be erased meanwhile
// ([Eraser]), and put back, and stubs may take the places of entries ([Condenser]). This package
// does not know the meaning of records, nor whether a key may sign: see packages contracts and
// evidence.
//
// # Entries and their headers
//
// An entry is the bytes of a DSSE envelope around an in-toto statement. It has at most 32,768
// bytes, its payload at most 16,384; package contracts documents the form. Its hash is the RFC 6962
// leaf hash SHA-256(0x00 ‖ entry), which covers the signature. Entries are numbered from 0 in the
// one order of the log. Each has a header:
//
//	session  the chain that it is part of; "" is the kernel's own, which begins with genesis
//	seq      0, 1, 2 … within the session
//	prev     hash of the session's entry before; of genesis if seq is 0;
//	         64 zeros for genesis itself
//	parents  hashes of at most 32 other entries that caused this one: sorted, unique,
//	         durable when it was placed
//	lamport  0 for genesis, else 1 + the greatest among prev and parents
//	time     at least that of the session's entry before
//
// So prev and parents are always earlier in the log, and a session whose last entry closes it has
// no further one.
//
// # Places before bytes
//
// The order is fixed before anything is signed, and what an entry says may follow from its place.
// So Place takes a [Draft]. It appends an empty [Slot] to a queue, under the log's lock, and calls
// Draft.Take under that lock: so that runs in log order. The header is final then; the bytes of an
// entry name the entries before it, not its index. Without the lock Place calls Draft.Write, which
// returns the record, and signs it. Many sessions do that at once, in any order. Each session signs
// one entry at a time and may sign the next before the last is durable.
//
// Nothing is written after a place that is not signed yet. The log has no timer and no goroutine of
// its own. One of the waiting goroutines writes the longest signed prefix of the queue by one
// Store.Append, and then hands that task to one that waits for the next. An Append is never
// cancelled. There is one at a time, of at most 1,024 entries and about 4 MiB. A goroutine that is
// alone writes its own entry at once.
//
// The queue has no limit of its own, because an event that has happened must find a place. A caller
// that may wait has to be held back before it places: see helm.Kernel.Guard.
//
// # Failing closed
//
// A place whose entry cannot be made or signed is a hole. An Append that fails or panics leaves
// it unknown what is stored. Either seals the log: every goroutine that waits for an entry that was
// not being written, and every later call, gets [ErrSealed] with the first cause, and nothing is
// written any more. An entry that was being written is durable or not as its Append reports. A log
// that is opened over the store again goes on from the entries that are there.
//
// A log can also be ended in good order: Draft.End says that an entry is the last one, and the log
// is sealed when that is durable.
//
// Open reads each entry once, in a goroutine that ends with it. It checks form, order and links,
// and the store's checkpoint against the entries, so that it notices a store that lost or exchanged
// entries below the checkpoint. It verifies no signature: that is for a reader who does not trust
// the store.
//
// # Logs of years
//
// A log holds 44 bytes for each entry, by which later entries find those that they name. It forgets
// the entries of the set of a condense entry: no later entry may name one of them, and a
// [Condenser] may have stubs in their places. The caller says which entries a set has
// (Options.Condensed, Draft.Forget). Every leaf hash stays, and so does the root at every size.
//
// Open can go on from a [Prefix], which [Fold] makes of the first entries of a log. It then reads
// the entries after these, and those before them only when a later one names them ([Log.Find]). So
// it notices no change of an earlier entry but of the first and the last. To open a log from a
// prefix is to trust it: the caller signs it before a [Rememberer] keeps it.
//
// # Several writers
//
// Over a [Shared] store several logs write at once. Place then waits until the entry is durable.
// One of the goroutines that wait writes for all of them: it makes their entries on what the log
// remembers, and has the store compare that with what holds. If the log has moved it takes a turn,
// in which nobody else writes, reads what holds, and makes the entries again. An entry that was
// judged on what does not hold has no place: Place returns [ErrMoved], and its caller reads the
// session with [Log.Follow] and judges again. Nobody knows the index of an entry before it is
// durable, but for drafts with Turn.
//
// A sealed log leaves the store, so that the other writers settle what it has open.
//
// # Checkpoints
//
// A [Checkpoint] is a C2SP tlog-checkpoint, a signed note with a body of exactly three lines: the
// log's name, the number of entries in decimal, the base64 of their RFC 6962 root. Signature lines
// follow an empty line, that of the log key first. This one
//
//	example.com/log
//	2
//	AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=
//
//	— example.com/log P0pBm4DxpOjI6bUKSmfITjyN+QcWth1Er6Ji5tV6eN06QAZdIuKUTO9GKbLyYnRCC1NIAEcBri81FVEd9RJ+Z0aKTAo=
//
// verifies under this key, in the form that tools for signed notes read ([VerifierKey])
//
//	example.com/log+3f4a419b+AVOJqTV8bbLifI8EBiciE5ORT9cRcqbMmNbuIj3B3LhG
package proofgraph

// Package archivist knows what a log has let go of, and lets go of more.
//
// A condense entry says that stores may let go of a set of entries: package condense computes it.
// An [Archivist] reads every line of a log once, when the log is opened ([Archivist.Line]), and the
// condense entries ([Archivist.Condensed]), whose sets the log then forgets. [Archivist.Condense]
// finds the ranges that further condense entries are written for, and [Archivist.Drop] has the
// store put stubs in the place of the entries of sets.
//
// # What it holds
//
// A bit for each entry of a set, and one more for each entry in the range of a set as long as
// members of that set stand whole in the store; the latest time every 1,024 entries, and the nodes
// of the Merkle tree every 65,536; the index of each policy, and which documents it has. While a
// log is opened it also holds 40 bytes for each stub before its condense entry.
//
// # Ranges
//
// A range begins at a multiple of 65,536, or it ends there, or both: a set of 1,024 members, the
// least, may come from a range of so many entries. A window of 16 times as many, the longest range
// that there is, is read at once. If it has too few members the best part of it is taken that is
// whole blocks. What no range takes now goes with a later one.
package archivist

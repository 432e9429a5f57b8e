// Package archivist knows what a log has let go of, and lets go of more.
//
// A condense entry says that stores may let go of a set of entries: package condense computes it.
// An [Archivist] is told of every line of a log once, when the log is opened ([Archivist.Line]),
// and of the condense entries ([Archivist.Condensed]): the log then forgets their sets. If the log
// is opened from a state, the archivist is loaded from it ([Archivist.Load]), and told of the lines
// after it. [Archivist.Condense] finds the ranges that further condense entries are written for,
// and [Archivist.Drop] has the store put stubs in the place of the entries of sets.
//
// # What it holds
//
// A bit for each entry of a set, and one more for each entry in the range of a set as long as
// members of that set stand whole in the store; the latest time every 1,024 entries, and the nodes
// of the Merkle tree every 8,192; the index of each policy, and which documents it has. While a
// log is opened it also holds 40 bytes for each stub before its condense entry.
//
// # Ranges
//
// A window of 1,048,576 entries, the longest range that there is, is read at once, and its range is
// from the first to the last entry that may go. If too few may, its best part is taken, of some
// times 65,536 entries: a set of 1,024 members, the least, may come from a range of so many.
// What no range takes now goes with a later one. The first window of the first Condense begins with
// the log, that of a later one with the first entry that may go and has not: before it are entries
// of sets, and those that stay for ever.
//
// # What it believes
//
// A line of the store can be exchanged after it was read, or below a state. So ranges are read in
// whole blocks, which must have the nodes of the log's tree, and a stub is believed if a condense
// entry that was compared with it covers it. Besides its hash, a stub of an earlier set is not
// compared again while the log is open.
package archivist

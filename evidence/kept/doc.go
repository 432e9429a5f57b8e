// Package kept keeps the last checkpoint that an auditor has seen of a log, in a file that only
// moves forward. An old pack then does not pass for the latest, nor a rewritten log for the
// original.
//
//	report, err := evidence.Verify(ctx, pack, size, options) // the first time, of a new log
//	…
//	err = kept.Begin("log.checkpoint", report)
//	…
//	report, err = kept.Verify(ctx, "log.checkpoint", pack, size, options) // from then on
//
// The file holds a checkpoint as the log has signed it (C2SP tlog-checkpoint), and nothing else. To
// begin, a checkpoint that the log has published will do. If Options.Level asks for no more than
// INTACT, the checkpoint need not be signed by a log key. [Verify] and [VerifyStore] pass it to the
// functions of package evidence as Options.Last. They replace it only if the report is a success,
// its history is FRESH, and its checkpoint is larger. After any other answer (STALE, DIVERGED,
// UNPINNED, a lower level than was asked for, INVALID, an error) the file is unchanged, to the
// byte. If there is no file there is no answer, so a mistyped path does not switch history off. A
// file that holds no checkpoint, or one of another log, is an error.
//
// # Condense entries
//
// Of entries that a log has let go of only stubs are left. That the stubs are those of the entries
// is the kernel's word, unless the log was verified before that. So next to the checkpoint is a
// second file, with its name and the suffix .seen: the hashes of the condense entries whose sets
// stood whole when they were verified, one on a line, in 64 hex digits. Verify and VerifyStore pass
// them to package evidence as Options.Seen. They add to them under the same conditions under which
// they replace the checkpoint, and before they do. A checkpoint of the same size is not replaced,
// and the hashes of its report are added. If there is no such file there are no hashes; a file that
// holds anything else is an error. It holds 65,536 hashes at most: of a log that has more, nothing
// is kept, and that is an error.
//
// # Failures
//
// The new note is written to a file in the same directory, synced and renamed, and the directory is
// synced. If the process or the machine ends in between, the file holds the old note or the new
// one, whole. A file with its name and the suffix .tmp may be left over, and can be removed. If the
// new note cannot be kept, because the disk is full for example, there is an error and no report,
// since the next pack would be held to less than this one.
//
// Many goroutines and processes may verify against one file at once. If another auditor has moved
// the file in the meantime, a pack is verified again, so that each answer is by the checkpoint that
// is in the file, or was when the question was asked. Auditors agree by a lock (flock(2)) on the
// file, which they hold while they move it and no longer: the file must be on a local file system.
// On systems without flock nothing can be kept.
//
// Anyone who may write to the directory may put an old note back: the operator of the log must not
// be able to.
package kept

// Package kept keeps the checkpoint that an auditor has seen last of a log, in a file that only moves forward. An old pack then does not pass
// for the latest, nor a log that was written anew for the one that it was.
//
//	report, err := evidence.Verify(ctx, pack, size, options) // the first time, of a new log
//	…
//	err = kept.Begin("log.checkpoint", report)
//	…
//	report, err = kept.Verify(ctx, "log.checkpoint", pack, size, options) // from then on
//
// The file holds a checkpoint as the log has signed it (C2SP tlog-checkpoint), and nothing else: one that the log has published will do to begin
// with. Where Options.Level asks for no more than INTACT, no log key need have signed it. [Verify] and [VerifyStore] give it to those of package
// evidence as Options.Last. They put another in its place only where the report is a success, its history is FRESH, and its checkpoint is larger.
// After any other answer (STALE, DIVERGED, UNPINNED, a lower level than was asked for, INVALID, an error) the file is what it was, to the byte.
// Without a file there is no answer, so a path that is mistyped does not switch history off; and what is there and is no checkpoint, or one of
// another log, is an error.
//
// # What may go wrong
//
// The new note is written beside the file, synced, renamed, and the directory is synced. Whatever ends the process or the machine in between,
// the file has the old note or the new one, whole; a file of its name that ends in .tmp may be left, and be removed. Where the new note cannot be
// kept, by a full disk say, there is an error and no report, since the next pack would be held to less than this one.
//
// Many goroutines and processes may verify against one file at once. A pack is verified again where another auditor has moved the file in the
// meantime, so that each answer is by the checkpoint that is there, or was when it was asked. They agree by a lock (flock(2)) on the file, held
// while it is moved and no longer: the file must be on a local file system. On systems without flock nothing can be kept.
//
// Whoever may write to the directory may put an old note back: it must not be who runs the log.
package kept

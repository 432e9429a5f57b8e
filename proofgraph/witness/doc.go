// Package witness cosigns checkpoints of logs, so that nobody is shown another history of a log.
//
// A log that shows one history to its auditor and another to its customer signs both. A [Witness]
// keeps the latest checkpoint of each log that it knows, and adds its signature to a later one
// only if a proof shows that this extends it. Who asks for the signatures of witnesses whom the
// log does not own sees the history that all others see.
//
//	key, err := crypto.LoadKey(file) // signs nothing else
//	…
//	w := &witness.Witness{
//		Name: "witness.example.com/w1",
//		Key:  key,
//		Logs: func(origin string) []string { return known[origin] }, // verifier keys, by origin
//		State: state,
//	}
//	line, err := w.Add(ctx, old, proof, note)
//
// It cosigns any log whose checkpoints [proofgraph.ParseCheckpoint] reads, of whatever software.
// The package has no network and keeps nothing itself: the module integrations/witness has a State
// in a directory, and serves [Witness.Add] over HTTP (C2SP tlog-witness).
//
// # Cosignatures
//
// A cosignature is a line of a C2SP tlog-cosignature, Ed25519:
//
//	— name base64(key hash ‖ time ‖ signature)
//
// The key hash is the first 4 bytes of SHA-256(name ‖ LF ‖ 0x04 ‖ public key), the time 8 bytes,
// big endian, seconds since 1970, and the signature 64 bytes over
//
//	cosignature/v1
//	time 1790000000
//	example.com/log
//	2
//	AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=
//
// where each line ends with LF. The last three are the body of the checkpoint, which is this one,
// with the line of its log and that of a witness:
//
//	example.com/log
//	2
//	AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=
//
//	— example.com/log P0pBm4DxpOjI6bUKSmfITjyN+QcWth1Er6Ji5tV6eN06QAZdIuKUTO9GKbLyYnRCC1NIAEcBri81FVEd9RJ+Z0aKTAo=
//	— witness.example.com/w1 EACK6wAAAABqsTuA2FF3lgcd9plOG1rhUrtRUGvUFas5Z/n7EhzxSJ7k9WadCwr0ZzqzLpPTsqKkTxyp7VSFSyNzLgp5rGi3doccBg==
//
// The keys are
//
//	example.com/log+3f4a419b+AVOJqTV8bbLifI8EBiciE5ORT9cRcqbMmNbuIj3B3LhG
//	witness.example.com/w1+10008aeb+BG56HN0psLeP0Tr0xVmP7/TvKpcWbjym8uT7/M2AUFvx
//
// The time is that of the witness's clock. It may be earlier than in a line before, if the clock
// was set back. A time is never 0.
//
// # What is promised
//
// Whatever fails and whenever the process ends, a witness whose [State] holds what it promises
// never returns lines for two roots of one size, or for a checkpoint that does not extend every
// one that it returned a line for. The line is made, the note with it is durable in the state, and
// then the line is returned. If the note of another request was swapped in meanwhile, Add begins
// again and returns what holds then, mostly a [Conflict]. A line that was made and not returned is
// dropped.
//
// The note in the state has the body, the lines of the log that verified, one a key, and the line
// of the witness. All other lines are passed over: they may be of other witnesses, or of anyone.
//
// # Limits
//
// A note has at most 1,000,000 bytes and 100 lines, three lines of body, and no extension lines.
// At most 99 lines of a log are kept. A signer that is not in memory has 10 s for a signature, and
// may owe 64. A panic of the state, the signer, the clock or Logs is an error. A clock that leaps
// ahead by more than a day is one too, until it has gone on for a minute, if it is time.Now. No
// error contains a key, or anything of the note but why it is no checkpoint.
package witness

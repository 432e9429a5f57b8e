// Package witness runs a witness of logs: a state in a directory, and the HTTP interface of C2SP
// tlog-witness over a [witness.Witness], which package proofgraph/witness documents. It has the
// client of that interface as well.
//
//	state, err := httpwitness.DirState("/var/lib/witness") // a directory that exists
//	…
//	w := &witness.Witness{Name: "witness.example.com/w1", Key: key, Logs: logs, State: state}
//	server := &http.Server{
//		Addr:         "localhost:8080",
//		Handler:      httpwitness.Handler(w),
//		ReadTimeout:  10 * time.Second,
//		WriteTimeout: 30 * time.Second,
//	}
//	err = server.ListenAndServe()
//
// Here httpwitness is this package and witness is proofgraph/witness.
//
// # Requests
//
// A log asks for a cosignature by POST /add-checkpoint. The body has the size of the latest
// checkpoint that the witness cosigned of it, or 0, at most 63 hashes of an RFC 6962 consistency
// proof in base64, an empty line, and the checkpoint:
//
//	old 2
//	e2tLMjRS+Qq8nSCjSb1+gBRwMCBsXkIV2c3vyDgI0vo=
//
//	example.com/log
//	3
//	…
//
// The answers are
//
//	200  the signature lines of the witness
//	400  the body is not of this form or has more than 65,536 bytes, or old is above the size
//	404  the witness does not know the log
//	403  no known key of the log has signed the checkpoint
//	409  old is not the size of the latest checkpoint; the body is that size, of the type
//	     text/x.tlog.size
//	422  another root of the same size, or the proof does not hold
//	500  the state, the signer or the clock has failed, and no line was made known
//
// The first that applies is the answer, in the order of [witness.Witness.Add]. After a 500 the
// state may have the checkpoint: ask again. GET /<hex SHA-256 of the origin>/checkpoint returns the
// latest checkpoint that was cosigned of a log, with the lines of log and witness, or 404. To serve
// under a prefix, use [http.StripPrefix].
//
// Requests need no authentication: the signature of the log is one. The witness says nothing of
// logs that it does not know, and verifies nothing for them. Limit connections and their rate
// before the handler.
//
// # Asking for cosignatures
//
// A log asks the witnesses of a policy, which is a file of the form of C2SP tlog-policy:
//
//	policy, err := httpwitness.ParsePolicy(text)
//	…
//	var client httpwitness.Client
//	note, err := client.Cosign(ctx, prover, checkpoint, policy)
//
// The note has the lines of the checkpoint and those of the witnesses. [Client.Cosign] asks all
// witnesses at once, with the size that each cosigned last or 0, and a witness that answers 409
// once more, with the size that it says. A witness that knows a larger checkpoint than this one is
// an error: two logs have one name and key, or the log was put back. A line counts if it verifies
// under the key in the policy, whatever else the answer says. An answer has at most 65,536 bytes,
// and redirects are not followed.
//
// # The directory
//
// One file for each log, named by the SHA-256 of its origin in hex and the suffix .checkpoint,
// holds the latest note. A new note is written to a file in the directory, synced and renamed, and
// the directory is synced, before the line is returned. If the process or the machine ends in
// between, the file holds the old note or the new one, whole. A file with the suffix .tmp may be
// left over, and can be removed while no witness runs. A file that holds no checkpoint of its log
// is an error, and the witness cosigns nothing of that log until the file is put right.
//
// Many goroutines and processes may use one directory. They agree by flock(2), so the directory
// must be on a local file system. On systems without flock [DirState] returns an error.
//
// A witness that forgets may cosign a second history. An empty directory is a witness that has
// cosigned nothing: never use it with a key that has signed, and never put back an older copy of a
// directory. If the directory is lost, use another name and key.
package witness

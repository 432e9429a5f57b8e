// Package filestore keeps a log in files: a [proofgraph.Store] that survives the process, and the
// machine.
//
//	store, err := filestore.Open("/var/lib/agent/log", filestore.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close() // after Kernel.Close
//	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: store})
//
// A batch that [Store.Append] acknowledged is on stable storage, whole, and is there after a crash
// of the process, of the system and of the power, as far as the disk keeps what it says that it
// keeps. A batch that was not acknowledged is there whole, or not at all. One process at a time may
// write to a log; any number may read it meanwhile ([OpenReadOnly]).
//
// The directory must be on a local file system: locks and syncs of network file systems promise
// less. On systems without flock(2) Open is refused. Limits: 1 GiB a batch, 4 GiB a segment, 2^32 -
// 1 blobs. A store uses 4 bytes of memory an entry and 48 a blob.
//
// # Files
//
//	lock            locked by the process that writes, as is the directory; its number in decimal
//	end             how far the log was acknowledged
//	00000001.log    segments, of about 64 MiB: the log itself. Copy a log in use by Store.Copy
//	00000001.index  offsets in a full segment. Derived: written again if it is missing or wrong,
//	                as after blobs of it were erased
//	hashes          of the log's Merkle tree, 34.2 bytes an entry. Derived: see Hashes
//	state           what a kernel remembers of the log. Not believed: see State
//	*.new           not yet in its place; removed by the next Open
//
// A file that is none of these is an error, and so are a missing segment, a link and a pipe. Files
// are created with mode 0600 and the directory with 0700, because they contain the arguments of
// calls. No batch is acknowledged once the segment that it went to was removed, moved or replaced,
// and no checkpoint once the file end was.
//
// A segment is a header, frames, and zeros. Numbers are little-endian, checksums CRC-32C:
//
//	header      "helm log segment" version[4] number[4] first[8] log[32] chain[4] checksum[4]
//	            version 2 has times[4] ended[4] before its checksum
//	frame       begin, blobs, a checkpoint if there is one, entries, end: what one Append stored,
//	            at most 1 GiB
//	record      kind[1] 0[3] size[4] checksum[4] body
//	'B' begin   at[8] entries[4] blobs[4] size[8] chain[4] mark[4]
//	            size of the frame; chain before it
//	'D' blob    digest[32] bytes
//	'X' erased  a blob, its bytes overwritten: only the kind was changed, not the checksum
//	'C' checkpoint
//	'E' entry
//	'S' stub    of an entry, in its place; in segments of version 2 alone
//	'Z' end     chain[4] blank[4] mark[8]    512-byte sectors of the frame that are all zeros
//	'N' next    chain[4] 0[4] mark[8]    in place of a frame: the log goes on in the next segment
//
// A record's checksum covers the header's, the record's offset, kind, size and body; of a blob's
// body only the digest, so that its bytes can be erased. The chain is a checksum over the checksums
// of all records in order, from segment to segment. So a record that was moved does not check.
// Checksums detect accidents. Entries are signed against attackers.
//
// # Hashes
//
// A store is a [tlog.HashReader] of the log's RFC 6962 hashes, by which inclusion and consistency
// are proved in a few small reads. The file hashes has those of complete subtrees of 1, 16, 256 …
// entries, as tiles of 16. It is written after the entries are on stable storage, and synced only
// by Close. No other file refers to it, and it can be removed.
//
// It is not believed. What is in it counts if it leads to the root of the latest checkpoint. The
// entries after those of the checkpoint are hashed again, and each tile that is read is checked by
// the root of all. Open, and the Append of a checkpoint, hash up to 4,096 entries that are missing.
// If more are, as in an old log, or if the file is wrong or of another log, ReadHashes hashes them
// all first: it reads the entries, some 300 to 500 MB a second, and no Append waits for it. A read-
// only store writes nothing: it holds the hashes of up to 524,288 entries in memory, and returns an
// error if more are missing. On a full disk up to twice as many are held. Copy leaves the file out.
//
// # State
//
// A store is a [proofgraph.Rememberer]. The file state has the value that was saved last. It is
// written into a file of its own, synced and renamed, and the directory is synced. No other file
// refers to it, it can be removed, and Copy leaves it out. Numbers are little-endian:
//
//	"helm log's state" version[4] size[4] checksum[4] bytes
//
// The checksum is a CRC-32C of all the rest. A file that does not check is an error of
// [Store.State] and of nothing else. Programs that do not know the file refuse the directory until
// it is removed.
//
// # After a crash
//
// A frame is written by one write into zeros that are in the file already, then synced, and no
// frame is begun before that. A crash leaves a part of the last frame's bytes from its beginning
// on, or any of its 512-byte sectors, and zeros for the rest. Open drops such a frame, which was
// never acknowledged. Everything else that does not check is damage, and refused with file and
// offset: a flipped bit, a file that was cut (at least 64 zeros follow the last frame of a log, so
// a cut shows), a frame before others. The records of a full segment are checked when they are
// read, and its frames by Open if it has no index.
//
// The bytes of a segment cannot show that they were overwritten with zeros. So the file end says
// how far the log was acknowledged, and Open refuses a log that ends before, or has other frames
// there. The file is written after each frame, and synced only by Close: after a crash of the
// system it may be some seconds old. A log without it, of an earlier version, is opened, and has
// one from then on. To open an older copy over which a later end was left, remove that.
//
// # Erased blobs
//
// [Store.EraseBlob] changes a blob's record in its place: first its kind, which marks it, and when
// that is on stable storage its bytes, in each copy that a batch brought. A crash in between leaves
// the mark: no read returns the bytes, they are not taken for damage, and the next Open overwrites
// them before it does anything else. They are not overwritten with zeros, because a sector of zeros
// looks as if it had never been written. [OpenReadOnly] finishes no erasure; it does not return a
// blob that another process has marked.
//
// The blob's size and SHA-256 stay, so a guess of the bytes can be checked. Bytes that left the
// directory are not reached: copies, by [Store.Copy] or others, packs, snapshots, and blocks that a
// file system, or a drive that writes elsewhere, no longer uses.
//
// # Condensed segments
//
// [Store.Condense] writes a full segment again, into a file next to it. In the place of some
// entries it has their stubs; blobs that were forgotten or erased are left out, and so are
// checkpoints but the last. The file is synced and renamed over the old one, and the directory is
// synced. So a crash leaves one of the two, and each of them is the segment: a log has segments of
// both kinds in any order, and a part of it may be put back from an older copy. Blobs go first from
// segments that were condensed before, and then the segments follow in ascending order: so no crash
// leaves a blob of which no entry tells any more that it is to be forgotten.
//
// Its version is 2. Number, first, log and chain are those of the segment that was written first,
// times counts how often it was condensed since, and ended is the chain at the end that it had
// first, which the next segment begins with. It is always full, is never written to but to erase
// blobs, and ends with at least 64 zeros. The frames are other ones, of about 1 MiB. Programs that
// know version 1 only refuse it, and name the version.
//
// A process that has the old file open goes on with it. If it opens the new one, the header shows
// that, and it reads the segment again. An index is believed only with the file that it was made
// of.
//
// Condensing takes as much free disk as the largest segment, for as long as it lasts. What goes is
// not overwritten, unlike an erased blob: the old file's blocks are free then. Blobs that stay were
// in them too, so a blob that is erased later may be left in such blocks, as it may be in a copy.
//
// # Dead stores
//
// After an error of a write or a sync a store is dead, because it is then unknown what is on the
// disk. The log over it seals. Opening the directory again finds what was stored. An error of
// Condense does not matter in that way, unless it was ending the last segment.
package filestore

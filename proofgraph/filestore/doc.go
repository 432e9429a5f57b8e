// Package filestore keeps a log in files: a [proofgraph.Store] that survives the process, and the machine.
//
//	store, err := filestore.Open("/var/lib/agent/log", filestore.Options{})
//	if err != nil {
//		return err
//	}
//	defer store.Close() // after Kernel.Close
//	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: store})
//
// What [Store.Append] acknowledged is on stable storage, whole, and is there after a crash of the process, of the system and of the power, as
// far as the disk keeps what it says that it keeps. What was not acknowledged is there whole, or not at all. A log is for one process at a
// time; any number may read it meanwhile ([OpenReadOnly]).
//
// The directory must be on a local file system: locks and syncs of network file systems promise less. On systems without flock(2) Open
// is refused. Limits: 1 GiB a batch, 4 GiB a segment, 2^32 - 1 blobs. In memory are 4 bytes an entry and 48 a blob.
//
// # Files
//
//	lock            of the process that writes: locked while it lives, as is the directory, and its number in decimal
//	00000001.log    segments, of about 64 MiB: what the log is. Of a log that is written to, Store.Copy makes a copy
//	00000001.index  what is where in a full segment. Derived: written anew where it is missing or wrong, as after blobs of it were erased
//	*.new           not yet in its place; removed by the next Open
//
// A file that is none of these is an error, and so is a segment that is missing: a log loses nothing by itself. Files are created with
// mode 0600 and the directory with 0700, for arguments of calls stand in them.
//
// A segment is a header, frames, and zeros. Numbers are little-endian, checksums CRC-32C:
//
//	header      "helm log segment" version[4]=1 number[4] first[8] log[32] chain[4] checksum[4]
//	frame       begin, blobs, a checkpoint if there is one, entries, end: what one Append stored, at most 1 GiB
//	record      kind[1] 0[3] size[4] checksum[4] body
//	'B' begin   at[8] entries[4] blobs[4] size[8] chain[4] mark[4]    size of the frame; chain before it
//	'D' blob    digest[32] bytes
//	'X' erased  a blob, its bytes overwritten: the kind alone was changed, and the checksum is that of 'D'
//	'C' checkpoint
//	'E' entry
//	'Z' end     chain[4] blank[4] mark[8]    512-byte sectors of the frame that are all zeros
//	'N' next    chain[4] 0[4] mark[8]    in the place of a frame: the log goes on in the next segment
//
// A record's checksum covers the header's, the record's offset, kind, size and body; of a blob's body only the digest, so that its bytes can be
// erased. The chain is a checksum over the checksums of all records in order, from segment to segment. So a record that stands anywhere but
// where it was written does not check. They guard against accidents; against people, entries are signed.
//
// # What a crash leaves
//
// A frame is written by one write into zeros that are in the file already, then synced, and none is begun before that. A crash leaves of the
// last one a part of its bytes from its beginning on, or any of its 512-byte sectors, and zeros for the rest. Open drops such a frame: it
// has not been acknowledged. All else that does not check is damage, and refused with file and offset: a flipped bit, a file that was cut
// (at least 64 zeros follow the last frame of a log, so a cut shows), a frame before others. What a full segment holds is checked when it is
// read, and its frames by Open where it has no index.
//
// # What is erased
//
// [Store.EraseBlob] changes a blob's record where it stands: first its kind, which marks it, and when that is on stable storage its bytes, in
// each copy that a batch brought. A crash in between leaves the mark: nobody is given the bytes, they are not taken for damage, and the next
// Open overwrites them before anything else is done. They become no zeros, lest a sector of them look as if it had never been written.
// [OpenReadOnly] completes nothing; what another process has marked it does not give.
//
// Its size and its SHA-256 stay: whoever can guess the bytes can check the guess. What left the directory is not reached: copies, by
// [Store.Copy] or others, packs, snapshots, and the blocks that a file system or a drive that writes elsewhere has given up.
//
// After an error of a write or a sync a store is dead, since what is on the disk is unknown then. The log over it seals, and opening the
// directory anew tells.
package filestore

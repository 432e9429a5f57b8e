package filestore

import (
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// frameBytes is about how many bytes of records a frame of a condensed segment has.
const frameBytes = 1 << 20

// A rewriting writes a segment again, into another file and without what goes.
type rewriting struct {
	header
	old      *segment
	from, to disk.File
	place    // in the new file
	entries  []uint32
	blobs    map[uint32]uint32 // of blobs that stay: the new offset, by the old one
	rest     func()            // is called after each frame

	frame []rewritten // the frame that is collected
	bytes []byte      // the bodies of its records
	buf   []byte
}

// A rewritten is a record of a frame that is collected. Its body is a part of the rewriting's
// bytes.
type rewritten struct {
	kind     byte
	at       uint32 // in the old file
	from, to int
}

// newRewriting begins to write a full segment into an empty file. The blobs that stay are those at
// the offsets that are in blobs.
func newRewriting(
	old *segment, from, to disk.File, blobs map[uint32]uint32, rest func(),
) (*rewriting, error) {
	r := &rewriting{header: old.header, old: old, from: from, to: to, blobs: blobs, rest: rest}
	r.header.times, r.header.ended = old.times+1, old.nextChain()
	b := r.header.encode()
	r.place = place{end: r.start(), tail: r.chain}
	_, err := to.WriteAt(b, 0)
	return r, err
}

// add adds a record to the frame that is collected.
func (r *rewriting) add(kind byte, at uint32, body []byte) error {
	if len(r.frame) > 0 && len(r.bytes)+len(body) > frameBytes {
		if err := r.flush(); err != nil {
			return err
		}
	}
	from := len(r.bytes)
	r.bytes = append(r.bytes, body...)
	r.frame = append(r.frame, rewritten{kind, at, from, len(r.bytes)})
	return nil
}

// flush writes the frame that was collected: blobs, a checkpoint, entries.
func (r *rewriting) flush() error {
	var blobs, entries []rewritten
	var note *rewritten
	for i, x := range r.frame {
		switch x.kind {
		case kindBlob:
			blobs = append(blobs, x)
		case kindCheckpoint:
			note = &r.frame[i]
		default:
			entries = append(entries, x)
		}
	}
	size := beginSize + endSize + recordHead*len(r.frame) + len(r.bytes)
	if uint64(r.end)+uint64(size)+endSize+trailer > maxSegment {
		return fmt.Errorf("%s: its stubs are longer than its entries were: a segment of more than %d bytes", r.old.path,
			uint32(maxSegment))
	}
	w := writer{header: &r.header, buf: r.buf[:0], base: uint64(r.end), chain: r.tail}
	w.begin(r.first+uint64(len(r.entries)), len(entries), len(blobs), size)
	digest := len(contracts.Digest{})
	for _, x := range blobs {
		body := r.bytes[x.from:x.to]
		r.blobs[x.at] = w.record(kindBlob, body[:digest], body[digest:])
	}
	if note != nil {
		r.note = w.record(kindCheckpoint, r.bytes[note.from:note.to], nil)
	}
	for _, x := range entries {
		r.entries = append(r.entries, w.record(x.kind, r.bytes[x.from:x.to], nil))
	}
	w.end(kindEnd)
	if _, err := r.to.WriteAt(w.buf, int64(r.end)); err != nil {
		return err
	}
	r.end, r.tail = r.end+uint32(len(w.buf)), w.chain
	r.frame, r.bytes, r.buf = r.frame[:0], r.bytes[:0], w.buf
	if err := r.to.Sync(); err != nil { // now: the syncs of appends wait for those of others
		return err
	}
	r.rest()
	return nil
}

// finish ends the file, and makes it durable. More frames may follow in the place of that end.
func (r *rewriting) finish() error {
	if len(r.frame) > 0 {
		if err := r.flush(); err != nil {
			return err
		}
	}
	w := writer{header: &r.header, base: uint64(r.end), chain: r.tail}
	w.end(kindNext)
	if _, err := r.to.WriteAt(append(w.buf, zeros[:trailer]...), int64(r.end)); err != nil {
		return err
	}
	return r.to.Sync()
}

// copy adds the records of the old file: in the place of an entry its stub, if there is one, and no
// blob that goes. more is called before each record.
func (r *rewriting) copy(stub func(index uint64) []byte, more func() error) error {
	var (
		w       = window{file: r.from, segment: r.old, least: frameBytes}
		chain   = r.old.chain
		entry   = r.first
		note    []byte
		hasNote = false
	)
	for at := r.old.start(); at < r.old.end; {
		if err := more(); err != nil {
			return err
		}
		rec, err := w.read(at)
		if err != nil {
			return err
		}
		switch rec.kind {
		case kindBlob:
			if _, stays := r.blobs[at]; stays {
				err = r.add(kindBlob, at, rec.body)
			}
		case kindCheckpoint: // the latest is enough
			note, hasNote = append(note[:0], rec.body...), true
		case kindEntry, kindStub:
			kind, body := rec.kind, rec.body
			if line := stub(entry); line != nil {
				kind, body = kindStub, line
			}
			err = r.add(kind, at, body)
			entry++
		}
		if err != nil {
			return err
		}
		chain = chainSum(chain, rec.sum)
		at += recordHead + uint32(len(rec.body))
	}
	if chain != r.old.tail || entry != r.first+uint64(len(r.old.entries)) {
		return &damage{r.old.path, uint64(r.old.end), "records of another course than was read before"}
	}
	if hasNote {
		return r.add(kindCheckpoint, 0, note)
	}
	return nil
}

// keep adds blobs, by their old offsets, that do not go after all.
func (r *rewriting) keep(blobs []uint32) error {
	w := window{file: r.from, segment: r.old}
	for _, at := range blobs {
		b, err := w.record(at, kindBlob)
		if err != nil {
			return err
		}
		if err := r.add(kindBlob, at, b); err != nil {
			return err
		}
	}
	return nil
}

// segment returns the segment that the new file is.
func (r *rewriting) segment() *segment {
	r.entryCount, r.blobCount = uint32(len(r.entries)), uint32(len(r.blobs))
	blobs := make([]uint32, len(r.old.blobs)) // by the same numbers
	for i, at := range r.old.blobs {
		blobs[i] = r.blobs[at]
	}
	return &segment{
		header: r.header, path: r.old.path, entries: r.entries, blobs: blobs, firstBlob: r.old.firstBlob,
		place: r.place, before: r.place, full: true,
	}
}

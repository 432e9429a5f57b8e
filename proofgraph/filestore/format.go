package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/helmkernel/helm/contracts"
)

// Sizes in bytes. Numbers in files are little-endian.
const (
	headerSize = 72
	recordHead = 12 // kind, three zeros, length of the body, checksum
	beginSize  = recordHead + 32
	endSize    = recordHead + 16
	room       = 64  // zeros that follow the last frame: where the file ends before them, it was cut
	sector     = 512 // what a disk writes whole or not at all
	maxFrame   = 1 << 30
	maxSegment = math.MaxUint32 // offsets have 32 bits
)

// The kinds of records. None is zero, nor is the last byte of a frame.
const (
	kindBegin      = 'B' // of a frame
	kindBlob       = 'D' // digest, bytes; the checksum covers the digest and not the bytes
	kindErased     = 'X' // was 'D', and its checksum is that of it; three bits of the two differ
	kindCheckpoint = 'C'
	kindEntry      = 'E'
	kindEnd        = 'Z' // of a frame
	kindNext       = 'N' // in the place of a frame: the log goes on in the next segment
)

var (
	magic   = [16]byte([]byte("helm log segment"))
	endMark = [8]byte([]byte("\xa5\x5aframe\xa5")) // a flipped bit makes no zero of the last byte
	table   = crc32.MakeTable(crc32.Castagnoli)
	zeros   [1 << 20]byte // never written to
)

// A header begins a segment.
type header struct {
	number uint32           // 1, 2, 3 …
	first  uint64           // index of the first entry
	log    contracts.Digest // of the log's first batch: which log this is
	chain  uint32           // what the segment before ends with
	sum    uint32           // checksum of all that; part of that of each record
}

func (h *header) encode() []byte {
	b := append([]byte(nil), magic[:]...)
	b = binary.LittleEndian.AppendUint32(b, 1) // version of the format
	b = binary.LittleEndian.AppendUint32(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.first)
	b = append(b, h.log[:]...)
	b = binary.LittleEndian.AppendUint32(b, h.chain)
	h.sum = crc32.Checksum(b, table)
	return binary.LittleEndian.AppendUint32(b, h.sum)
}

func (h *header) decode(b []byte) error {
	switch {
	case len(b) < headerSize || !bytes.Equal(b[:16], magic[:]):
		return errors.New("not a segment of a log")
	case binary.LittleEndian.Uint32(b[16:]) != 1:
		return fmt.Errorf("a segment of format %d; this program knows format 1", binary.LittleEndian.Uint32(b[16:]))
	case crc32.Checksum(b[:headerSize-4], table) != binary.LittleEndian.Uint32(b[headerSize-4:]):
		return errors.New("the header of the segment is damaged")
	}
	*h = header{
		number: binary.LittleEndian.Uint32(b[20:]),
		first:  binary.LittleEndian.Uint64(b[24:]),
		log:    contracts.Digest(b[32:64]),
		chain:  binary.LittleEndian.Uint32(b[64:]),
		sum:    binary.LittleEndian.Uint32(b[68:]),
	}
	return nil
}

// checksum is that of a record: it covers where the record is, so one that stands elsewhere is damage too.
func (h *header) checksum(offset uint64, kind byte, size int, covered []byte) uint32 {
	var place [20]byte
	binary.LittleEndian.PutUint32(place[:], h.sum)
	binary.LittleEndian.PutUint64(place[4:], offset)
	place[12] = kind
	binary.LittleEndian.PutUint32(place[16:], uint32(size))
	return crc32.Update(crc32.Update(0, table, place[:]), table, covered)
}

// link makes one checksum of all records up to here, in their order.
func link(chain, sum uint32) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], sum)
	return crc32.Update(chain, table, b[:])
}

// A writer appends records to what will stand at an offset.
type writer struct {
	*header
	buf   []byte
	base  uint64
	chain uint32
}

// record appends one and gives its offset. Its body is in two parts; of a blob only the first is covered by the checksum.
func (w *writer) record(kind byte, head, tail []byte) uint32 {
	at, size := len(w.buf), len(head)+len(tail)
	w.buf = append(w.buf, kind, 0, 0, 0)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(size))
	w.buf = append(w.buf, 0, 0, 0, 0)
	w.buf = append(w.buf, head...)
	sum := w.checksum(w.base+uint64(at), kind, size, w.buf[at+recordHead:])
	w.buf = append(w.buf, tail...)
	binary.LittleEndian.PutUint32(w.buf[at+8:], sum)
	w.chain = link(w.chain, sum)
	return uint32(w.base) + uint32(at)
}

// begin opens a frame: the batch at that index, of so many entries and blobs, in so many bytes.
func (w *writer) begin(at uint64, entries, blobs, size int) {
	var b [beginSize - recordHead]byte
	binary.LittleEndian.PutUint64(b[:], at)
	binary.LittleEndian.PutUint32(b[8:], uint32(entries))
	binary.LittleEndian.PutUint32(b[12:], uint32(blobs))
	binary.LittleEndian.PutUint64(b[16:], uint64(size))
	binary.LittleEndian.PutUint32(b[24:], w.chain)
	copy(b[28:], endMark[4:])
	w.record(kindBegin, b[:], nil)
}

// end closes a frame, or the segment.
func (w *writer) end(kind byte) {
	var b [endSize - recordHead]byte
	binary.LittleEndian.PutUint32(b[:], w.chain)
	binary.LittleEndian.PutUint32(b[4:], blanks(w.buf, w.base))
	copy(b[8:], endMark[:])
	w.record(kind, b[:], nil)
}

// blanks counts the sectors that are all zeros of what stands at an offset, from its beginning up to the sector that it ends in, which has
// something of an end record.
func blanks(b []byte, offset uint64) (n uint32) {
	for first := sector - offset%sector; first <= uint64(len(b)); first = sector {
		if blank(b[:first]) {
			n++
		}
		b = b[first:]
	}
	return n
}

// A record is one that was read: its checksum is right.
type record struct {
	kind byte
	body []byte
	sum  uint32
}

// read takes the record at an offset of b, which begins at base.
func (h *header) read(b []byte, base, offset uint64) (record, bool) {
	b = b[min(offset-base, uint64(len(b))):]
	if len(b) < recordHead || b[1]|b[2]|b[3] != 0 {
		return record{}, false
	}
	kind, size, sum := b[0], binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if uint64(size) > uint64(len(b)-recordHead) {
		return record{}, false
	}
	body := b[recordHead : recordHead+int(size)]
	covered, written := body, kind
	if kind == kindBlob || kind == kindErased {
		covered, written = body[:min(len(body), len(contracts.Digest{}))], kindBlob
	}
	if written == kindBlob && len(body) < len(contracts.Digest{}) || h.checksum(offset, written, int(size), covered) != sum {
		return record{}, false
	}
	return record{kind, body, sum}, true
}

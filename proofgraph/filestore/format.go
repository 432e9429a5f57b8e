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
	longHeader = 80 // of a condensed segment
	recordHead = 12 // kind, three zeros, length of the body, checksum
	beginSize  = recordHead + 32
	endSize    = recordHead + 16
	trailer    = 64  // zeros that follow the last frame: a file that ends before them was cut
	sector     = 512 // what a disk writes whole or not at all
	maxFrame   = 1 << 30
	maxSegment = math.MaxUint32 // offsets have 32 bits
)

// The kinds of records. None is zero, nor is the last byte of a frame.
const (
	kindBegin      = 'B' // of a frame
	kindBlob       = 'D' // digest, bytes; the checksum does not cover the bytes
	kindErased     = 'X' // was 'D' and keeps its checksum; the two kinds differ in three bits
	kindCheckpoint = 'C'
	kindEntry      = 'E'
	kindStub       = 'S' // of an entry, in its place; in condensed segments alone
	kindEnd        = 'Z' // of a frame
	kindNext       = 'N' // in place of a frame: the log goes on in the next segment
)

var (
	magic   = [16]byte([]byte("helm log segment"))
	endMark = [8]byte([]byte("\xa5\x5aframe\xa5")) // its last byte is not one flipped bit away from zero
	table   = crc32.MakeTable(crc32.Castagnoli)
	zeros   [1 << 20]byte // never written to
	le      = binary.LittleEndian
)

// overwritten is what the bytes of an erased blob become. It is never written to.
var overwritten = bytes.Repeat([]byte{kindErased}, 64<<10)

// allZeros reports whether b is all zeros.
func allZeros(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// A header is the beginning of a segment.
type header struct {
	number uint32           // 1, 2, 3 …
	first  uint64           // index of the first entry
	log    contracts.Digest // identifies the log: a digest of its first batch
	chain  uint32           // the chain at the end of the segment before
	times  uint32           // how often it was condensed; 0: never, and then the version is 1
	ended  uint32           // if it was condensed: the chain at its end before that
	sum    uint32           // checksum of the fields above; part of the checksum of each record
}

func (h *header) encode() []byte {
	b := append([]byte(nil), magic[:]...)
	b = le.AppendUint32(b, h.version())
	b = le.AppendUint32(b, h.number)
	b = le.AppendUint64(b, h.first)
	b = append(b, h.log[:]...)
	b = le.AppendUint32(b, h.chain)
	if h.times > 0 {
		b = le.AppendUint32(b, h.times)
		b = le.AppendUint32(b, h.ended)
	}
	h.sum = crc32.Checksum(b, table)
	return le.AppendUint32(b, h.sum)
}

// version returns the version of the format.
func (h *header) version() uint32 {
	if h.times > 0 {
		return 2
	}
	return 1
}

// start returns the length of the header, which is the offset of the first frame.
func (h *header) start() uint32 {
	if h.times > 0 {
		return longHeader
	}
	return headerSize
}

func (h *header) decode(b []byte) error {
	if len(b) < headerSize || !bytes.Equal(b[:16], magic[:]) {
		return errors.New("not a segment of a log")
	}
	d := header{
		number: le.Uint32(b[20:]),
		first:  le.Uint64(b[24:]),
		log:    contracts.Digest(b[32:64]),
		chain:  le.Uint32(b[64:]),
	}
	switch version := le.Uint32(b[16:]); version {
	case 1:
	case 2:
		if len(b) >= longHeader {
			d.times, d.ended = le.Uint32(b[68:]), le.Uint32(b[72:])
		}
		if d.times == 0 {
			return errDamagedHeader
		}
	default:
		return fmt.Errorf("a segment of format %d; this program knows formats 1 and 2", version)
	}
	if !bytes.Equal(d.encode(), b[:d.start()]) {
		return errDamagedHeader
	}
	*h = d
	return nil
}

var errDamagedHeader = errors.New("the header of the segment is damaged")

// original returns the checksum that the header had before the segment was condensed.
func (h header) original() uint32 {
	h.times = 0
	h.encode()
	return h.sum
}

// condenses reports whether the segment is what became of another one, which was condensed.
func (h *header) condenses(other *header) bool {
	return h.times > other.times && h.original() == other.original() &&
		(other.times == 0 || h.ended == other.ended)
}

// checksum returns the checksum of a record. It covers the record's offset, so that a record that
// was moved does not check.
func (h *header) checksum(offset uint64, kind byte, size int, covered []byte) uint32 {
	var place [20]byte
	le.PutUint32(place[:], h.sum)
	le.PutUint64(place[4:], offset)
	place[12] = kind
	le.PutUint32(place[16:], uint32(size))
	return crc32.Update(crc32.Update(0, table, place[:]), table, covered)
}

// chainSum adds the checksum of a record to the chain, a checksum of all records in their order.
func chainSum(chain, sum uint32) uint32 {
	var b [4]byte
	le.PutUint32(b[:], sum)
	return crc32.Update(chain, table, b[:])
}

// A writer encodes records that will be written at an offset.
type writer struct {
	*header
	buf   []byte
	base  uint64
	chain uint32
}

// record appends a record and returns its offset. The body is in two parts, because the checksum of
// a blob covers only the first.
func (w *writer) record(kind byte, head, tail []byte) uint32 {
	at, size := len(w.buf), len(head)+len(tail)
	w.buf = append(w.buf, kind, 0, 0, 0)
	w.buf = le.AppendUint32(w.buf, uint32(size))
	w.buf = append(w.buf, 0, 0, 0, 0)
	w.buf = append(w.buf, head...)
	sum := w.checksum(w.base+uint64(at), kind, size, w.buf[at+recordHead:])
	w.buf = append(w.buf, tail...)
	le.PutUint32(w.buf[at+8:], sum)
	w.chain = chainSum(w.chain, sum)
	return uint32(w.base) + uint32(at)
}

// begin appends the begin record of a frame: the batch's index, its numbers of entries and blobs,
// its size in bytes.
func (w *writer) begin(at uint64, entries, blobs, size int) {
	var b [beginSize - recordHead]byte
	le.PutUint64(b[:], at)
	le.PutUint32(b[8:], uint32(entries))
	le.PutUint32(b[12:], uint32(blobs))
	le.PutUint64(b[16:], uint64(size))
	le.PutUint32(b[24:], w.chain)
	copy(b[28:], endMark[4:])
	w.record(kindBegin, b[:], nil)
}

// end appends the last record of a frame, or of the segment.
func (w *writer) end(kind byte) {
	var b [endSize - recordHead]byte
	le.PutUint32(b[:], w.chain)
	le.PutUint32(b[4:], zeroSectors(w.buf, w.base))
	copy(b[8:], endMark[:])
	w.record(kind, b[:], nil)
}

// zeroSectors counts the sectors of b that are all zeros, if b is written at an offset. The sector
// that b ends in is not counted, since it has a part of the end record.
func zeroSectors(b []byte, offset uint64) (n uint32) {
	for first := sector - offset%sector; first <= uint64(len(b)); first = sector {
		if allZeros(b[:first]) {
			n++
		}
		b = b[first:]
	}
	return n
}

// A record is one that was read and whose checksum is right.
type record struct {
	kind byte
	body []byte
	sum  uint32
}

// read returns the record at an offset of the file. b is the part of the file that begins at base.
func (h *header) read(b []byte, base, offset uint64) (record, bool) {
	b = b[min(offset-base, uint64(len(b))):]
	if len(b) < recordHead || b[1]|b[2]|b[3] != 0 {
		return record{}, false
	}
	kind, size, sum := b[0], le.Uint32(b[4:]), le.Uint32(b[8:])
	if uint64(size) > uint64(len(b)-recordHead) {
		return record{}, false
	}
	body := b[recordHead : recordHead+int(size)]
	covered, written := body, kind
	if kind == kindBlob || kind == kindErased {
		covered, written = body[:min(len(body), len(contracts.Digest{}))], kindBlob
	}
	if written == kindBlob && len(body) < len(contracts.Digest{}) ||
		h.checksum(offset, written, int(size), covered) != sum {
		return record{}, false
	}
	return record{kind, body, sum}, true
}

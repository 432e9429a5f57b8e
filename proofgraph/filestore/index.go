package filestore

import (
	"bytes"
	"hash/crc32"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// The index of a full segment contains the offsets in it. It is derived: if it is missing, or is of
// another segment or of the same before it was condensed, or is damaged, the segment is read.
//
//	"helm log index 1" | header's checksum | end | tail | note | entries | blobs
//	| offset of each entry | digest and offset of each blob | checksum
//
// Blobs that were erased are not in it. Before a blob of a segment is erased, the segment's index
// is removed. An index of an earlier version may have them, with the offset 0.
var indexMagic = []byte("helm log index 1")

const (
	indexHead = 16 + 6*4
	indexBlob = len(contracts.Digest{}) + 4
)

// encodeIndex encodes the index of a full segment. The digests of blobs are in digests, by number.
func (s *segment) encodeIndex(digests *proofgraph.Index) []byte {
	b := append([]byte(nil), indexMagic...)
	blobs := 0
	for _, at := range s.blobs {
		if at != 0 {
			blobs++
		}
	}
	for _, n := range [...]uint32{s.sum, s.end, s.tail, s.note, uint32(len(s.entries)), uint32(blobs)} {
		b = le.AppendUint32(b, n)
	}
	for _, at := range s.entries {
		b = le.AppendUint32(b, at)
	}
	for i, at := range s.blobs {
		if at != 0 {
			digest := digests.Hash(s.firstBlob + uint64(i))
			b = le.AppendUint32(append(b, digest[:]...), at)
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b, table))
}

// decodeIndex fills in a segment whose header is known. If b is not its index, decodeIndex returns
// false and changes nothing.
func (s *segment) decodeIndex(b []byte) bool {
	if len(b) < indexHead+4 || !bytes.HasPrefix(b, indexMagic) || le.Uint32(b[16:]) != s.sum ||
		crc32.Checksum(b[:len(b)-4], table) != le.Uint32(b[len(b)-4:]) {
		return false
	}
	entries, blobs := int(le.Uint32(b[32:])), int(le.Uint32(b[36:]))
	if len(b) != indexHead+4*entries+indexBlob*blobs+4 {
		return false
	}
	s.place = place{le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:]), uint32(entries), uint32(blobs)}
	s.before, s.full = s.place, true
	b = b[indexHead:]
	s.entries, s.blobs, s.digests = make([]uint32, entries), make([]uint32, blobs), make([]contracts.Digest, blobs)
	for i := range s.entries {
		s.entries[i], b = le.Uint32(b), b[4:]
	}
	for i := range s.blobs {
		s.digests[i], s.blobs[i], b = contracts.Digest(b), le.Uint32(b[indexBlob-4:]), b[indexBlob:]
	}
	return true
}

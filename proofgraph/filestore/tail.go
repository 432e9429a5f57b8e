package filestore

import (
	"bytes"
	"encoding/binary"

	"github.com/helmkernel/helm/crypto"
)

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// blank tells whether b is all zeros.
func blank(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// settle reads a segment up to its end and tells what stands there. Only the last frame can be one whose writing was not finished, since
// none is begun before the one before is on stable storage. Of that a crash leaves a part of its bytes, from its beginning on, or any of
// its sectors; the rest reads as zeros, which the file has there from before.
//
// So a tail is torn, and was never acknowledged, if the frame has lost a sector, or has no end: then it is not the segment's. Any other tail
// that does not check is damage to what may have been acknowledged.
func (s *segment) settle(b []byte) error {
	stop, f, bad := s.scan(b)
	at := uint64(s.end)
	fail := &damage{path: s.path, offset: stop}
	switch {
	case s.full:
		return nil
	case at+room > uint64(len(b)):
		fail.what = "the file was cut: the frames of a log are followed by zeros"
		return fail
	case bad == nil:
		return s.whole(b)
	}
	fail.what = bad.Error()
	used := uint64(len(bytes.TrimRight(b, "\x00"))) // nothing but zeros from here on
	end := at + f.size
	switch {
	case f.size == 0 && used <= at+beginSize: // the first bytes of a frame
		return nil
	case f.size == 0 && gone(b, at, at+beginSize, at, used) && !s.follows(b[:used], at+1):
		return nil
	case f.size == 0 || bad == errOther || end+room > uint64(len(b)) || used > end: // not ours, or cut, or something stands behind it
		return fail
	case b[end-1] != 0 && !s.lost(b, at, end):
		return fail
	case len(f.stains) > 0: // it was acknowledged
		return fail
	}
	return nil
}

// whole checks the bytes of the last frame's blobs, which no checksum covers: a crash may have lost some. Then the frame is torn.
func (s *segment) whole(b []byte) error {
	for i := s.before.blobCount; i < s.blobCount; i++ {
		at := uint64(s.blobs[i])
		if at == 0 {
			continue
		}
		r, _ := s.read(b, 0, at)
		if crypto.Sum(r.body[len(s.digests[i]):]) == s.digests[i] {
			continue
		}
		erased := len(s.stains) > 0 && s.stains[len(s.stains)-1].at >= s.before.end // in this frame, so it was acknowledged
		if erased || !s.lost(b, uint64(s.before.end), uint64(s.end)) {
			return &damage{s.path, at, "a damaged blob"}
		}
		s.drop()
		return nil
	}
	return nil
}

// lost tells whether a frame that has its last byte lacks sectors. Blobs have zeros too: its end says how many of its sectors are blank.
func (s *segment) lost(b []byte, from, to uint64) bool {
	end := to - endSize
	if r, ok := s.read(b[:to], 0, end); ok && r.kind == kindEnd && len(r.body) == endSize-recordHead {
		return blanks(b[from:to], from) > le32(r.body[4:])
	}
	return gone(b, end, to, from, to)
}

// gone tells whether a sector that b[from:to] has a part in is zero, as far as it is within the frame.
func gone(b []byte, from, to, frame, end uint64) bool {
	for at := from &^ (sector - 1); at < to; at += sector {
		if blank(b[max(at, frame):min(at+sector, end)]) {
			return true
		}
	}
	return false
}

// follows tells whether a frame begins in b, at from or later: then what is before it was acknowledged, whatever it looks like now.
func (s *segment) follows(b []byte, from uint64) bool {
	begin := []byte{kindBegin, 0, 0, 0, beginSize - recordHead, 0, 0, 0}
	for at := from; at < uint64(len(b)); at++ {
		i := bytes.Index(b[at:], begin) // any record's checksum would be computed for nothing, in hours where there are millions
		if i < 0 {
			return false
		}
		at += uint64(i)
		if _, ok := s.read(b, 0, at); ok {
			return true
		}
	}
	return false
}

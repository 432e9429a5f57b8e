package filestore

import (
	"bytes"
	"errors"

	"github.com/helmkernel/helm/crypto"
)

// classifyTail reads a segment up to its end and reports damage. Only the last frame can be one
// whose writing was not finished, because none is begun before the one before it is on stable
// storage. A crash leaves a part of that frame's bytes, from its beginning on, or any of its
// sectors; the rest reads as the zeros that were in the file before.
//
// So a tail is torn, and was never acknowledged, if the frame has lost a sector or has no end: then
// it is left out of the segment. Any other tail that does not check is damage to a frame that may
// have been acknowledged.
func (s *segment) classifyTail(b []byte) error {
	stop, f, bad := s.scan(b)
	switch {
	case s.full:
		return nil
	case s.times > 0: // it was whole before it had its name
		if bad == nil {
			bad = errors.New("a condensed segment without its end")
		}
		return &damage{s.path, stop, bad.Error()}
	case uint64(s.end)+trailer > uint64(len(b)):
		return &damage{s.path, stop, "the file was cut: the frames of a log are followed by zeros"}
	case bad == nil:
		return s.checkBlobs(b)
	case s.torn(b, &f, bad):
		return nil
	}
	return &damage{s.path, stop, bad.Error()}
}

// torn reports whether a crash cut short the writing of the last frame, which does not check.
func (s *segment) torn(b []byte, f *frame, bad error) bool {
	begin, end := uint64(s.end), uint64(s.end)+f.size
	used := uint64(len(bytes.TrimRight(b, "\x00"))) // only zeros follow
	if f.size == 0 {                                // its begin record is not there
		if used <= begin+beginSize {
			return true // the first bytes of a frame
		}
		return lostSector(b, begin, begin+beginSize, begin, used) && !s.frameFollows(b[:used], begin+1)
	}
	if bad == errOther || end+trailer > uint64(len(b)) || used > end {
		return false // not the next frame, or a file that was cut, or something after the frame
	}
	if len(f.erased) > 0 {
		return false // it was acknowledged
	}
	return b[end-1] == 0 || s.lacksSectors(b, begin, end)
}

// checkBlobs verifies the blobs of the last frame, whose bytes no checksum covers. If a crash lost
// some of them, the frame is torn and is dropped.
func (s *segment) checkBlobs(b []byte) error {
	for i := s.before.blobCount; i < s.blobCount; i++ {
		at := uint64(s.blobs[i])
		if at == 0 {
			continue
		}
		r, _ := s.read(b, 0, at)
		if crypto.Sum(r.body[len(s.digests[i]):]) == s.digests[i] {
			continue
		}
		erased := len(s.erased) > 0 &&
			s.erased[len(s.erased)-1].at >= s.before.end // a blob of this frame, so the frame was acknowledged
		if erased || !s.lacksSectors(b, uint64(s.before.end), uint64(s.end)) {
			return &damage{s.path, at, "a damaged blob"}
		}
		s.place = s.before // the last frame is not there
		s.entries, s.blobs, s.digests = s.entries[:s.entryCount], s.blobs[:s.blobCount], s.digests[:s.blobCount]
		return nil
	}
	return nil
}

// lacksSectors reports whether a frame that has its last byte lacks sectors. Blobs may have zeros
// too: the end record says how many of the frame's sectors are all zeros.
func (s *segment) lacksSectors(b []byte, from, to uint64) bool {
	end := to - endSize
	if r, ok := s.read(b[:to], 0, end); ok && r.kind == kindEnd && len(r.body) == endSize-recordHead {
		return zeroSectors(b[from:to], from) > le.Uint32(r.body[4:])
	}
	return lostSector(b, end, to, from, to)
}

// lostSector reports whether a sector that b[from:to] has a part in is all zeros, as far as it is
// within the frame.
func lostSector(b []byte, from, to, frame, end uint64) bool {
	for at := from &^ (sector - 1); at < to; at += sector {
		if allZeros(b[max(at, frame):min(at+sector, end)]) {
			return true
		}
	}
	return false
}

// frameFollows reports whether a frame begins in b, at from or later. Then everything before it was
// acknowledged, whatever it looks like now.
func (s *segment) frameFollows(b []byte, from uint64) bool {
	begin := []byte{kindBegin, 0, 0, 0, beginSize - recordHead, 0, 0, 0}
	for at := from; at < uint64(len(b)); at++ {
		i := bytes.Index(b[at:], begin) // not each record: millions of checksums would take hours
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

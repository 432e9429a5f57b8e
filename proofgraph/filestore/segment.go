package filestore

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A segment is one file of the log, as far as its frames are known. Offsets are those of records.
type segment struct {
	header
	path      string
	entries   []uint32
	blobs     []uint32           // 0: the blob was erased
	digests   []contracts.Digest // of the blobs, until they are in the store's index
	firstBlob uint64             // number of the first
	place
	before  place        // after the frame before the last; the same as place if there is none
	full    bool         // when it was read, the log went on in the next segment
	erased  []erasedSpan // as it was read: marked blobs, whose bytes may not all be overwritten
	changed bool         // its index was removed, because a blob of it was erased
	acked   logEnd       // up to where frames of it were acknowledged, when it was read; zero if that is unknown
	reached bool         // when it was read, it had the frames up to there
}

// A place is the state of a segment after a frame.
type place struct {
	end        uint32 // the offset at which the next one begins
	tail       uint32 // the chain there
	note       uint32 // the latest checkpoint; 0: none
	entryCount uint32
	blobCount  uint32
}

// An erasedSpan is a blob that is erased: the offset of its record, and how many bytes follow its
// digest.
type erasedSpan struct{ at, size uint32 }

// nextChain returns the chain that the next segment begins with: the one at the end, as it was
// before the segment was condensed.
func (s *segment) nextChain() uint32 {
	if s.times > 0 {
		return s.ended
	}
	return s.tail
}

// empty reports whether no frame is in the segment.
func (s *segment) empty() bool { return s.end == s.start() }

// A logEnd is a place in the log up to which it was acknowledged. The zero logEnd is that of a log
// without entries.
type logEnd struct {
	segment uint32 // its number
	sum     uint32 // of its header
	offset  uint32
	chain   uint32
}

// logEnd returns the end of a segment.
func (s *segment) logEnd() logEnd { return logEnd{s.number, s.sum, s.end, s.tail} }

// A damage is an error in a file that a crash does not cause.
type damage struct {
	path   string
	offset uint64
	what   string
}

// Is makes every damage a [proofgraph.ErrDamaged].
func (d *damage) Is(err error) bool { return err == proofgraph.ErrDamaged }

func (d *damage) Error() string {
	return fmt.Sprintf("filestore: %s: offset %d: %s; nothing was changed: restore the file from a copy",
		d.path, d.offset, d.what)
}

// newSegment decodes the header in the first bytes of a file.
func newSegment(path string, b []byte) (*segment, error) {
	s := &segment{path: path}
	if err := s.header.decode(b); err != nil {
		return nil, &damage{path, 0, err.Error()}
	}
	s.place = place{end: s.start(), tail: s.chain}
	s.before = s.place
	return s, nil
}

// A frame is what one Append wrote.
type frame struct {
	entries, blobs []uint32
	digests        []contracts.Digest
	erased         []erasedSpan
	note           uint32
	chain          uint32
	size           uint64 // as its begin record says; 0 if that cannot be read
}

// scan reads the frames of a whole file, from end on. It returns the offset at which frames stop to
// check, which is len(b) if only zeros follow.
func (s *segment) scan(b []byte) (stop uint64, f frame, err error) {
	for {
		at := uint64(s.end)
		if s.end == s.acked.offset && s.tail == s.acked.chain {
			s.reached = true
		}
		if r, ok := s.read(b, 0, at); ok && r.kind == kindNext {
			if len(r.body) != endSize-recordHead || le.Uint32(r.body) != s.tail {
				return at, frame{}, errors.New("the segment's end is of other frames")
			}
			s.full = true
			return uint64(len(b)), frame{}, nil
		}
		if allZeros(b[at:]) {
			return uint64(len(b)), frame{}, nil
		}
		stop, f, err = s.parse(b)
		if err != nil {
			return stop, f, err
		}
		s.add(&f)
	}
}

// add makes a frame part of the segment.
func (s *segment) add(f *frame) {
	s.before = s.place
	s.entries, s.blobs = append(s.entries, f.entries...), append(s.blobs, f.blobs...)
	s.digests = append(s.digests, f.digests...)
	s.erased = append(s.erased, f.erased...)
	s.place = place{s.end + uint32(f.size), f.chain, s.note, uint32(len(s.entries)), uint32(len(s.blobs))}
	if f.note != 0 {
		s.note = f.note
	}
}

var errOther = errors.New("a frame that does not follow from those before it")

// parse checks the frame at end. With an error it returns the offset at which the frame stops to
// check.
func (s *segment) parse(b []byte) (at uint64, f frame, err error) {
	begin := uint64(s.end)
	f.chain = s.tail
	r, ok := s.read(b, 0, begin)
	if !ok || r.kind != kindBegin || len(r.body) != beginSize-recordHead {
		return begin, f, errors.New("no frame begins here")
	}
	f.size = le.Uint64(r.body[16:])
	switch {
	case le.Uint64(r.body) != s.first+uint64(len(s.entries)) || le.Uint32(r.body[24:]) != s.tail ||
		f.size < beginSize+endSize || f.size > maxFrame:
		return begin, f, errOther
	case begin+f.size+trailer > uint64(len(b)):
		return begin, f, fmt.Errorf("the file was cut: a frame of %d bytes begins here, and %d follow", f.size,
			uint64(len(b))-begin)
	}
	entries, blobs := le.Uint32(r.body[8:]), le.Uint32(r.body[12:])
	frameBytes := b[:begin+f.size]
	for at, f.chain = begin+beginSize, chainSum(f.chain, r.sum); ; at += recordHead + uint64(len(r.body)) {
		if r, ok = s.read(frameBytes, 0, at); !ok {
			return at, f, errors.New("a damaged record")
		}
		switch r.kind {
		case kindBlob:
			f.blobs = append(f.blobs, uint32(at))
			f.digests = append(f.digests, contracts.Digest(r.body[:len(contracts.Digest{})]))
		case kindErased:
			d, rest := contracts.Digest(r.body[:len(contracts.Digest{})]), r.body[len(contracts.Digest{}):]
			f.blobs, f.digests = append(f.blobs, 0), append(f.digests, d)
			f.erased = append(f.erased, erasedSpan{uint32(at), uint32(len(rest))})
			for len(rest) > 0 { // the frame may be written again
				rest = rest[copy(rest, overwritten):]
			}
		case kindCheckpoint:
			f.note = uint32(at)
		case kindEntry:
			f.entries = append(f.entries, uint32(at))
		case kindStub:
			if s.times == 0 {
				return at, f, errors.New("a stub in a segment that was not condensed")
			}
			f.entries = append(f.entries, uint32(at))
		case kindEnd:
			if at+endSize != begin+f.size || len(r.body) != endSize-recordHead || le.Uint32(r.body) != f.chain ||
				len(f.entries) != int(entries) || len(f.blobs) != int(blobs) {
				return at, f, errors.New("a frame that is not what it says")
			}
			f.chain = chainSum(f.chain, r.sum)
			return at, f, nil
		default:
			return at, f, errors.New("a record of no known kind")
		}
		f.chain = chainSum(f.chain, r.sum)
	}
}

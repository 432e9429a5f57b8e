package evidence

import (
	"bytes"
	"context"
	"hash"
	"io"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
)

// A packed log is one in a pack.
type packed struct {
	archive
	r    io.ReaderAt
	size int64
	wide *window   // over headers, and then entries
	sum  hash.Hash // of entries.jsonl, as far as it was read
}

var _ source = (*packed)(nil)

// openPacked is ARCHIVE.
func openPacked(ctx context.Context, r io.ReaderAt, size int64) (*packed, error) {
	p := &packed{r: r, size: size, wide: newWindow(r, size, 256<<10), sum: crypto.NewSum()}
	if err := p.open(ctx, p.wide); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *packed) lines() iter.Seq2[line, *Error] {
	return func(yield func(line, *Error) bool) {
		x := p.members[entriesMember]
		index := int64(0)
		for at, end := x.at, x.at+x.size; at < end; index++ {
			b, err := p.wide.get(at, int(min(end-at, contracts.MaxEntry+1)))
			if err != nil {
				yield(line{}, p.unreadable(nil, err))
				return
			}
			n := bytes.IndexByte(b, '\n')
			if n < 0 {
				yield(line{}, &Error{ErrEncoding, index, members[entriesMember], "a line without end, or of more than 32,768 bytes", nil})
				return
			}
			p.sum.Write(b[:n+1])
			next := at + int64(n) + 1
			if !yield(line{b[:n], at, uint64(next - x.at)}, nil) {
				return
			}
			at = next
		}
	}
}

func (p *packed) total() uint64 { return uint64(p.members[entriesMember].size) }

func (p *packed) checkpoint() ([]byte, *Error) {
	if p.members[checkpointMember].size > maxNote {
		return nil, &Error{ErrCheckpoint, -1, members[checkpointMember], "longer than a note may be", nil}
	}
	return p.member(checkpointMember)
}

// member reads one of the first members into memory; the caller has looked at its size.
func (p *packed) member(i int) ([]byte, *Error) {
	x := p.members[i]
	b := make([]byte, x.size)
	if err := readAt(p.r, b, x.at); err != nil {
		return nil, &Error{ErrArchive, -1, members[i], "it cannot be read", err}
	}
	return b, nil
}

func (p *packed) names(number int, as entry.Role) bool {
	seen := p.named[number]&as != 0
	p.named[number] |= as
	return !seen
}

func (p *packed) unreadable(blob *contracts.Digest, err error) *Error {
	field := members[entriesMember]
	if blob != nil {
		field = blobPrefix + blob.String()
	}
	return &Error{ErrArchive, -1, field, "it cannot be read", err}
}

func (p *packed) view() view { return p.far() }

// A far reads here and there in a pack.
type far struct {
	p     *packed
	lines *window
	blobs *window
	buf   []byte // for what blobs is too narrow for
}

func (p *packed) far() *far { return &far{p: p, blobs: newWindow(p.r, p.size, 4<<10)} }

func (f *far) line(place int64, n int) ([]byte, error) {
	x := f.p.members[entriesMember]
	for end := x.at + x.size; ; n-- {
		b, err := f.until(place, end)
		if err != nil || n == 0 {
			return b, err
		}
		place += int64(len(b)) + 1
	}
}

// until gives the bytes from a line's first on to where it ends. Most lines are short.
func (f *far) until(at, end int64) ([]byte, error) {
	if f.lines == nil {
		f.lines = newWindow(f.p.r, f.p.size, 36<<10)
	}
	for _, most := range [...]int64{4 << 10, contracts.MaxEntry + 1} {
		b, err := f.lines.get(at, int(min(end-at, most)))
		if err != nil {
			return nil, err
		}
		if n := bytes.IndexByte(b, '\n'); n >= 0 {
			return b[:n], nil
		}
	}
	return nil, errChanged
}

func (f *far) blob(d contracts.Digest) ([]byte, int, error) {
	i, x, err := f.p.find(d, f.blobs.get)
	switch {
	case err != nil || i == noBlob:
		return nil, noBlob, err
	case x.size > maxBlob:
		return nil, i, errLong
	case x.size <= int64(cap(f.blobs.buf)):
		b, err := f.blobs.get(x.at, int(x.size))
		return b, i, err
	}
	if int64(cap(f.buf)) < x.size {
		f.buf = make([]byte, x.size)
	}
	b := f.buf[:x.size]
	return b, i, readAt(f.p.r, b, x.at)
}

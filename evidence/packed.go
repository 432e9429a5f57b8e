package evidence

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
)

// A packed is a log in a pack, or an excerpt of one.
type packed struct {
	ustar.Archive
	r    io.ReaderAt
	size int64
	wide *ustar.Window // over headers, and then entries
	sum  hash.Hash     // of entries.jsonl, as far as it was read

	named []entry.Role // of its blobs, as entries named them
}

var _ source = (*packed)(nil)

// openPacked does the check ARCHIVE.
func openPacked(ctx context.Context, r io.ReaderAt, size int64, kind ustar.Kind) (*packed, error) {
	p := &packed{r: r, size: size, wide: ustar.NewWindow(r, size, int(min(size, 256<<10))), sum: crypto.NewSum()}
	a, err := ustar.Open(ctx, p.wide, kind)
	var bad *ustar.Error
	if errors.As(err, &bad) {
		return nil, &Error{Check: ErrArchive, Entry: -1, Field: bad.Field, What: bad.What, Err: bad.Err}
	}
	if err != nil {
		return nil, err
	}
	p.Archive, p.named = *a, make([]entry.Role, len(a.Blobs))
	return p, nil
}

func (p *packed) lines() iter.Seq2[line, *Error] {
	return func(yield func(line, *Error) bool) {
		x := p.Members[ustar.Entries]
		index := uint64(0)
		for at, end := x.At, x.At+x.Size; at < end; index++ {
			b, err := p.wide.Get(at, int(min(end-at, contracts.MaxEntry+1)))
			if err != nil {
				yield(line{}, p.unreadable(nil, err))
				return
			}
			n := bytes.IndexByte(b, '\n')
			if n < 0 {
				yield(line{}, errorAt(index, ErrEncoding, ustar.Members[ustar.Entries],
					"a line without end, or of more than 32,768 bytes"))
				return
			}
			p.sum.Write(b[:n+1])
			next := at + int64(n) + 1
			if !yield(line{b[:n], at, uint64(next - x.At)}, nil) {
				return
			}
			at = next
		}
	}
}

func (p *packed) total() uint64 { return uint64(p.Members[ustar.Entries].Size) }

func (p *packed) checkpoint() ([]byte, *Error) {
	if p.Members[ustar.Checkpoint].Size > maxNote {
		return nil, newError(ErrCheckpoint, ustar.Members[ustar.Checkpoint], "longer than a note may be")
	}
	return p.member(ustar.Checkpoint)
}

// member reads one of the first members into memory; the caller has checked its size.
func (p *packed) member(i int) ([]byte, *Error) {
	x := p.Members[i]
	b := make([]byte, x.Size)
	if err := ustar.ReadAt(p.r, b, x.At); err != nil {
		return nil, cannotRead(ErrArchive, p.Names[i], err)
	}
	return b, nil
}

func (p *packed) names(number int, as entry.Role) { p.named[number] |= as }

// unnamed returns the fault that no entry names one of the blobs, or nil.
func (p *packed) unnamed() *Error {
	i := slices.Index(p.named, 0)
	if i < 0 {
		return nil
	}
	field := "blobs"
	if name, ok := p.NameAt(i, p.wide); ok {
		field = ustar.BlobPrefix + name.String()
	}
	return newError(ErrBlob, field, "no entry names it")
}

func (p *packed) unreadable(blob *contracts.Digest, err error) *Error {
	field := ustar.Members[ustar.Entries]
	if blob != nil {
		field = ustar.BlobPrefix + blob.String()
	}
	return cannotRead(ErrArchive, field, err)
}

func (p *packed) view() view { return p.far() }

// farWidth is the width of a window over headers and blobs. Most blobs are smaller.
const farWidth = 4 << 10

// A far reads here and there in a pack.
type far struct {
	p     *packed
	lines *ustar.Window
	blobs *ustar.Window
	buf   []byte // for blobs that are wider than the window
}

func (p *packed) far() *far { return &far{p: p, blobs: ustar.NewWindow(p.r, p.size, farWidth)} }

func (f *far) line(place int64, n int) ([]byte, error) {
	x := f.p.Members[ustar.Entries]
	for end := x.At + x.Size; ; n-- {
		b, err := f.until(place, end)
		if err != nil || n == 0 {
			return b, err
		}
		place += int64(len(b)) + 1
	}
}

func (f *far) run(place int64, skip, n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		x := f.p.Members[ustar.Entries]
		for i := range skip + n {
			b, err := f.until(place, x.At+x.Size)
			place += int64(len(b)) + 1
			if (err != nil || i >= skip) && !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// until returns the line that begins at an offset, without its end. Most lines are short.
func (f *far) until(at, end int64) ([]byte, error) {
	if f.lines == nil {
		f.lines = ustar.NewWindow(f.p.r, f.p.size, 36<<10)
	}
	for _, most := range [...]int64{4 << 10, contracts.MaxEntry + 1} {
		b, err := f.lines.Get(at, int(min(end-at, most)))
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
	i, x, err := f.p.Find(d, f.blobs)
	switch {
	case err != nil || i == noBlob:
		return nil, noBlob, err
	case x.Size > maxBlob:
		return nil, i, errLong
	case x.Size <= farWidth:
		b, err := f.blobs.Get(x.At, int(x.Size))
		return b, i, err
	}
	if int64(cap(f.buf)) < x.Size {
		f.buf = make([]byte, x.Size)
	}
	b := f.buf[:x.Size]
	return b, i, ustar.ReadAt(f.p.r, b, x.At)
}

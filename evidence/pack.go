package evidence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/proofgraph"
)

// A Pack is one that was verified, to be read: it has the methods of a proofgraph.Store that read. What it gives is what was verified: bytes are
// read from the reader again, which has to stay open, and held to their hash each time, so of a reader that gives others there is an error
// that is ErrArchive. It holds 46 bytes an entry and 8 a blob. The zero Pack is empty. It is safe for concurrent use by multiple goroutines, as
// far as its reader is.
type Pack struct {
	packed *packed
	index  proofgraph.Index
	marks  []int64
	note   []byte
}

// OpenPack is [Verify], and gives the pack as it was verified, to be read. There is none with an error; without one, ask [Report.Success]
// whether the pack is what was asked for before what stands in it is used.
func OpenPack(ctx context.Context, r io.ReaderAt, size int64, o Options) (*Pack, Report, error) {
	v := newVerifier(ctx, o)
	report, err := v.answer(v.inPack(r, size))
	if err != nil {
		return nil, report, err
	}
	p := &Pack{packed: v.pack, index: v.fold.index, marks: slices.Clip(v.reread.marks), note: bytes.Clone(report.Checkpoint)}
	p.packed.wide, p.packed.sum, p.packed.named = nil, nil, nil // for verification alone
	return p, report, nil
}

// Size is the number of entries.
func (p *Pack) Size(ctx context.Context) (uint64, error) {
	if err := endOf(ctx); err != nil {
		return 0, err
	}
	return p.index.Len(), nil
}

// Checkpoint gives a copy of the checkpoint in the pack, the signed note.
func (p *Pack) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := endOf(ctx); err != nil {
		return nil, err
	}
	return bytes.Clone(p.note), nil
}

// Entries gives those with indexes from ≤ i < to, in order. A range beyond the pack is an error. The first error is the last pair.
func (p *Pack) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		err := endOf(ctx)
		if err == nil && (from > to || to > p.index.Len()) {
			err = fmt.Errorf("evidence: pack: entries %d to %d of %d", from, to, p.index.Len())
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if from == to {
			return
		}
		f := p.packed.far()
		x := p.packed.Members[ustar.Entries]
		at := p.marks[from/stride]
		for i := from - from%stride; i < to; i++ {
			b, err := f.until(at, x.At+x.Size)
			at += int64(len(b)) + 1
			switch {
			case err == nil && i < from:
				continue
			case endOf(ctx) != nil:
				err = endOf(ctx)
			case err != nil:
				err = p.packed.unreadable(nil, err)
			case crypto.LeafHash(b) != p.index.Hash(i):
				err = p.packed.unreadable(nil, errChanged)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(bytes.Clone(b), nil) {
				return
			}
		}
	}
}

// Blob gives the bytes whose SHA-256 is d, or proofgraph.ErrNoBlob where the pack does not have them: they were erased or never kept, or no
// entry names them. Of a reader that may give others now, believe that only of what is in [Report].Erased.
func (p *Pack) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := endOf(ctx); err != nil {
		return nil, err
	}
	if p.packed == nil { // the zero Pack
		return nil, proofgraph.ErrNoBlob
	}
	b, number, err := p.packed.far().blob(d)
	switch {
	case err == nil && number == noBlob:
		return nil, proofgraph.ErrNoBlob
	case err == nil && crypto.Sum(b) != d:
		err = errChanged
	}
	if err != nil {
		return nil, p.packed.unreadable(&d, err)
	}
	return append([]byte{}, b...), nil
}

// endOf is the context's error; a nil one never ends.
func endOf(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

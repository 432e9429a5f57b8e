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

// A Pack is a verified pack that can be read: it has the reading methods of a proofgraph.Store. It
// returns what was verified: bytes are read from the reader again, which has to stay open, and
// compared with their hash each time. If the reader returns others, that is an error that is
// ErrArchive. A Pack holds 46 bytes an entry, 24 more for a stub, and 8 a blob. The zero Pack is
// empty. It is safe for concurrent use by multiple goroutines, as far as its reader is.
type Pack struct {
	packed *packed
	log    log // what finds lines and knows them
	marks  []int64
	note   []byte
}

// OpenPack does what [Verify] does, and returns the pack as it was verified. With an error there is
// no pack. Without one, check [Report.Success] before using what is in it.
func OpenPack(ctx context.Context, r io.ReaderAt, size int64, o Options) (*Pack, Report, error) {
	v := newVerifier(ctx, o)
	report, err := v.answer(v.inPack(r, size))
	if err != nil {
		return nil, report, err
	}
	p := &Pack{packed: v.pack, log: log{index: v.fold.index, stubs: slices.Clip(v.fold.stubs)},
		marks: slices.Clip(v.reread.marks), note: bytes.Clone(report.Checkpoint)}
	p.packed.wide, p.packed.sum, p.packed.named = nil, nil, nil // for verification alone
	return p, report, nil
}

// Size returns the number of entries.
func (p *Pack) Size(ctx context.Context) (uint64, error) {
	if err := endOf(ctx); err != nil {
		return 0, err
	}
	return p.log.index.Len(), nil
}

// Checkpoint returns a copy of the checkpoint in the pack, the signed note.
func (p *Pack) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := endOf(ctx); err != nil {
		return nil, err
	}
	return bytes.Clone(p.note), nil
}

// Entries returns those with indexes from ≤ i < to, in order. Of an entry that the pack has only a
// stub of it returns the stub's line (contracts.IsStub). A range beyond the pack is an error. The
// first error is the last pair.
func (p *Pack) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		err := endOf(ctx)
		if err == nil && (from > to || to > p.log.index.Len()) {
			err = fmt.Errorf("evidence: pack: entries %d to %d of %d", from, to, p.log.index.Len())
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
			case p.log.same(i, b) != nil:
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

// Blob returns the bytes whose SHA-256 is d. If the pack does not have them, the error is
// proofgraph.ErrNoBlob: they were erased or never kept, or no entry names them. If the reader may
// have changed, believe that only of blobs in [Report].Erased.
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

// endOf returns the context's error; a nil context never ends.
func endOf(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

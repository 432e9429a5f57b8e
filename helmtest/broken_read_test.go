package helmtest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

type entriesFunc = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]

func reads(entries func(h *hooks) entriesFunc) func() func() proofgraph.Store {
	return toy(func(h *hooks) { h.entries = entries(h) })
}

func nothingIsAnError(h *hooks) entriesFunc {
	return func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		if from == to {
			return gives(nil, errBroken)
		}
		return h.Store.Entries(ctx, from, to)
	}
}

// whenever gives an iteration of its own for some ranges of a store of that size.
func whenever(is func(from, to, size uint64) bool, entries func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error]) func() func() proofgraph.Store {
	return reads(func(h *hooks) entriesFunc {
		return func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			if is(from, to, h.len()) {
				return entries(h, from, to)
			}
			return h.Store.Entries(ctx, from, to)
		}
	})
}

func isBeyond(from, to, size uint64) bool { return from > to || to > size }
func isWithin(from, to, size uint64) bool { return !isBeyond(from, to, size) }

// locked is busy while somebody reads.
func locked(read func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error]) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		readers := 0
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			if readers > 0 {
				return errBroken
			}
			return h.Store.Append(ctx, b)
		}
		h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return read(func() { readers++ }, func() { readers-- }, h.Store.Entries(ctx, from, to))
		}
	})
}

// blobsBy finds blobs in another way.
func blobsBy(blob func(h *hooks, d contracts.Digest) ([]byte, error)) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		h.blob = func(_ context.Context, d contracts.Digest) ([]byte, error) { return blob(h, d) }
	})
}

var brokenReads = []breaches{
	{"any range of entries is read", []breach{
		{"gives one more", whenever(func(_, to, size uint64) bool { return to < size }, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return gives(h.all(from, to+1), nil)
		})},
		{"begins one later", whenever(func(from, to, size uint64) bool { return 0 < from && from < to && to < size }, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return gives(h.all(from+1, to+1), nil)
		})},
		{"begins at the beginning", whenever(isWithin, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return gives(h.all(0, to-from), nil)
		})},
		{"ends at the batch's end", whenever(func(from, to, _ uint64) bool { return from == 0 && to > 5 }, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return gives(h.all(from, 5), nil)
		})},
		{"gives the first entry twice", whenever(func(from, to, size uint64) bool { return from < to && to <= size }, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return gives(append(h.all(from, from+1), h.all(from, to)...), nil)
		})},
		{"has no empty range", reads(nothingIsAnError)},
	}},
	{"a range beyond the end is an error and no entry", []breach{
		{"gives what there is", whenever(isBeyond, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			n := h.len()
			return gives(h.all(min(from, n), max(min(from, n), min(to, n))), nil)
		})},
		{"gives what there is, and then the error", whenever(isBeyond, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			n := h.len()
			return gives(h.all(min(from, n), max(min(from, n), min(to, n))), errBroken)
		})},
		{"takes a range that ends before it begins as empty", whenever(func(from, to, _ uint64) bool { return from > to }, func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
			return gives(nil, nil)
		})},
		{"takes every empty range as one that is there", whenever(func(from, to, _ uint64) bool { return from == to }, func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
			return gives(nil, nil)
		})},
		{"looks at the lower half of an index", whenever(isBeyond, func(h *hooks, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return h.Store.Entries(context.Background(), uint64(uint32(from)), uint64(uint32(to)))
		})},
		{"says it twice", whenever(isBeyond, func(*hooks, uint64, uint64) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				for range 2 {
					if !yield(nil, errBroken) {
						return
					}
				}
			}
		})},
	}},
	{"an iteration can be left", []breach{
		{"goes on", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for _, e := range h.all(from, to) {
						yield(e, nil)
					}
				}
			}
		})},
		{"is locked until somebody iterates", locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
			lock()
			return func(yield func(contracts.Entry, error) bool) {
				defer unlock()
				all(yield)
			}
		})},
		{"is locked until the iteration comes to its end", locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				lock()
				for e, err := range all {
					if !yield(e, err) {
						return
					}
				}
				unlock()
			}
		})},
		{"is locked until the iteration returns, and it panics", locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				lock()
				all(yield)
				unlock()
			}
		})},
	}},
	{"the store can be used during an iteration", []breach{
		{"is locked", locked(func(lock, unlock func(), all iter.Seq2[contracts.Entry, error]) iter.Seq2[contracts.Entry, error] {
			return func(yield func(contracts.Entry, error) bool) {
				lock()
				defer unlock()
				all(yield)
			}
		})},
		{"ends the iteration when it was written to", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for _, e := range h.all(from, to) {
						if !yield(e, nil) || h.len() != n {
							return
						}
					}
				}
			}
		})},
		{"has an error when it was written to", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for _, e := range h.all(from, to) {
						if h.len() != n {
							yield(nil, errBroken)
							return
						}
						if !yield(e, nil) {
							return
						}
					}
				}
			}
		})},
		{"gives what was written meanwhile, too", reads(func(h *hooks) entriesFunc {
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					n := h.len()
					for i := from; i < to+h.len()-n && yield(h.all(i, i+1)[0], nil); i++ {
					}
				}
			}
		})},
		{"has one place to read at", reads(func(h *hooks) entriesFunc {
			var at uint64
			return func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for at = from; at < to && yield(h.all(at, at+1)[0], nil); at++ {
					}
				}
			}
		})},
	}},
	{"a blob has the name of its bytes", []breach{
		{"names them as entries are", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			return h.Store.Blob(context.Background(), crypto.LeafHash(d[:]))
		})},
		{"loses those that come without an entry", mangled(func(b *proofgraph.Batch) {
			if len(b.Entries) == 0 {
				b.Blobs = nil
			}
		})},
		{"keeps as many as there are entries", mangled(func(b *proofgraph.Batch) {
			b.Blobs = b.Blobs[:min(len(b.Blobs), len(b.Entries))]
		})},
		{"does not keep what is also an entry", mangled(func(b *proofgraph.Batch) {
			b.Blobs = slices.DeleteFunc(b.Blobs, func(blob []byte) bool {
				return slices.ContainsFunc(b.Entries, func(e contracts.Entry) bool { return bytes.Equal(e, blob) })
			})
		})},
		{"refuses one that it has", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				for _, blob := range b.Blobs {
					if _, err := h.Store.Blob(ctx, crypto.Sum(blob)); err == nil {
						return errBroken
					}
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"refuses one that comes twice", refuses(func(b proofgraph.Batch) bool {
			return len(b.Blobs) > 1 && bytes.Equal(b.Blobs[0], b.Blobs[1])
		})},
		{"takes an empty one as none", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			b, err := h.Store.Blob(context.Background(), d)
			if len(b) == 0 {
				return nil, proofgraph.ErrNoBlob
			}
			return b, err
		})},
		{"cuts what is large", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			b, err := h.Store.Blob(context.Background(), d)
			return b[:min(len(b), 1<<20)], err
		})},
		{"loses one that comes again in a batch that is refused", toy(func(h *hooks) {
			lost := map[contracts.Digest]bool{}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				for _, blob := range b.Blobs {
					lost[crypto.Sum(blob)] = err != nil
				}
				return err
			}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if lost[d] {
					return nil, proofgraph.ErrNoBlob
				}
				return h.Store.Blob(ctx, d)
			}
		})},
	}},
	{"a blob that is not there is ErrNoBlob", []breach{
		{"has an error of its own", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			b, err := h.Store.Blob(context.Background(), d)
			if err != nil {
				err = errBroken
			}
			return b, err
		})},
		{"gives nothing and no error", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			b, err := h.Store.Blob(context.Background(), d)
			if errors.Is(err, proofgraph.ErrNoBlob) {
				err = nil
			}
			return b, err
		})},
		{"looks at half of a name", toy(func(h *hooks) {
			half := map[string][]byte{}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				for _, blob := range b.Blobs {
					d := crypto.Sum(blob)
					half[string(d[:16])] = bytes.Clone(blob)
				}
				return h.Store.Append(ctx, b)
			}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if b, ok := half[string(d[:16])]; ok {
					return b, nil
				}
				return h.Store.Blob(ctx, d)
			}
		})},
		{"takes no name as that of the empty one", blobsBy(func(h *hooks, d contracts.Digest) ([]byte, error) {
			if d == (contracts.Digest{}) {
				return nil, nil
			}
			return h.Store.Blob(context.Background(), d)
		})},
	}},
	{"a checkpoint stays until the next", []breach{
		{"loses it when the next batch has none", mangled(func(b *proofgraph.Batch) {
			if b.Checkpoint == nil {
				b.Checkpoint = []byte{}
			}
		})},
		{"keeps the first", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if c, _ := h.Store.Checkpoint(ctx); c != nil {
					b.Checkpoint = nil
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"writes it over the one before", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if c, _ := h.Store.Checkpoint(ctx); b.Checkpoint != nil && len(c) > len(b.Checkpoint) {
					b.Checkpoint = append(bytes.Clone(b.Checkpoint), c[len(b.Checkpoint):]...)
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"keeps it only with entries", mangled(func(b *proofgraph.Batch) {
			if len(b.Entries) == 0 {
				b.Checkpoint = nil
			}
		})},
		{"keeps it only without entries", mangled(func(b *proofgraph.Batch) {
			if len(b.Entries) > 0 {
				b.Checkpoint = nil
			}
		})},
	}},
	{"bytes that it is given are copied", []breach{
		{"shares entries", copying(but("entry", same), copies)},
		{"shares blobs", copying(but("blob", same), copies)},
		{"shares checkpoints", copying(but("checkpoint", same), copies)},
		{"keeps the batch itself", toy(func(h *hooks) {
			var kept [][]contracts.Entry
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				if err == nil {
					kept = append(kept, b.Entries)
				}
				return err
			}
			h.entries = func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return gives(slices.Concat(kept...)[from:to], nil)
			}
		})},
		{"writes behind an entry", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				for _, e := range b.Entries {
					_ = append(e, "\n"...)
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"sorts the caller's blobs", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				slices.SortFunc(b.Blobs, bytes.Compare)
				return h.Store.Append(ctx, b)
			}
		})},
		{"encrypts in place", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				fill(b.Checkpoint, 0)
				return err
			}
		})},
	}},
	{"bytes that it gives are the caller's", []breach{
		{"shares entries", copying(copies, but("entry", same))},
		{"shares blobs", copying(copies, but("blob", same))},
		{"shares checkpoints", copying(copies, but("checkpoint", same))},
		{"gives all from one array", toy(func(h *hooks) {
			h.entries = func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				list := h.all(from, to)
				var array []byte
				for _, e := range list {
					array = append(array, e...)
				}
				at := 0
				for i, e := range list {
					list[i] = array[at : at+len(e)] // append goes on into the next
					at += len(e)
				}
				return gives(list, nil)
			}
		})},
		{"reads entries into one buffer", toy(func(h *hooks) {
			h.entries = func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					buf := make([]byte, 0, 1<<10)
					for _, e := range h.all(from, to) {
						if buf = append(buf[:0], e...); !yield(buf, nil) {
							return
						}
					}
				}
			}
		})},
		{"gives equal blobs once", toy(func(h *hooks) {
			given := map[contracts.Digest][]byte{}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if b, ok := given[d]; ok {
					return b, nil
				}
				b, err := h.Store.Blob(ctx, d)
				given[d] = b
				return b, err
			}
		})},
		{"checks an entry by the one before", toy(func(h *hooks) { // which is the caller's by then
			h.entries = func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					before := byte('e')
					for _, e := range h.all(from, to) {
						if before != 'e' {
							yield(nil, errBroken)
							return
						}
						if !yield(e, nil) {
							return
						}
						before = e[0]
					}
				}
			}
		})},
		{"cannot be read twice", toy(func(h *hooks) {
			times := 0
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if times++; times > 2 {
					return nil, errBroken
				}
				return h.Store.Blob(ctx, d)
			}
		})},
	}},
}

func copying(in, out func(string, []byte) []byte) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		c := &copier{in: in, out: out}
		return func() proofgraph.Store { return c }
	}
}

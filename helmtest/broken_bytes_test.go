package helmtest

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

func copying(in, out func(string, []byte) []byte) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		c := &copier{in: in, out: out}
		return func() proofgraph.Store { return c }
	}
}

var brokenBytes = []breaches{
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
				return iterate(slices.Concat(kept...)[from:to], nil)
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
				return iterate(list, nil)
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
		{"checks an entry by the one before", toy(func(h *hooks) { // the slice is the caller's by then
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

package helmtest

import (
	"context"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

var forever = context.Background()

var brokenContexts = []breaches{
	{"a context that has ended is honoured", []breach{
		{"appends all the same", toy(func(h *hooks) {
			h.append = func(_ context.Context, b proofgraph.Batch) error { return h.Store.Append(forever, b) }
		})},
		{"appends, and says that it did not", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := h.Store.Append(forever, b); err != nil {
					return err
				}
				return ctx.Err()
			}
		})},
		{"keeps the blobs", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := h.Store.Append(forever, proofgraph.Batch{At: b.At, Blobs: b.Blobs}); err != nil {
					return err
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"is dead afterwards", toy(func(h *hooks) {
			var dead error
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if dead == nil {
					dead = h.Store.Append(ctx, b)
				}
				return dead
			}
		})},
		{"gives its size all the same", toy(func(h *hooks) {
			h.size = func(context.Context) (uint64, error) { return h.Store.Size(forever) }
		})},
		{"gives entries all the same", toy(func(h *hooks) {
			h.entries = func(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return h.Store.Entries(forever, from, to)
			}
		})},
		{"ends an iteration without a word", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				if ctx.Err() != nil {
					return iterate(nil, nil)
				}
				return h.Store.Entries(ctx, from, to)
			}
		})},
		{"gives entries and the error", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return iterate(h.all(from, to), ctx.Err())
			}
		})},
		{"gives blobs all the same", toy(func(h *hooks) {
			h.blob = func(_ context.Context, d contracts.Digest) ([]byte, error) { return h.Store.Blob(forever, d) }
		})},
		{"takes it as a blob that is not there", toy(func(h *hooks) {
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				b, err := h.Store.Blob(ctx, d)
				if err != nil {
					return nil, proofgraph.ErrNoBlob
				}
				return b, nil
			}
		})},
		{"gives its checkpoint all the same", toy(func(h *hooks) {
			h.checkpoint = func(context.Context) ([]byte, error) { return h.Store.Checkpoint(forever) }
		})},
		{"knows only cancellation", toy(func(h *hooks) {
			h.size = func(ctx context.Context) (uint64, error) {
				if ctx.Err() != nil {
					return 0, context.Canceled
				}
				return h.Store.Size(ctx)
			}
		})},
	}},
	{"a context that ends during an append leaves all of the batch or nothing", []breach{
		{"keeps the entries that were written", handles(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				whole := b
				for i, e := range whole.Entries {
					if err := h.Store.Append(ctx, proofgraph.Batch{At: whole.At + uint64(i),
						Entries: []contracts.Entry{e}}); err != nil {
						return err
					}
				}
				return h.Store.Append(forever, proofgraph.Batch{At: h.len(), Blobs: b.Blobs, Checkpoint: b.Checkpoint})
			}
		})},
		{"keeps the blobs that were written", handles(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := h.Store.Append(ctx, proofgraph.Batch{At: b.At, Blobs: b.Blobs}); err != nil {
					return err
				}
				return h.Store.Append(ctx, proofgraph.Batch{At: b.At, Entries: b.Entries, Checkpoint: b.Checkpoint})
			}
		})},
		{"drops the checkpoint", handles(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := h.Store.Append(ctx, proofgraph.Batch{At: b.At, Blobs: b.Blobs,
					Entries: b.Entries}); err != nil {
					return err
				}
				h.Store.Append(ctx, proofgraph.Batch{At: h.len(), Checkpoint: b.Checkpoint})
				return nil
			}
		})},
		{"says nothing and stores nothing", handles(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if ctx.Err() != nil {
					return nil
				}
				return h.Store.Append(forever, b)
			}
		})},
		{"fails where nothing ended", handles(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if len(b.Entries) == 2 {
					return errBroken
				}
				return h.Store.Append(ctx, b)
			}
		})},
	}},
	{"a context that ends during an iteration ends it", []breach{
		{"ends it without a word", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for e, err := range h.Store.Entries(forever, from, to) {
						if ctx.Err() != nil || !yield(e, err) {
							return
						}
					}
				}
			}
		})},
		{"has an error of its own", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for e, err := range h.Store.Entries(ctx, from, to) {
						if err != nil {
							err = errBroken
						}
						if !yield(e, err) {
							return
						}
					}
				}
			}
		})},
		{"asks when it begins, and not again", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				if err := ctx.Err(); err != nil {
					return iterate(nil, err)
				}
				return h.Store.Entries(forever, from, to)
			}
		})},
		{"gives what it has not read", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for e, err := range h.Store.Entries(ctx, from, to) {
						if err != nil && !yield(nil, nil) || !yield(e, err) {
							return
						}
					}
				}
			}
		})},
	}},
}

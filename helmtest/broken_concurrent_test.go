package helmtest

import (
	"context"
	"iter"
	"runtime"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// torn writes a batch in two parts, and readers have time to look between them.
func torn(parts func(b proofgraph.Batch) (first, second proofgraph.Batch)) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		var looks atomic.Int64
		h.size = func(ctx context.Context) (uint64, error) {
			looks.Add(1)
			return h.Store.Size(ctx)
		}
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			first, second := parts(b)
			if err := h.Store.Append(ctx, first); err != nil {
				return err
			}
			linger(&looks)
			second.At = h.len()
			return h.Store.Append(ctx, second)
		}
	})
}

// linger waits until readers have called Size 16 times: one of the four has looked at everything by
// then.
func linger(looks *atomic.Int64) { await(looks, looks.Load()+16) }

// await waits, but not for ever, until others have made a number that large.
func await(n *atomic.Int64, enough int64) {
	for i := 0; n.Load() < enough && i < 100_000; i++ {
		runtime.Gosched()
	}
}

var brokenConcurrently = []breaches{
	{"readers see whole batches", []breach{
		{"shows entries one by one", torn(func(b proofgraph.Batch) (first, second proofgraph.Batch) {
			return proofgraph.Batch{At: b.At, Entries: b.Entries[:1], Blobs: b.Blobs, Checkpoint: b.Checkpoint},
				proofgraph.Batch{Entries: b.Entries[1:]}
		})},
		{"shows entries before their blobs", torn(func(b proofgraph.Batch) (first, second proofgraph.Batch) {
			return proofgraph.Batch{At: b.At, Entries: b.Entries, Checkpoint: b.Checkpoint},
				proofgraph.Batch{Blobs: b.Blobs}
		})},
		{"shows entries before the checkpoint", torn(func(b proofgraph.Batch) (first, second proofgraph.Batch) {
			return proofgraph.Batch{At: b.At, Entries: b.Entries, Blobs: b.Blobs},
				proofgraph.Batch{Checkpoint: b.Checkpoint}
		})},
		{"shows the checkpoint before entries", torn(func(b proofgraph.Batch) (first, second proofgraph.Batch) {
			return proofgraph.Batch{At: b.At, Blobs: b.Blobs, Checkpoint: b.Checkpoint},
				proofgraph.Batch{Entries: b.Entries}
		})},
		{"counts entries before they can be read", toy(func(h *hooks) {
			var ahead atomic.Bool
			var looks atomic.Int64
			h.size = func(ctx context.Context) (uint64, error) {
				looks.Add(1)
				n, err := h.Store.Size(ctx)
				if ahead.Load() {
					n += perBatch
				}
				return n, err
			}
			h.checkpoint = func(ctx context.Context) ([]byte, error) {
				if !ahead.Load() {
					return h.Store.Checkpoint(ctx)
				}
				n, err := h.Store.Size(ctx)
				return numbered(int(n)).Checkpoint, err
			}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				ahead.Store(true)
				linger(&looks)
				defer ahead.Store(false)
				return h.Store.Append(ctx, b)
			}
		})},
		{"gives fewer entries while it writes", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				if from < to && from > 0 {
					to--
				}
				return h.Store.Entries(ctx, from, to)
			}
		})},
		{"finds no blob while it writes", toy(func(h *hooks) {
			var writing atomic.Bool
			var looks atomic.Int64
			h.size = func(ctx context.Context) (uint64, error) {
				looks.Add(1)
				return h.Store.Size(ctx)
			}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				writing.Store(true)
				defer writing.Store(false)
				linger(&looks)
				return h.Store.Append(ctx, b)
			}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if writing.Load() {
					d = crypto.Sum(nil)
				}
				return h.Store.Blob(ctx, d)
			}
		})},
	}},
}

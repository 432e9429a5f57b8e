package helmtest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// blobsBy finds blobs in another way.
func blobsBy(blob func(h *hooks, d contracts.Digest) ([]byte, error)) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		h.blob = func(_ context.Context, d contracts.Digest) ([]byte, error) { return blob(h, d) }
	})
}

var brokenBlobs = []breaches{
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
}

package helmtest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

var errBroken = errors.New("disk error")

// mangled changes each batch on its way in.
func mangled(change func(b *proofgraph.Batch)) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			b = clone(b)
			change(&b)
			return h.Store.Append(ctx, b)
		}
	})
}

// refuses some batches.
func refuses(refused func(b proofgraph.Batch) bool) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			if refused(b) {
				return errBroken
			}
			return h.Store.Append(ctx, b)
		}
	})
}

// everywhere changes all bytes that come in.
func everywhere(change func([]byte) []byte) func() func() proofgraph.Store {
	return mangled(func(b *proofgraph.Batch) {
		for i := range b.Entries {
			b.Entries[i] = change(b.Entries[i])
		}
	})
}

// onConflict does something when a batch is not at the end, and before it says so.
func onConflict(do func(h *hooks, b proofgraph.Batch) error) func() func() proofgraph.Store {
	return toy(func(h *hooks) {
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			if n := h.len(); b.At != n {
				at := b.At
				b.At = n
				if err := do(h, b); err != nil {
					return err
				}
				b.At = at
			}
			return h.Store.Append(ctx, b)
		}
	})
}

func empty(b proofgraph.Batch) bool {
	return len(b.Entries) == 0 && len(b.Blobs) == 0 && b.Checkpoint == nil
}

var brokenAppends = []breaches{
	{"a new store is empty", []breach{
		{"has an empty checkpoint", toy(func(h *hooks) {
			h.checkpoint = func(ctx context.Context) ([]byte, error) {
				c, err := h.Store.Checkpoint(ctx)
				return append([]byte{}, c...), err
			}
		})},
		{"has every blob", toy(func(h *hooks) {
			h.blob = func(context.Context, contracts.Digest) ([]byte, error) { return nil, nil }
		})},
		{"has no empty range", toy(func(h *hooks) {
			h.size = func(ctx context.Context) (uint64, error) { return h.Store.Size(ctx) }
			h.entries = nothingIsAnError(h)
		})},
		{"is not new", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			m.Append(context.Background(), proofgraph.Batch{Entries: []contracts.Entry{[]byte("of another test")}})
			return func() proofgraph.Store { return m }
		}},
		{"is not there", func() func() proofgraph.Store { return func() proofgraph.Store { return nil } }},
		{"nobody can open", func() func() proofgraph.Store { return nil }},
	}},
	{"an empty batch changes nothing", []breach{
		{"refuses it", refuses(empty)},
		{"takes it as an entry", mangled(func(b *proofgraph.Batch) {
			if empty(*b) {
				b.Entries = []contracts.Entry{nil}
			}
		})},
		{"takes no checkpoint as an empty one", mangled(func(b *proofgraph.Batch) {
			b.Checkpoint = append([]byte{}, b.Checkpoint...)
		})},
	}},
	{"entries keep their order", []breach{
		{"writes a batch backwards", mangled(func(b *proofgraph.Batch) { slices.Reverse(b.Entries) })},
		{"sorts a batch", mangled(func(b *proofgraph.Batch) {
			slices.SortFunc(b.Entries, func(a, b contracts.Entry) int { return bytes.Compare(a, b) })
		})},
		{"keeps equal entries once", mangled(func(b *proofgraph.Batch) {
			b.Entries = slices.CompactFunc(b.Entries, func(a, b contracts.Entry) bool { return bytes.Equal(a, b) })
		})},
		{"counts batches", toy(func(h *hooks) {
			batches := uint64(0)
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				batches++
				return h.Store.Append(ctx, b)
			}
			h.size = func(context.Context) (uint64, error) { return batches, nil }
		})},
		{"refuses two that are equal", refuses(func(b proofgraph.Batch) bool {
			return len(b.Entries) > 1 && bytes.Equal(b.Entries[0], b.Entries[1])
		})},
	}},
	{"entries, blobs and checkpoints are any bytes", []breach{
		{"ends them at a zero",
			everywhere(func(b []byte) []byte { before, _, _ := bytes.Cut(b, []byte{0}); return before })},
		{"drops zeros at their end", everywhere(func(b []byte) []byte { return bytes.TrimRight(b, "\x00") })},
		{"ends them at a line",
			everywhere(func(b []byte) []byte { before, _, _ := bytes.Cut(b, []byte("\n")); return before })},
		{"trims space", everywhere(bytes.TrimSpace)},
		{"writes them as text", everywhere(func(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\ufffd")) })},
		{"composes accents",
			everywhere(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("e\u0301"), []byte("é")) })},
		{"reads escapes", everywhere(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`\`), nil) })},
		{"cuts what is long", everywhere(func(b []byte) []byte { return b[:min(len(b), 32767)] })},
		{"writes checkpoints as lines",
			mangled(func(b *proofgraph.Batch) { b.Checkpoint = bytes.TrimSuffix(b.Checkpoint, []byte("\n")) })},
		{"cuts blobs at a zero", mangled(func(b *proofgraph.Batch) {
			for i := range b.Blobs {
				b.Blobs[i], _, _ = bytes.Cut(b.Blobs[i], []byte{0})
			}
		})},
	}},
	{"a batch is as big as a log makes them", []breach{
		{"refuses a thousand entries", refuses(func(b proofgraph.Batch) bool { return len(b.Entries) > 1000 })},
		{"refuses four megabytes", refuses(func(b proofgraph.Batch) bool { return len(b.Blobs) == 64 })},
		{"refuses a large blob",
			refuses(func(b proofgraph.Batch) bool { return len(b.Blobs) == 1 && len(b.Blobs[0]) > 4<<20 })},
		{"drops the last entries",
			mangled(func(b *proofgraph.Batch) { b.Entries = b.Entries[:min(len(b.Entries), 1000)] })},
		{"drops the last blobs", mangled(func(b *proofgraph.Batch) { b.Blobs = b.Blobs[:min(len(b.Blobs), 63)] })},
	}},
	{"a batch that does not begin at the end is ErrConflict and changes nothing", []breach{
		{"stores it at the end", mangled(func(b *proofgraph.Batch) {
			if b.At != 0 {
				b.At = 6
			}
		})},
		{"does not look at At", onConflict(func(h *hooks, b proofgraph.Batch) error {
			if err := h.Store.Append(context.Background(), b); err != nil {
				return err
			}
			return errors.New("lost")
		})},
		{"looks at the lower half of At", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				b.At &= math.MaxUint32
				return h.Store.Append(ctx, b)
			}
		})},
		{"has indexes with a sign", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				b.At &^= 1 << 63
				return h.Store.Append(ctx, b)
			}
		})},
		{"looks at At only where there are entries", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if len(b.Entries) == 0 {
					b.At = h.len()
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"does not refuse empty ones", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if empty(b) {
					return nil
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"accepts what stands below the end", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if b.At < h.len() {
					return nil // as if it were a repeat
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"leaves a gap", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if n := h.len(); b.At == n+1 {
					b.At, b.Entries = n, append([]contracts.Entry{nil}, b.Entries...)
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"has an error of its own", onConflict(func(*hooks, proofgraph.Batch) error { return errBroken })},
		{"keeps its blobs", onConflict(func(h *hooks, b proofgraph.Batch) error {
			return h.Store.Append(context.Background(), proofgraph.Batch{At: b.At, Blobs: b.Blobs})
		})},
		{"keeps its checkpoint", onConflict(func(h *hooks, b proofgraph.Batch) error {
			return h.Store.Append(context.Background(), proofgraph.Batch{At: b.At, Checkpoint: b.Checkpoint})
		})},
		{"keeps half of its entries", onConflict(func(h *hooks, b proofgraph.Batch) error {
			return h.Store.Append(context.Background(), proofgraph.Batch{At: b.At,
				Entries: b.Entries[:len(b.Entries)/2]})
		})},
		{"removes its blobs, also those of others", toy(func(h *hooks) {
			removed := map[string]bool{}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				for _, blob := range b.Blobs {
					removed[string(blob)] = errors.Is(err, proofgraph.ErrConflict)
				}
				return err
			}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				b, err := h.Store.Blob(ctx, d)
				if removed[string(b)] {
					return nil, proofgraph.ErrNoBlob
				}
				return b, err
			}
		})},
		{"is dead afterwards", toy(func(h *hooks) {
			var dead error
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if dead == nil || b.At != h.len() {
					dead = h.Store.Append(ctx, b)
				}
				return dead
			}
		})},
	}},
	{"of those who append at one place one wins", []breach{
		{"looks first and writes then", toy(func(h *hooks) {
			var looked atomic.Int64
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if b.At != h.len() {
					return proofgraph.ErrConflict
				}
				await(&looked, looked.Add(1)+1)
				for b.At = h.len(); errors.Is(h.Store.Append(ctx, b), proofgraph.ErrConflict); b.At = h.len() {
				}
				return nil
			}
		})},
		{"is busy", toy(func(h *hooks) {
			var one sync.Mutex
			var turnedAway atomic.Int64
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if !one.TryLock() {
					turnedAway.Add(1)
					return errBroken
				}
				defer one.Unlock()
				await(&turnedAway, turnedAway.Load()+1)
				return h.Store.Append(ctx, b)
			}
		})},
		{"tells nobody that he won", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				h.Store.Append(ctx, b)
				return proofgraph.ErrConflict
			}
		})},
		{"has the blobs of those who lost", toy(func(h *hooks) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				for errors.Is(err, proofgraph.ErrConflict) && h.Store.Append(ctx,
					proofgraph.Batch{At: h.len(), Blobs: b.Blobs}) != nil {
				}
				return err
			}
		})},
	}},
}

package helmtest

import (
	"bytes"
	"context"
	"iter"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// forgets is a store that loses something when it is opened again: batches copy its contents, and
// some batches are dropped.
func forgets(drop func(list []proofgraph.Batch) []proofgraph.Batch) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		var list []proofgraph.Batch
		return func() proofgraph.Store {
			list = drop(list)
			h := &hooks{Store: proofgraph.NewMemory()}
			for i := range list {
				list[i].At = h.len()
				if err := h.Store.Append(forever, list[i]); err != nil {
					panic(err)
				}
			}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				if err == nil {
					list = append(list, clone(b))
				}
				return err
			}
			return h
		}
	}
}

// ajar is a door with one method that works after Close.
func ajar(leave func(h *hooks, m proofgraph.Store)) func() func() proofgraph.Store {
	return doors(func(h *hooks) { leave(h, h.Store.(*door).room) })
}

// afterwards returns that many empty entries for each when it was closed; it goes on to have a
// size.
func afterwards(h *hooks, m proofgraph.Store, n uint64) entriesFunc {
	var shut atomic.Bool
	shutDoor := h.close
	h.close = func() error {
		shut.Store(true)
		return shutDoor()
	}
	h.size = m.Size
	return func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		if shut.Load() {
			return iterate(make([]contracts.Entry, n*(to-from)), nil)
		}
		return m.Entries(ctx, from, to)
	}
}

var brokenOpens = []breaches{
	{"what was acknowledged is found when it is opened again", []breach{
		{"forgets everything", forgets(func([]proofgraph.Batch) []proofgraph.Batch { return nil })},
		{"forgets the last batch",
			forgets(func(list []proofgraph.Batch) []proofgraph.Batch { return list[:max(0, len(list)-1)] })},
		{"forgets the checkpoint", forgets(func(list []proofgraph.Batch) []proofgraph.Batch {
			for i := range list {
				list[i].Checkpoint = nil
			}
			return list
		})},
		{"forgets all but the first blobs", forgets(func(list []proofgraph.Batch) []proofgraph.Batch {
			for i := range list {
				list[i].Blobs = list[i].Blobs[:min(1, len(list[i].Blobs))]
			}
			return list
		})},
		{"forgets blobs that came without entries", forgets(func(list []proofgraph.Batch) []proofgraph.Batch {
			for i := range list {
				if len(list[i].Entries) == 0 {
					list[i].Blobs = nil
				}
			}
			return list
		})},
		{"reads the newest first", forgets(func(list []proofgraph.Batch) []proofgraph.Batch {
			for i, b := range list {
				if n := len(b.Entries); n == 2 && bytes.Equal(b.Entries[1], []byte("next")) {
					list[i].Entries[0], list[i].Entries[1] = b.Entries[1], b.Entries[0]
				}
			}
			return list
		})},
		{"begins to count anew", handles(func(h *hooks) {
			before := h.len()
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if b.At < before {
					b.At = h.len()
				}
				return h.Store.Append(ctx, b)
			}
		})},
		{"cannot be closed", doors(func(h *hooks) { h.close = func() error { return errBroken } })},
		{"cannot be opened again", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			opened := false
			return func() proofgraph.Store {
				if opened {
					return nil
				}
				opened = true
				return m
			}
		}},
	}},
	{"all who have it open append to one log", []breach{
		{"knows its size from when it was opened", handles(func(h *hooks) {
			n := h.len()
			h.size = func(context.Context) (uint64, error) { return n, nil }
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				if err == nil {
					n += uint64(len(b.Entries))
				}
				return err
			}
		})},
		{"compares At with the size that it knows", handles(func(h *hooks) {
			n := h.len()
			h.size = func(ctx context.Context) (_ uint64, err error) {
				n, err = h.Store.Size(ctx)
				return n, err
			}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if b.At != n {
					return proofgraph.ErrConflict
				}
				n += uint64(len(b.Entries))
				b.At = h.len()
				return h.Store.Append(ctx, b)
			}
		})},
		{"has a checkpoint of its own", handles(func(h *hooks) {
			var own []byte
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				if err == nil && b.Checkpoint != nil {
					own = bytes.Clone(b.Checkpoint)
				}
				return err
			}
			h.checkpoint = func(context.Context) ([]byte, error) { return bytes.Clone(own), nil }
		})},
		{"has blobs of its own", handles(func(h *hooks) {
			own := proofgraph.NewMemory()
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := h.Store.Append(ctx, b); err != nil {
					return err
				}
				return own.Append(ctx, proofgraph.Batch{Blobs: b.Blobs})
			}
			h.blob = own.Blob
		})},
		{"is another log for each",
			func() func() proofgraph.Store { return func() proofgraph.Store { return proofgraph.NewMemory() } }},
	}},
	{"closed, it says so", []breach{
		{"cannot be closed", doors(func(h *hooks) { h.close = func() error { return errBroken } })},
		{"appends", ajar(func(h *hooks, m proofgraph.Store) { h.append = m.Append })},
		{"appends where nobody finds it", ajar(func(h *hooks, m proofgraph.Store) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				h.Store.Append(ctx, b)
				return nil
			}
		})},
		{"takes it for a conflict", ajar(func(h *hooks, m proofgraph.Store) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if h.Store.Append(ctx, b) != nil {
					return proofgraph.ErrConflict
				}
				return nil
			}
		})},
		{"has a size", ajar(func(h *hooks, m proofgraph.Store) { h.size = m.Size })},
		{"has entries", ajar(func(h *hooks, m proofgraph.Store) { h.entries = m.Entries })},
		{"has blobs", ajar(func(h *hooks, m proofgraph.Store) { h.blob = m.Blob })},
		{"takes it for a blob that is not there", ajar(func(h *hooks, m proofgraph.Store) {
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				b, err := h.Store.Blob(ctx, d)
				if err != nil {
					return nil, proofgraph.ErrNoBlob
				}
				return b, nil
			}
		})},
		{"has a checkpoint", ajar(func(h *hooks, m proofgraph.Store) { h.checkpoint = m.Checkpoint })},
		{"panics when it is closed again", doors(func(h *hooks) {
			done := make(chan struct{})
			d := h.close
			h.close = func() error {
				close(done)
				return d()
			}
		})},
	}},
	{"closing loses nothing that was acknowledged", []breach{
		{"loses the last batch", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			return func() proofgraph.Store {
				d := &door{room: m}
				h := &hooks{Store: d, close: d.Close}
				var held *proofgraph.Batch // until the next comes: that is never
				h.append = func(ctx context.Context, b proofgraph.Batch) error {
					d.mu.Lock()
					defer d.mu.Unlock()
					if d.closed {
						return errClosed
					}
					if held != nil {
						if err := m.Append(ctx, *held); err != nil {
							return err
						}
					}
					b = clone(b)
					held = &b
					return nil
				}
				return hookedDoor{h}
			}
		}},
		{"leaves half of a batch", ajar(func(h *hooks, m proofgraph.Store) {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				if err != nil {
					b.Entries = b.Entries[:1]
					m.Append(ctx, b)
				}
				return err
			}
		})},
		{"fails before it is closed", doors(func(h *hooks) {
			h.append = func(context.Context, proofgraph.Batch) error { return errBroken }
		})},
		{"reads nothing then, and says nothing",
			ajar(func(h *hooks, m proofgraph.Store) { h.entries = afterwards(h, m, 0) })},
		{"reads what is not there any more",
			ajar(func(h *hooks, m proofgraph.Store) { h.entries = afterwards(h, m, 1) })},
	}},
	{"random operations leave what a model has", []breach{
		{"loses a blob that comes a third time", toy(func(h *hooks) {
			times := map[contracts.Digest]int{}
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				err := h.Store.Append(ctx, b)
				for _, blob := range b.Blobs {
					if err == nil {
						times[crypto.Sum(blob)]++
					}
				}
				return err
			}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if times[d] == 3 {
					return nil, proofgraph.ErrNoBlob
				}
				return h.Store.Blob(ctx, d)
			}
		})},
		{"ends at its hundredth entry", toy(func(h *hooks) {
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return h.Store.Entries(ctx, from, max(from, min(to, 100)))
			}
		})},
		{"appends under a context that had ended", toy(func(h *hooks) {
			h.append = func(_ context.Context, b proofgraph.Batch) error { return h.Store.Append(forever, b) }
		})},
	}},
}

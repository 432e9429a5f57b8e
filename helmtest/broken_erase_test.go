package helmtest

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// An erasable store has a hook before EraseBlob, too.
type erasable struct {
	*hooks
	erase func(ctx context.Context, d contracts.Digest) error
}

func (e erasable) EraseBlob(ctx context.Context, d contracts.Digest) error { return e.erase(ctx, d) }

type erasableDoor struct{ erasable }

func (d erasableDoor) Close() error { return d.close() }

// erasing is a store in memory that erases in its own way.
func erasing(how func(h *hooks, m *proofgraph.Memory) func(ctx context.Context,
	d contracts.Digest) error) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		h := &hooks{Store: m}
		e := erasable{h, how(h, m)}
		return func() proofgraph.Store { return e }
	}
}

// hiding is a store that keeps everything and hides some of it, until it is opened again or
// something else happens.
func hiding(hidden func(d contracts.Digest, gone map[contracts.Digest]bool) bool) func() func() proofgraph.Store {
	return erasing(func(h *hooks, m *proofgraph.Memory) func(ctx context.Context, d contracts.Digest) error {
		gone := map[contracts.Digest]bool{}
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			err := m.Append(ctx, b)
			for _, blob := range b.Blobs {
				delete(gone, crypto.Sum(blob))
			}
			return err
		}
		h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
			if hidden(d, gone) {
				return nil, proofgraph.ErrNoBlob
			}
			return m.Blob(ctx, d)
		}
		return func(ctx context.Context, d contracts.Digest) error {
			gone[d] = true
			return ctx.Err()
		}
	})
}

var ofEmpty = crypto.Sum(nil)

var brokenErasers = []breaches{
	{"a blob that was erased is gone, and nothing else", []breach{
		{"does nothing", erasing(func(*hooks, *proofgraph.Memory) func(context.Context, contracts.Digest) error {
			return func(ctx context.Context, _ contracts.Digest) error { return ctx.Err() }
		})},
		{"has an error for what is not there",
			erasing(func(_ *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				return func(ctx context.Context, d contracts.Digest) error {
					if _, err := m.Blob(ctx, d); err != nil {
						return err
					}
					return m.EraseBlob(ctx, d)
				}
			})},
		{"cannot erase what is empty",
			hiding(func(d contracts.Digest, gone map[contracts.Digest]bool) bool { return gone[d] && d != ofEmpty })},
		{"erases all that was erased or has a like name",
			hiding(func(d contracts.Digest, gone map[contracts.Digest]bool) bool {
				for x := range gone {
					if x[0]%16 == d[0]%16 {
						return true
					}
				}
				return false
			})},
		{"overwrites it with zeros, and goes on giving it",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				gone := map[contracts.Digest]bool{}
				h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
					b, err := m.Blob(ctx, d)
					if gone[d] {
						clear(b)
					}
					return b, err
				}
				return func(_ context.Context, d contracts.Digest) error { gone[d] = true; return nil }
			})},
		{"gives it back when it is opened again", func() func() proofgraph.Store {
			m, live := proofgraph.NewMemory(), 0
			return func() proofgraph.Store {
				live++
				gone, mine := map[contracts.Digest]bool{}, live
				h := &hooks{Store: m}
				h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
					if gone[d] && mine == live {
						return nil, proofgraph.ErrNoBlob
					}
					return m.Blob(ctx, d)
				}
				return erasable{h, func(_ context.Context, d contracts.Digest) error { gone[d] = true; return nil }}
			}
		}},
		{"takes the checkpoint with it",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				return func(ctx context.Context, d contracts.Digest) error {
					if err := m.EraseBlob(ctx, d); err != nil {
						return err
					}
					return m.Append(ctx, proofgraph.Batch{At: h.len(), Checkpoint: []byte{}})
				}
			})},
	}},
	{"a blob that is appended after it was erased is there again", []breach{
		{"never keeps it again",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				gone := map[contracts.Digest]bool{}
				h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
					if gone[d] {
						return nil, proofgraph.ErrNoBlob
					}
					return m.Blob(ctx, d)
				}
				return func(_ context.Context, d contracts.Digest) error { gone[d] = true; return nil }
			})},
		{"keeps it again, and cannot erase it any more",
			erasing(func(_ *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				gone := map[contracts.Digest]bool{}
				return func(ctx context.Context, d contracts.Digest) error {
					if gone[d] {
						return nil
					}
					gone[d] = true
					return m.EraseBlob(ctx, d)
				}
			})},
	}},
	{"who may not erase erases nothing", []breach{
		{"erases under a context that had ended",
			erasing(func(_ *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				return func(ctx context.Context, d contracts.Digest) error {
					m.EraseBlob(context.WithoutCancel(ctx), d)
					return ctx.Err()
				}
			})},
		{"asks no context", erasing(func(_ *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
			return func(ctx context.Context, d contracts.Digest) error {
				return m.EraseBlob(context.WithoutCancel(ctx), d)
			}
		})},
		{"keeps blobs of a batch that it refuses",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				h.append = func(ctx context.Context, b proofgraph.Batch) error {
					if b.At != h.len() {
						m.Append(ctx, proofgraph.Batch{At: h.len(), Blobs: b.Blobs})
					}
					return m.Append(ctx, b)
				}
				return m.EraseBlob
			})},
		{"erases when it is closed",
			closedErasing(func(d *door) func(context.Context, contracts.Digest) error { return d.room.EraseBlob })},
		{"erases, and cannot be closed", func() func() proofgraph.Store {
			open := closedErasing(func(d *door) func(context.Context, contracts.Digest) error {
				return d.room.EraseBlob
			})()
			return func() proofgraph.Store {
				d := open().(erasableDoor)
				d.close = func() error { return errBroken }
				return d
			}
		}},
		{"takes closed for not there", closedErasing(func(d *door) func(context.Context, contracts.Digest) error {
			return func(ctx context.Context, name contracts.Digest) error {
				if d.pass(func() error { return nil }) != nil {
					return proofgraph.ErrNoBlob
				}
				return d.room.EraseBlob(ctx, name)
			}
		})},
	}},
	{"what is erased while others append and read is whole or gone", []breach{
		{"fails while another appends",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				var writes atomic.Int64
				h.append = func(ctx context.Context, b proofgraph.Batch) error {
					writes.Add(1)
					return m.Append(ctx, b)
				}
				return func(ctx context.Context, d contracts.Digest) error {
					if writes.Load() > 3 {
						return errBroken
					}
					return m.EraseBlob(ctx, d)
				}
			})},
		{"erases later", erasing(func(_ *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
			var mu sync.Mutex
			var held contracts.Digest
			return func(ctx context.Context, d contracts.Digest) error {
				mu.Lock()
				defer mu.Unlock()
				held, d = d, held
				return m.EraseBlob(ctx, d)
			}
		})},
		{"hands out what is half overwritten",
			erasing(func(h *hooks, m *proofgraph.Memory) func(context.Context, contracts.Digest) error {
				var mu sync.Mutex
				half, seen := false, make(chan struct{})
				once := sync.OnceFunc(func() { close(seen) })
				h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					if half {
						once()
						return []byte("half"), nil
					}
					return m.Blob(ctx, d)
				}
				set := func(to bool) {
					mu.Lock()
					defer mu.Unlock()
					half = to
				}
				return func(ctx context.Context, d contracts.Digest) error {
					set(true)
					<-seen // one reader reads again and again
					set(false)
					return m.EraseBlob(ctx, d)
				}
			})},
	}},
}

// closedErasing is a store with a method Close.
func closedErasing(how func(d *door) func(ctx context.Context,
	name contracts.Digest) error) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			d := &door{room: m}
			return erasableDoor{erasable{&hooks{Store: d, close: d.Close}, how(d)}}
		}
	}
}

var _ io.Closer = erasableDoor{}

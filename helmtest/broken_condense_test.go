package helmtest

import (
	"bytes"
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

type (
	stubSeq      = iter.Seq2[uint64, []byte]
	blobSeq      = iter.Seq[contracts.Digest]
	condenseFunc func(ctx context.Context, stubs stubSeq, blobs blobSeq) error
)

// A condensable store has a hook before Condense, too.
type condensable struct {
	*hooks
	condense condenseFunc
}

func (c condensable) Condense(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
	return c.condense(ctx, stubs, blobs)
}

type condensableDoor struct{ condensable }

func (d condensableDoor) Close() error { return d.close() }

// condensing is a store in memory that condenses in its own way.
func condensing(how func(h *hooks, m *proofgraph.Memory) condenseFunc) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		h := &hooks{Store: m}
		c := condensable{h, how(h, m)}
		return func() proofgraph.Store { return c }
	}
}

// closedCondensing is one with a method Close.
func closedCondensing(how func(d *door) condenseFunc) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			d := &door{room: m}
			return condensableDoor{condensable{&hooks{Store: d, close: d.Close}, how(d)}}
		}
	}
}

// inside condenses the store that a door is of.
func inside(d *door) condenseFunc {
	return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
		return d.room.Condense(ctx, stubs, blobs)
	}
}

// overlay is a store whose Condense keeps lines by itself, and puts them over the entries that it
// still has.
func overlay(
	m *proofgraph.Memory, over func(lines map[uint64][]byte, i uint64) []byte, keep func([]byte) []byte,
) proofgraph.Store {
	lines := map[uint64][]byte{}
	h := &hooks{Store: m}
	h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		return func(yield func(contracts.Entry, error) bool) {
			for e, err := range m.Entries(ctx, from, to) {
				if line := over(lines, from); line != nil && err == nil {
					e = bytes.Clone(line)
				}
				if !yield(e, err) {
					return
				}
				from++
			}
		}
	}
	return condensable{h, func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
		for i, line := range stubs {
			lines[i] = keep(line)
		}
		return m.Condense(ctx, noStubs, blobs)
	}}
}

func overlaid(
	over func(lines map[uint64][]byte, i uint64) []byte, keep func([]byte) []byte,
) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		s := overlay(proofgraph.NewMemory(), over, keep)
		return func() proofgraph.Store { return s }
	}
}

func lineAt(lines map[uint64][]byte, i uint64) []byte { return lines[i] }

// noStubs and noBlobs are empty sequences.
func noStubs(func(uint64, []byte) bool)   {}
func noBlobs(func(contracts.Digest) bool) {}

// listed has asked both sequences for all before it calls next.
func listed(next condenseFunc) condenseFunc {
	return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
		var indexes []uint64
		var lines [][]byte
		var names []contracts.Digest
		for i, line := range stubs {
			indexes, lines = append(indexes, i), append(lines, bytes.Clone(line))
		}
		for d := range blobs {
			names = append(names, d)
		}
		return next(ctx, func(yield func(uint64, []byte) bool) {
			for i := range indexes {
				if !yield(indexes[i], lines[i]) {
					return
				}
			}
		}, func(yield func(contracts.Digest) bool) {
			for _, d := range names {
				if !yield(d) {
					return
				}
			}
		})
	}
}

// oneByOne puts stubs in the place of entries, each when it comes.
func oneByOne(ctx context.Context, m *proofgraph.Memory, stubs stubSeq) error {
	for i, line := range stubs {
		if err := m.Condense(ctx, func(yield func(uint64, []byte) bool) { yield(i, line) }, noBlobs); err != nil {
			return err
		}
	}
	return nil
}

// only is a store in memory with another Condense.
func only(how func(m *proofgraph.Memory) condenseFunc) func() func() proofgraph.Store {
	return condensing(func(_ *hooks, m *proofgraph.Memory) condenseFunc { return how(m) })
}

var brokenCondensers = []breaches{
	{"stubs are in the place of entries that were condensed, and nothing else changes", []breach{
		{"does nothing", only(func(*proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				stubs(func(uint64, []byte) bool { return true })
				blobs(func(contracts.Digest) bool { return true })
				return ctx.Err()
			}
		})},
		{"cannot", only(func(*proofgraph.Memory) condenseFunc {
			return func(context.Context, stubSeq, blobSeq) error { return errBroken }
		})},
		{"forgets blobs alone", overlaid(func(map[uint64][]byte, uint64) []byte { return nil }, bytes.Clone)},
		{"keeps blobs", only(func(m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, _ blobSeq) error {
				return m.Condense(ctx, stubs, noBlobs)
			}
		})},
		{"keeps the slice of a line", overlaid(lineAt, func(line []byte) []byte { return line })},
		{"puts stubs one place too far", overlaid(func(lines map[uint64][]byte, i uint64) []byte {
			return lines[i-1]
		}, bytes.Clone)},
		{"leaves entries out", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			gone := map[uint64]bool{}
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return func(yield func(contracts.Entry, error) bool) {
					for e, err := range m.Entries(ctx, from, to) {
						if from++; !gone[from-1] && !yield(e, err) {
							return
						}
					}
				}
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				for i := range stubs {
					gone[i] = true
				}
				return m.Condense(ctx, noStubs, blobs)
			}
		})},
		{"has the entry again when it is opened again", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			return func() proofgraph.Store { return overlay(m, lineAt, bytes.Clone) }
		}},
		{"refuses a stub that is there", only(func(m *proofgraph.Memory) condenseFunc {
			return listed(func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				for i := range stubs {
					if list, err := read(ctx, m, i, i+1); err != nil || contracts.IsStub(list[0]) {
						return errBroken
					}
				}
				return m.Condense(ctx, stubs, blobs)
			})
		})},
		{"has an error for a blob that is not there", only(func(m *proofgraph.Memory) condenseFunc {
			return listed(func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				for d := range blobs {
					if _, err := m.Blob(ctx, d); err != nil {
						return err
					}
				}
				return m.Condense(ctx, stubs, blobs)
			})
		})},
		{"takes the checkpoint with it", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if err := m.Append(ctx, proofgraph.Batch{At: h.len(), Checkpoint: []byte{}}); err != nil {
					return err
				}
				return m.Condense(ctx, stubs, blobs)
			}
		})},
		{"never keeps a blob again", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			gone := map[contracts.Digest]bool{}
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if gone[d] {
					return nil, proofgraph.ErrNoBlob
				}
				return m.Blob(ctx, d)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				for d := range blobs {
					gone[d] = true
				}
				return m.Condense(ctx, stubs, noBlobs)
			}
		})},
	}},
	{"a blob that is appended while the store condenses stays", []breach{
		{"forgets what came while it was asking", only(func(m *proofgraph.Memory) condenseFunc {
			return listed(m.Condense)
		})},
		{"keeps only blobs that are new", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				var fresh [][]byte
				for _, blob := range b.Blobs {
					if _, err := m.Blob(ctx, crypto.Sum(blob)); err != nil {
						fresh = append(fresh, blob)
					}
				}
				b.Blobs = fresh
				return m.Append(ctx, b)
			}
			return m.Condense
		})},
		{"appends nothing meanwhile", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			busy := false
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if busy {
					return errBroken
				}
				return m.Append(ctx, b)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				busy = true
				defer func() { busy = false }()
				return m.Condense(ctx, stubs, blobs)
			}
		})},
		{"asks for nothing", only(func(*proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, _ stubSeq, _ blobSeq) error {
				return ctx.Err()
			}
		})},
	}},
	{"condensing that is refused, or ended, leaves entries or their stubs", []breach{
		{"asks no context", only(func(m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				return m.Condense(context.WithoutCancel(ctx), stubs, blobs)
			}
		})},
		{"has another error when its context ends", only(func(m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if m.Condense(ctx, stubs, blobs) != nil {
					return errBroken
				}
				return nil
			}
		})},
		{"takes any line", overlaid(lineAt, bytes.Clone)},
		{"ends with its error", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			dead := error(nil)
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				if dead != nil {
					return dead
				}
				return m.Append(ctx, b)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				dead = m.Condense(ctx, stubs, blobs)
				return dead
			}
		})},
		{"does it no more after an error", only(func(m *proofgraph.Memory) condenseFunc {
			var failed error
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if failed == nil {
					failed = m.Condense(ctx, stubs, blobs)
				}
				return failed
			}
		})},
		{"condenses when it is closed", closedCondensing(inside)},
		{"takes closed for a conflict", closedCondensing(func(d *door) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if d.pass(func() error { return nil }) != nil {
					return proofgraph.ErrConflict
				}
				return d.room.Condense(ctx, stubs, blobs)
			}
		})},
		{"condenses, and cannot be closed", func() func() proofgraph.Store {
			opened := 0
			open := closedCondensing(inside)()
			return func() proofgraph.Store {
				d := open().(condensableDoor)
				if opened++; opened > 10 { // it is opened again ten times before
					d.close = func() error { return errBroken }
				}
				return d
			}
		}},
	}},
	{"blobs are forgotten before the last entry that may name them is a stub", []breach{
		{"puts stubs first", only(func(m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if err := oneByOne(ctx, m, stubs); err != nil {
					return err
				}
				return m.Condense(ctx, noStubs, blobs)
			}
		})},
		{"forgets with its stub what came with it", only(func(m *proofgraph.Memory) condenseFunc {
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				var fault error
				next, stop := iter.Pull(blobs)
				defer stop()
				for i, line := range stubs {
					if d, ok := next(); ok && fault == nil {
						fault = m.Condense(ctx, noStubs, func(yield func(contracts.Digest) bool) { yield(d) })
					}
					if fault == nil {
						fault = m.Condense(ctx, func(yield func(uint64, []byte) bool) { yield(i, line) }, noBlobs)
					}
				}
				return fault
			}
		})},
	}},
	{"what is condensed while others append and read is itself or its stub", []breach{
		{"fails while another appends", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			var writes atomic.Int64
			h.append = func(ctx context.Context, b proofgraph.Batch) error {
				writes.Add(1)
				return m.Append(ctx, b)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				if writes.Load() > 3 {
					return errBroken
				}
				return m.Condense(ctx, stubs, blobs)
			}
		})},
		{"hands out what is half a stub", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			var half atomic.Bool
			seen := make(chan struct{})
			once := sync.OnceFunc(func() { close(seen) })
			h.entries = func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				if half.Load() && to > from {
					once()
					return iterate([]contracts.Entry{[]byte("half")}, nil)
				}
				return m.Entries(ctx, from, to)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				half.Store(true)
				<-seen // two readers read again and again
				half.Store(false)
				return m.Condense(ctx, stubs, blobs)
			}
		})},
		{"has no blobs meanwhile", condensing(func(h *hooks, m *proofgraph.Memory) condenseFunc {
			var busy atomic.Bool
			seen := make(chan struct{})
			once := sync.OnceFunc(func() { close(seen) })
			h.blob = func(ctx context.Context, d contracts.Digest) ([]byte, error) {
				if busy.Load() && d == crypto.Sum([]byte("blob of entry 1")) {
					once()
					return nil, proofgraph.ErrNoBlob
				}
				return m.Blob(ctx, d)
			}
			return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
				busy.Store(true)
				<-seen
				busy.Store(false)
				return m.Condense(ctx, stubs, blobs)
			}
		})},
	}},
}

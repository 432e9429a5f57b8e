package helmtest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/helmkernel/helm/proofgraph"
)

// A remembering store has hooks before SaveState and State, too.
type remembering struct {
	*hooks
	save  func(ctx context.Context, b []byte) error
	state func(ctx context.Context) ([]byte, error)
}

func (r *remembering) SaveState(ctx context.Context, b []byte) error { return r.save(ctx, b) }
func (r *remembering) State(ctx context.Context) ([]byte, error)     { return r.state(ctx) }

type rememberingDoor struct{ *remembering }

func (d rememberingDoor) Close() error { return d.close() }

// recalls is a store in memory that remembers in its own way, and is the same one each time that it
// is opened.
func recalls(spoil func(r *remembering, m *proofgraph.Memory)) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		r := &remembering{&hooks{Store: m}, m.SaveState, m.State}
		spoil(r, m)
		return func() proofgraph.Store { return r }
	}
}

// closedRemembering is one with a method Close.
func closedRemembering(spoil func(d *door, r *remembering)) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			d := &door{room: m}
			r := &remembering{&hooks{Store: d, close: d.Close}, m.SaveState, m.State}
			spoil(d, r)
			return rememberingDoor{r}
		}
	}
}

// saves is a store that changes what it saves.
func saves(change func(state []byte) []byte) func() func() proofgraph.Store {
	return recalls(func(r *remembering, m *proofgraph.Memory) {
		r.save = func(ctx context.Context, b []byte) error { return m.SaveState(ctx, change(b)) }
	})
}

var brokenRememberers = []breaches{
	{"a state stays until the next, and nothing else changes", []breach{
		{"has one from the start", recalls(func(r *remembering, m *proofgraph.Memory) {
			if err := m.SaveState(forever, []byte("mine")); err != nil {
				panic(err)
			}
		})},
		{"has none, and empty bytes for it", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.state = func(ctx context.Context) ([]byte, error) {
				b, err := m.State(ctx)
				return append([]byte{}, b...), err
			}
		})},
		{"fails", recalls(func(r *remembering, _ *proofgraph.Memory) {
			r.save = func(context.Context, []byte) error { return errBroken }
		})},
		{"saves nothing", recalls(func(r *remembering, _ *proofgraph.Memory) {
			r.save = func(context.Context, []byte) error { return nil }
		})},
		{"saves the first", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				if old, err := m.State(ctx); old != nil || err != nil {
					return err
				}
				return m.SaveState(ctx, b)
			}
		})},
		{"takes none for no change", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				if len(b) == 0 {
					return nil
				}
				return m.SaveState(ctx, b)
			}
		})},
		{"writes over the one before", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				old, err := m.State(ctx)
				if err != nil || len(b) == 0 {
					return m.SaveState(ctx, b)
				}
				return m.SaveState(ctx, append(bytes.Clone(b), old[min(len(old), len(b)):]...))
			}
		})},
		{"cuts it", saves(func(state []byte) []byte { return state[:min(len(state), 1<<20)] })},
		{"drops zeros at the end", saves(func(state []byte) []byte { return bytes.TrimRight(state, "\x00") })},
		{"takes it for text", saves(bytes.TrimSpace)},
		{"has it as long as a process", func() func() proofgraph.Store {
			m := proofgraph.NewMemory()
			return func() proofgraph.Store {
				var state []byte
				return &remembering{&hooks{Store: m},
					func(_ context.Context, b []byte) error { state = append([]byte(nil), b...); return nil },
					func(context.Context) ([]byte, error) { return bytes.Clone(state), nil }}
			}
		}},
		{"drops it with the next batch", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.append = func(ctx context.Context, b proofgraph.Batch) error {
				if err := m.Append(ctx, b); err != nil || len(b.Entries) == 0 {
					return err
				}
				return m.SaveState(ctx, nil)
			}
		})},
		{"makes it the checkpoint", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				if err := m.Append(ctx, proofgraph.Batch{At: r.len(), Checkpoint: b}); err != nil {
					return err
				}
				return m.SaveState(ctx, b)
			}
		})},
		{"makes it an entry", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				if err := m.Append(ctx, numbered(int(r.len()))); err != nil {
					return err
				}
				return m.SaveState(ctx, b)
			}
		})},
		{"keeps the caller's bytes", recalls(func(r *remembering, m *proofgraph.Memory) {
			var state []byte
			r.save = func(_ context.Context, b []byte) error {
				if state = b; len(b) == 0 {
					state = nil
				}
				return nil
			}
			r.state = func(context.Context) ([]byte, error) { return bytes.Clone(state), nil }
		})},
		{"hands out its own bytes", recalls(func(r *remembering, m *proofgraph.Memory) {
			var state []byte
			r.save = func(_ context.Context, b []byte) error {
				state = append([]byte(nil), b...)
				return nil
			}
			r.state = func(context.Context) ([]byte, error) { return state, nil }
		})},
	}},
	{"who may not save a state saves nothing", []breach{
		{"saves under a context that has ended", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(_ context.Context, b []byte) error { return m.SaveState(forever, b) }
		})},
		{"saves under one, and says that it did not", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				if err := m.SaveState(forever, b); err != nil {
					return err
				}
				return ctx.Err()
			}
		})},
		{"reads under one", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.state = func(context.Context) ([]byte, error) { return m.State(forever) }
		})},
		{"reads under one, and returns the error too", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.state = func(ctx context.Context) ([]byte, error) {
				b, err := m.State(forever)
				if err == nil {
					err = ctx.Err()
				}
				return b, err
			}
		})},
		{"saves when it is closed", closedRemembering(func(d *door, r *remembering) {
			r.state = func(ctx context.Context) (b []byte, err error) {
				err = d.pass(func() error { b, err = d.room.State(ctx); return err })
				return b, err
			}
		})},
		{"reads when it is closed", closedRemembering(func(d *door, r *remembering) {
			r.save = func(ctx context.Context, b []byte) error {
				return d.pass(func() error { return d.room.SaveState(ctx, b) })
			}
		})},
		{"cannot be closed", closedRemembering(func(d *door, r *remembering) {
			r.close = func() error { return errBroken }
		})},
	}},
	{"a state that is saved while others append and read is whole", []breach{
		{"fails in the end", recalls(func(r *remembering, m *proofgraph.Memory) {
			n := 0
			r.save = func(ctx context.Context, b []byte) error {
				if n++; n > 5 {
					return errBroken
				}
				return m.SaveState(ctx, b)
			}
		})},
		{"is written in two parts", recalls(func(r *remembering, m *proofgraph.Memory) {
			var looks atomic.Int64
			r.state = func(ctx context.Context) ([]byte, error) {
				looks.Add(1)
				return m.State(ctx)
			}
			r.save = func(ctx context.Context, b []byte) error {
				if err := m.SaveState(ctx, b[:len(b)/2]); err != nil {
					return err
				}
				await(&looks, looks.Load()+4)
				return m.SaveState(ctx, b)
			}
		})},
		{"has none while it is replaced", recalls(func(r *remembering, m *proofgraph.Memory) {
			var looks atomic.Int64
			r.state = func(ctx context.Context) ([]byte, error) {
				looks.Add(1)
				return m.State(ctx)
			}
			r.save = func(ctx context.Context, b []byte) error {
				if err := m.SaveState(ctx, nil); err != nil {
					return err
				}
				await(&looks, looks.Load()+4)
				return m.SaveState(ctx, b)
			}
		})},
		{"is a state behind", recalls(func(r *remembering, m *proofgraph.Memory) {
			var last []byte
			r.save = func(ctx context.Context, b []byte) error {
				was := last
				last = bytes.Clone(b)
				runtime.Gosched()
				return m.SaveState(ctx, was)
			}
		})},
		{"makes it a blob", recalls(func(r *remembering, m *proofgraph.Memory) {
			r.save = func(ctx context.Context, b []byte) error {
				err := m.Append(ctx, proofgraph.Batch{At: r.len(), Blobs: [][]byte{b}})
				for errors.Is(err, proofgraph.ErrConflict) {
					err = m.Append(ctx, proofgraph.Batch{At: r.len(), Blobs: [][]byte{b}})
				}
				if err != nil {
					return err
				}
				return m.SaveState(ctx, b)
			}
		})},
	}},
}

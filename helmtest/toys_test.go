package helmtest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// honest stores keep every promise.
var honest = map[string]func() func() proofgraph.Store{
	"in memory": toy(func(*hooks) {}),
	"that erases": func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store { return m }
	},
	"that erases while it is open": closedErasing(func(d *door) func(context.Context, contracts.Digest) error {
		return func(ctx context.Context, name contracts.Digest) error {
			return d.pass(func() error { return d.room.EraseBlob(ctx, name) })
		}
	}),
	"that condenses while it is open": closedCondensing(func(d *door) condenseFunc {
		return func(ctx context.Context, stubs stubSeq, blobs blobSeq) error {
			return d.pass(func() error { return d.room.Condense(ctx, stubs, blobs) })
		}
	}),
	"that remembers while it is open": closedRemembering(func(d *door, r *remembering) {
		r.save = func(ctx context.Context, b []byte) error {
			return d.pass(func() error { return d.room.SaveState(ctx, b) })
		}
		r.state = func(ctx context.Context) (b []byte, err error) {
			err = d.pass(func() error { b, err = d.room.State(ctx); return err })
			return b, err
		}
	}),
	"that has hashes while it is open": closedHashing(func(d *door) hashesFunc {
		return func(indexes []int64) (list []tlog.Hash, err error) {
			err = d.pass(func() error { list, err = d.room.ReadHashes(indexes); return err })
			return list, err
		}
	}),
	"with a method Close": doors(func(*hooks) {}),
	"that copies by hand": copying(copies, copies),
	"that selects": toy(func(h *hooks) {
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			default:
				return h.Store.Append(context.WithoutCancel(ctx), b)
			}
		}
	}),
	"that stores while it is closed, and does not know": doors(func(h *hooks) {
		var after atomic.Int64 // appends since it is being closed
		var closing atomic.Bool
		shut := h.close
		h.close = func() error {
			if !closing.Swap(true) {
				await(&after, 1)
			}
			return shut()
		}
		h.append = func(ctx context.Context, b proofgraph.Batch) error {
			err := h.Store.Append(ctx, b)
			if closing.Load() && err == nil {
				after.Add(1)
				return errClosed
			}
			return err
		}
	}),
}

// hooks replace methods of a store. Methods without a hook are the store's own.
type hooks struct {
	proofgraph.Store
	append     func(ctx context.Context, b proofgraph.Batch) error
	size       func(ctx context.Context) (uint64, error)
	entries    func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
	blob       func(ctx context.Context, d contracts.Digest) ([]byte, error)
	checkpoint func(ctx context.Context) ([]byte, error)
	close      func() error // of a door
}

func (h *hooks) Append(ctx context.Context, b proofgraph.Batch) error {
	if h.append != nil {
		return h.append(ctx, b)
	}
	return h.Store.Append(ctx, b)
}

func (h *hooks) Size(ctx context.Context) (uint64, error) {
	if h.size != nil {
		return h.size(ctx)
	}
	return h.Store.Size(ctx)
}

func (h *hooks) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if h.entries != nil {
		return h.entries(ctx, from, to)
	}
	return h.Store.Entries(ctx, from, to)
}

func (h *hooks) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if h.blob != nil {
		return h.blob(ctx, d)
	}
	return h.Store.Blob(ctx, d)
}

func (h *hooks) Checkpoint(ctx context.Context) ([]byte, error) {
	if h.checkpoint != nil {
		return h.checkpoint(ctx)
	}
	return h.Store.Checkpoint(ctx)
}

// every entry of the range, as far as the store has it
func (h *hooks) all(from, to uint64) []contracts.Entry {
	list, err := read(context.Background(), h.Store, from, to)
	if err != nil {
		panic(err)
	}
	return list
}

func (h *hooks) len() uint64 {
	n, err := h.Store.Size(context.Background())
	if err != nil {
		panic(err)
	}
	return n
}

// iterate returns an iteration over a list that may end with an error.
func iterate(list []contracts.Entry, err error) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// toy is a store in memory, the same one each time that it is opened.
func toy(spoil func(h *hooks)) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		h := &hooks{Store: proofgraph.NewMemory()}
		spoil(h)
		return func() proofgraph.Store { return h }
	}
}

// handles are stores in memory that are hooked again each time that one is opened.
func handles(spoil func(h *hooks)) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			h := &hooks{Store: m}
			spoil(h)
			return h
		}
	}
}

// doors are stores over one log, each of which can be closed.
func doors(spoil func(h *hooks)) func() func() proofgraph.Store {
	return func() func() proofgraph.Store {
		m := proofgraph.NewMemory()
		return func() proofgraph.Store {
			d := &door{room: m}
			h := &hooks{Store: d, close: d.Close}
			spoil(h)
			return hookedDoor{h}
		}
	}
}

type hookedDoor struct{ *hooks }

func (h hookedDoor) Close() error { return h.close() }

// A door is open, or closed for good.
type door struct {
	room   *proofgraph.Memory
	mu     sync.RWMutex // held across an append; protects closed
	closed bool
}

var errClosed = errors.New("the store is closed")

func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.closed = true
	return nil
}

// pass calls through while the door is open.
func (d *door) pass(through func() error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return errClosed
	}
	return through()
}

func (d *door) Append(ctx context.Context, b proofgraph.Batch) error {
	return d.pass(func() error { return d.room.Append(ctx, b) })
}

func (d *door) Size(ctx context.Context) (n uint64, err error) {
	err = d.pass(func() error { n, err = d.room.Size(ctx); return err })
	return n, err
}

func (d *door) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		if err := d.pass(func() error { return nil }); err != nil {
			yield(nil, err)
			return
		}
		d.room.Entries(ctx, from, to)(yield)
	}
}

func (d *door) Blob(ctx context.Context, name contracts.Digest) (b []byte, err error) {
	err = d.pass(func() error { b, err = d.room.Blob(ctx, name); return err })
	return b, err
}

func (d *door) Checkpoint(ctx context.Context) (b []byte, err error) {
	err = d.pass(func() error { b, err = d.room.Checkpoint(ctx); return err })
	return b, err
}

// A copier copies its arguments and results by functions, some of which fail to.
type copier struct {
	mu         sync.Mutex // protects the fields below
	entries    []contracts.Entry
	blobs      map[contracts.Digest][]byte
	checkpoint []byte
	in, out    func(kind string, b []byte) []byte
}

func copies(_ string, b []byte) []byte { return bytes.Clone(b) }

// copies everything but one kind
func but(shared string, as func([]byte) []byte) func(string, []byte) []byte {
	return func(kind string, b []byte) []byte {
		if kind == shared {
			return as(b)
		}
		return bytes.Clone(b)
	}
}

func same(b []byte) []byte { return b }

func (c *copier) Append(ctx context.Context, b proofgraph.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.At != uint64(len(c.entries)) {
		return proofgraph.ErrConflict
	}
	for _, blob := range b.Blobs {
		if c.blobs == nil {
			c.blobs = map[contracts.Digest][]byte{}
		}
		c.blobs[crypto.Sum(blob)] = c.in("blob", blob)
	}
	for _, e := range b.Entries {
		c.entries = append(c.entries, c.in("entry", e))
	}
	if b.Checkpoint != nil {
		c.checkpoint = c.in("checkpoint", b.Checkpoint)
	}
	return nil
}

func (c *copier) Size(ctx context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(len(c.entries)), ctx.Err()
}

func (c *copier) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		c.mu.Lock()
		list := slices.Clone(c.entries)
		c.mu.Unlock()
		if from > to || to > uint64(len(list)) {
			yield(nil, errors.New("no such range"))
			return
		}
		for _, e := range list[from:to] {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(c.out("entry", e), nil) {
				return
			}
		}
	}
}

func (c *copier) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.blobs[d]
	if !ok {
		return nil, proofgraph.ErrNoBlob
	}
	return c.out("blob", b), nil
}

func (c *copier) Checkpoint(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out("checkpoint", c.checkpoint), ctx.Err()
}

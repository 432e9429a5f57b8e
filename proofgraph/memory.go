package proofgraph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Memory is a [Store] that ends with the process; write a pack before that. It keeps everything
// that it is given, the arguments of every call included. The zero Memory is an empty store. It is
// safe for concurrent use by multiple goroutines and must not be copied.
type Memory struct {
	condensing sync.Mutex // held during one Condense

	// mu is held for moments. It protects the fields below. The bytes of an entry never change, so
	// readers copy them without it.
	mu         sync.RWMutex
	entries    pages[contracts.Entry]
	blobs      [256]map[contracts.Digest][]byte // by the first byte of the digest
	checkpoint []byte
	state      []byte
	lines      chunk                     // of entries
	bytes      chunk                     // of blobs
	named      map[contracts.Digest]bool // blobs that were appended during a Condense; nil: there is none
	writer     func() error              // Err of the log that was opened over it last

	hashing sync.Mutex // protects hashes; never held together with mu
	hashes  treeHashes
}

var (
	_ Store           = (*Memory)(nil)
	_ Eraser          = (*Memory)(nil)
	_ Condenser       = (*Memory)(nil)
	_ Rememberer      = (*Memory)(nil)
	_ tlog.HashReader = (*Memory)(nil)
)

// NewMemory returns an empty store.
func NewMemory() *Memory { return new(Memory) }

// claim makes a log, whose Err is given, the one that writes to the store. It returns an error if
// another log does: each would append where the other has.
func (m *Memory) claim(writer func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writer != nil && m.writer() == nil {
		return errors.New("another kernel is open over this memory store: close it first, or share it")
	}
	m.writer = writer
	return nil
}

// Append stores copies of everything in b.
func (m *Memory) Append(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var room [16]contracts.Digest
	names := room[:0]
	for _, blob := range b.Blobs {
		names = append(names, crypto.Sum(blob))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.At != uint64(m.entries.n) {
		return ErrConflict
	}
	for i, blob := range b.Blobs {
		if m.named != nil {
			m.named[names[i]] = true
		}
		blobs := m.blobs[names[i][0]]
		if _, ok := blobs[names[i]]; ok {
			continue
		}
		if blobs == nil {
			blobs = map[contracts.Digest][]byte{}
			m.blobs[names[i][0]] = blobs
		}
		blobs[names[i]] = m.bytes.keep(blob)
	}
	for _, e := range b.Entries {
		m.entries.add(m.lines.keep(e))
	}
	if b.Checkpoint != nil {
		m.checkpoint = bytes.Clone(b.Checkpoint)
	}
	return nil
}

// Size returns the number of entries.
func (m *Memory) Size(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return uint64(m.entries.n), nil
}

// Entries returns the entries that were there when the iteration began.
func (m *Memory) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		m.mu.RLock()
		entries := m.entries
		m.mu.RUnlock()
		if from > to || to > uint64(entries.n) {
			yield(nil, fmt.Errorf("proofgraph: memory store: entries %d to %d of %d", from, to, entries.n))
			return
		}
		for i := from; i < to; i++ {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(bytes.Clone(*entries.at(int(i))), nil) {
				return
			}
		}
	}
}

// Blob returns a copy of the blob with digest d.
func (m *Memory) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[d[0]][d]
	if !ok {
		return nil, ErrNoBlob
	}
	return append([]byte{}, b...), nil
}

// EraseBlob removes the blob and overwrites its bytes, because the chunk that they are in stays.
func (m *Memory) EraseBlob(ctx context.Context, d contracts.Digest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erase(d)
	return nil
}

// erase reports whether there was such a blob. The caller holds mu.
func (m *Memory) erase(d contracts.Digest) bool {
	blobs := m.blobs[d[0]]
	b, ok := blobs[d]
	clear(b)
	delete(blobs, d)
	return ok
}

// Checkpoint returns a copy of the latest checkpoint.
func (m *Memory) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return bytes.Clone(m.checkpoint), nil
}

// SaveState stores a copy of the state.
func (m *Memory) SaveState(ctx context.Context, state []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = append([]byte(nil), state...) // nil if it is empty
	return nil
}

// State returns a copy of the state.
func (m *Memory) State(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return bytes.Clone(m.state), nil
}

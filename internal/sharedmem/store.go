// Package sharedmem is a [proofgraph.Shared] in memory, for tests: several logs of one process
// write to one [Store], and the test decides which writers die and which calls fail.
//
// It is stricter than the contract, so that it finds the faults of a log: a batch whose seqs leave
// a hole, or that moves a balance that was neither guessed nor asked for, is an error.
package sharedmem

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A Store is a log that several writers append to. It ends with the process. It is safe for
// concurrent use by multiple goroutines.
type Store struct {
	log   proofgraph.Memory // entries, blobs and the checkpoint
	turns chan struct{}     // has an element while a writer has the log

	mu        sync.RWMutex // held for moments; protects the fields below and those of writers
	hooks     Hooks
	origin    string
	writers   []*writer // the number of the first is 1
	holder    *writer   // is in its turn; nil: nobody, or a Put
	size      uint64
	marked    uint64 // the size that the checkpoint says
	sessions  map[string]*session
	spent     map[contracts.Balance]uint64 // by balances without Spent
	used      map[string]bool
	decisions map[uint64]*decision // that had to get a receipt, by index
}

// A session is where a session ends, and the indexes of its entries.
type session struct {
	end     proofgraph.End
	indexes []uint64
}

// A decision had to get a receipt.
type decision struct {
	by      *writer
	settler *writer // wrote its receipt; nil: nobody yet
}

var (
	_ proofgraph.Shared = (*Store)(nil)
	_ proofgraph.Eraser = (*Store)(nil)
	_ tlog.HashReader   = (*Store)(nil)
)

// New returns a store without a log.
func New() *Store {
	return &Store{
		turns:     make(chan struct{}, 1),
		sessions:  make(map[string]*session),
		spent:     make(map[contracts.Balance]uint64),
		used:      make(map[string]bool),
		decisions: make(map[uint64]*decision),
	}
}

// Append returns ErrShared.
func (s *Store) Append(ctx context.Context, _ proofgraph.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return proofgraph.ErrShared
}

// Size returns the number of entries.
func (s *Store) Size(ctx context.Context) (uint64, error) { return s.log.Size(ctx) }

// Entries returns the entries that were there when the iteration began.
func (s *Store) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return s.log.Entries(ctx, from, to)
}

// Blob returns a copy of the blob with digest d.
func (s *Store) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	return s.log.Blob(ctx, d)
}

// Checkpoint returns a copy of the largest checkpoint.
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) { return s.log.Checkpoint(ctx) }

// EraseBlob removes the blob.
func (s *Store) EraseBlob(ctx context.Context, d contracts.Digest) error {
	return s.log.EraseBlob(ctx, d)
}

// ReadHashes returns hashes of the log's tree.
func (s *Store) ReadHashes(indexes []int64) ([]tlog.Hash, error) { return s.log.ReadHashes(indexes) }

// Join returns a writer. The first one begins the log, and another origin is an error.
func (s *Store) Join(ctx context.Context, origin string) (proofgraph.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case origin == "":
		return nil, errors.New("sharedmem: a log has an origin")
	case s.origin == "":
		s.origin = origin
	case s.origin != origin:
		return nil, fmt.Errorf("sharedmem: the log's origin is %s, not %s", s.origin, origin)
	}
	w := &writer{store: s, id: uint64(len(s.writers)) + 1, fence: make(chan struct{})}
	s.writers = append(s.writers, w)
	return w, nil
}

// Session returns the entries that were there when the iteration began.
func (s *Store) Session(ctx context.Context, name string, from uint64) iter.Seq2[proofgraph.Placed, error] {
	return func(yield func(proofgraph.Placed, error) bool) {
		var indexes []uint64
		s.mu.RLock()
		if at := s.sessions[name]; at != nil && from < uint64(len(at.indexes)) {
			indexes = slices.Clip(at.indexes[from:]) // appends do not write to these
		}
		s.mu.RUnlock()
		if err := ctx.Err(); err != nil {
			yield(proofgraph.Placed{}, err)
			return
		}
		for _, i := range indexes {
			for e, err := range s.log.Entries(ctx, i, i+1) {
				if err != nil {
					yield(proofgraph.Placed{}, err)
					return
				}
				if !yield(proofgraph.Placed{Index: i, Entry: e}, nil) {
					return
				}
			}
		}
	}
}

// Kill makes a writer one that Dead finds dead, as if its process had ended or had lost its
// connection. Its turn ends, with nothing written. What it puts is written until it is fenced: a
// message of a process that died may still be under way. There must be a writer with that number.
func (s *Store) Kill(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[id-1]
	w.killed = true
	w.release()
}

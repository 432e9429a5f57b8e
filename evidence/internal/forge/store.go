package forge

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A Shelf is a store of whatever bytes, under whatever names.
type Shelf struct {
	Lines []contracts.Entry
	Blobs map[contracts.Digest][]byte
	Note  []byte
}

// Shelve puts the members of a pack on a shelf.
func Shelve(t testing.TB, pack []byte) *Shelf {
	t.Helper()
	s := &Shelf{Blobs: map[contracts.Digest][]byte{}}
	for i, x := range Untar(t, pack) {
		switch i {
		case ManifestAt:
		case CheckpointAt:
			s.Note = x.Body
		case EntriesAt:
			for line := range bytes.Lines(x.Body) {
				s.Lines = append(s.Lines, bytes.TrimSuffix(line, []byte("\n")))
			}
		default:
			hex, ok := strings.CutPrefix(x.Name, "blobs/")
			d, err := crypto.ParseDigest([]byte(hex))
			require.True(t, ok && err == nil, "%v", x.Name)
			s.Blobs[d] = x.Body
		}
	}
	return s
}

func (s *Shelf) Append(context.Context, proofgraph.Batch) error { return errors.ErrUnsupported }

func (s *Shelf) Size(context.Context) (uint64, error) { return uint64(len(s.Lines)), nil }

func (s *Shelf) Entries(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for _, e := range s.Lines[from:to] {
			if !yield(bytes.Clone(e), nil) {
				return
			}
		}
	}
}

func (s *Shelf) Blob(_ context.Context, d contracts.Digest) ([]byte, error) {
	if b, ok := s.Blobs[d]; ok {
		return bytes.Clone(b), nil
	}
	return nil, proofgraph.ErrNoBlob
}

func (s *Shelf) Checkpoint(context.Context) ([]byte, error) { return bytes.Clone(s.Note), nil }

// Fill appends all of it to a store that keeps things in order.
func (s *Shelf) Fill(t testing.TB, to proofgraph.Store) proofgraph.Store {
	t.Helper()
	b := proofgraph.Batch{Entries: s.Lines, Checkpoint: s.Note}
	for _, x := range s.Blobs {
		b.Blobs = append(b.Blobs, x)
	}
	require.NoError(t, to.Append(t.Context(), b))
	return to
}

// A FaultyStore changes the answers of a store.
type FaultyStore struct {
	proofgraph.Store
	OnCheckpoint func([]byte) []byte
	OnEntry      func(i int, e contracts.Entry) (contracts.Entry, error)
	OnBlob       func(d contracts.Digest, b []byte) ([]byte, error)

	mu    sync.Mutex // of blob, and calls
	Calls int
}

func (s *FaultyStore) Checkpoint(ctx context.Context) ([]byte, error) {
	b, err := s.Store.Checkpoint(ctx)
	if s.OnCheckpoint != nil {
		b = s.OnCheckpoint(b)
	}
	return b, err
}

func (s *FaultyStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if s.OnEntry == nil {
		return s.Store.Entries(ctx, from, to)
	}
	return func(yield func(contracts.Entry, error) bool) {
		i := 0
		for e, err := range s.Store.Entries(ctx, from, to) {
			if e, err = s.OnEntry(i, e); e == nil && err == nil {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
			i++
		}
	}
}

func (s *FaultyStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	b, err := s.Store.Blob(ctx, d)
	if s.OnBlob != nil && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Calls++
		return s.OnBlob(d, b)
	}
	return b, err
}

package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// Size is the number of entries on stable storage.
func (s *Store) Size(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, errClosed
	}
	return s.entries, nil
}

// Checkpoint gives a copy of the latest checkpoint.
func (s *Store) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, errClosed
	}
	return bytes.Clone(s.note), nil
}

// Entries reads entries from the files, and checks each against its checksum.
func (s *Store) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		if size, err := s.Size(ctx); err != nil {
			yield(nil, err)
			return
		} else if from > to || to > size {
			yield(nil, fmt.Errorf("filestore: entries %d to %d of %d", from, to, size))
			return
		}
		for from < to {
			g, offsets := s.holding(from)
			offsets = offsets[from-g.first:]
			offsets = offsets[:min(uint64(len(offsets)), to-from)]
			if !s.each(ctx, g, offsets, from, yield) {
				return
			}
			from += uint64(len(offsets))
		}
	}
}

// holding is the segment that an entry is in, and where its entries are.
func (s *Store) holding(entry uint64) (*segment, []uint32) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.segments[sort.Search(len(s.segments), func(i int) bool { return s.segments[i].first > entry })-1]
	return g, g.entries
}

// each yields entries of one segment.
func (s *Store) each(ctx context.Context, g *segment, offsets []uint32, index uint64, yield func(contracts.Entry, error) bool) bool {
	f, err := s.disk.view(g.path)
	if err != nil {
		yield(nil, fmt.Errorf("filestore: %w", err))
		return false
	}
	defer f.Close()
	w := window{file: f, segment: g, least: 64 << 10}
	for _, at := range offsets {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return false
		}
		r, err := w.record(at, kindEntry)
		if err != nil {
			yield(nil, fmt.Errorf("filestore: entry %d: %w", index, err))
			return false
		}
		if !yield(append(contracts.Entry{}, r...), nil) {
			return false
		}
		index++
	}
	return true
}

// Blob reads a blob, and checks it against its digest.
func (s *Store) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g, at, err := s.locate(d)
	if err != nil {
		return nil, err
	}
	f, err := s.disk.view(g.path)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	defer f.Close()
	w := window{file: f, segment: g, least: 4 << 10}
	b, err := w.record(at, kindBlob)
	if err != nil {
		return nil, fmt.Errorf("filestore: blob %s: %w", d, err)
	}
	if b = b[len(d):]; crypto.Sum(b) != d {
		return nil, &damage{g.path, uint64(at), fmt.Sprintf("the bytes of blob %s are damaged", d)}
	}
	return append([]byte{}, b...), nil
}

func (s *Store) locate(d contracts.Digest) (*segment, uint32, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, 0, errClosed
	}
	number, _, ok := s.blobs.Lookup(d)
	if !ok {
		return nil, 0, proofgraph.ErrNoBlob
	}
	g := s.segments[sort.Search(len(s.segments), func(i int) bool { return s.segments[i].firstBlob > number })-1]
	return g, g.blobs[number-g.firstBlob], nil
}

// A window is what of a file was read last: records that stand together are read together.
type window struct {
	file    file
	segment *segment
	buf     []byte
	base    uint64 // of buf
	least   uint64 // how much is read at once
}

// record gives the body of the record at an offset, until the next call.
func (w *window) record(offset uint32, kind byte) ([]byte, error) {
	at := uint64(offset)
	if err := w.load(at, recordHead); err != nil {
		return nil, err
	}
	size := le32(w.buf[at-w.base+4:])
	if size > maxFrame {
		return nil, &damage{w.segment.path, at, "a damaged record"}
	}
	if err := w.load(at, recordHead+uint64(size)); err != nil {
		return nil, err
	}
	r, ok := w.segment.read(w.buf, w.base, at)
	if !ok || r.kind != kind {
		return nil, &damage{w.segment.path, at, "a damaged record"}
	}
	return r.body, nil
}

// load sees to it that n bytes from an offset on are in the window.
func (w *window) load(at, n uint64) error {
	if at >= w.base && at+n <= w.base+uint64(len(w.buf)) {
		return nil
	}
	size := max(n, w.least)
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf, w.base = w.buf[:size], at
	got, err := w.file.ReadAt(w.buf, int64(at))
	if w.buf = w.buf[:got]; uint64(got) >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &damage{w.segment.path, at, "the file was cut: a record began here"}
	}
	return fmt.Errorf("%s: offset %d: %w", w.segment.path, at, err)
}

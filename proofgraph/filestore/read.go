package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// Size returns the number of entries on stable storage.
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

// Checkpoint returns a copy of the latest checkpoint.
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

// Entries reads entries from the files, and verifies the checksum of each.
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
			n, more := s.each(ctx, from, to, yield)
			if !more {
				return
			}
			from += n
		}
	}
}

// segmentOf returns the segment of an entry.
func (s *Store) segmentOf(entry uint64) *segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segments[sort.Search(len(s.segments), func(i int) bool { return s.segments[i].first > entry })-1]
}

// offsets returns the offsets of a segment's entries.
func (s *Store) offsets(g *segment) []uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return g.entries
}

// each yields entries, as far as they are in the segment of the first. It returns how many these
// are.
func (s *Store) each(
	ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool,
) (n uint64, more bool) {
	f, g, err := s.view(s.segmentOf(from))
	if err != nil {
		yield(nil, err)
		return 0, false
	}
	defer f.Close()
	w := window{file: f, segment: g, least: 64 << 10}
	offsets := s.offsets(g)[from-g.first:]
	for _, at := range offsets[:min(uint64(len(offsets)), to-from)] {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return 0, false
		}
		b, err := w.entry(at)
		if err != nil {
			yield(nil, fmt.Errorf("filestore: entry %d: %w", from+n, err))
			return 0, false
		}
		if !yield(append(contracts.Entry{}, b...), nil) {
			return 0, false
		}
		n++
	}
	return n, true
}

// ReadHashes returns hashes of the log's RFC 6962 tree by their indexes in the order of package
// tlog ([tlog.StoredHashIndex]), in a few reads of 512 bytes for each. They lead to the root of the
// latest checkpoint, or follow from it and the entries after it. It may have to read entries first:
// see Hashes in the package comment.
func (s *Store) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	size, err := s.Size(context.Background())
	if err != nil || len(indexes) == 0 {
		return nil, err
	}
	for _, x := range indexes {
		if x < 0 || x >= tlog.StoredHashIndex(0, int64(size)) {
			return nil, fmt.Errorf("filestore: hash %d of a log of %d entries", x, size)
		}
	}
	list, err := s.hashes.read(indexes, size)
	if err != nil {
		return nil, fmt.Errorf("filestore: hashes: %w", err)
	}
	return list, nil
}

// State reads the state from its file, and checks it. It is what was saved, or an error.
func (s *Store) State(ctx context.Context) ([]byte, error) {
	if _, err := s.Size(ctx); err != nil { // it is closed, or the context has ended
		return nil, err
	}
	path := filepath.Join(s.dir, stateName)
	f, err := s.disk.View(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	defer f.Close()
	state, err := readState(f)
	if err != nil {
		return nil, fmt.Errorf("filestore: %s: %w", path, err)
	}
	return state, nil
}

// Blob reads a blob and verifies its digest. If the blob is erased meanwhile, its record was marked
// before its bytes changed.
func (s *Store) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, at, err := s.locate(d)
	for err == nil && w.file == nil {
		f, g, failed := s.view(w.segment)
		switch {
		case failed != nil:
			return nil, failed
		case g == w.segment:
			w.file = f
		default: // it was condensed
			f.Close()
			w, at, err = s.locate(d)
		}
	}
	if err != nil {
		return nil, err
	}
	b, err := w.blob(at, d)
	if errors.As(err, new(*damage)) {
		w.buf = w.buf[:0]
		b, err = w.blob(at, d)
	}
	if err != nil { // perhaps of the file: the next call opens it again
		w.file.Close()
		if errors.As(err, new(*damage)) {
			s.mu.Lock()
			if s.damaged == nil {
				s.damaged = map[contracts.Digest]bool{}
			}
			s.damaged[d] = true
			s.mu.Unlock()
		}
		return nil, err
	}
	s.park(w)
	return b, nil
}

// locate returns the offset of a blob's record, and a window on its segment: an idle one, or one
// whose file is not open yet.
func (s *Store) locate(d contracts.Digest) (*window, uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, errClosed
	}
	g, i, ok := s.findBlob(d)
	if !ok {
		return nil, 0, proofgraph.ErrNoBlob
	}
	for n, w := range s.idle {
		if w.segment == g {
			s.idle = slices.Delete(s.idle, n, n+1)
			return w, g.blobs[i], nil
		}
	}
	return &window{segment: g, least: 4 << 10}, g.blobs[i], nil
}

// maxIdle is how many files stay open for later reads of blobs, because opening a file takes longer
// than reading from it.
const maxIdle = 16

// park makes a window idle. It drops the bytes that the window has read, because they may be
// erased. If there are too many idle windows, park closes the one that was idle for longest; if the
// store was closed or the segment condensed meanwhile, it closes w.
func (s *Store) park(w *window) {
	if w.buf = w.buf[:0]; cap(w.buf) > 64<<10 {
		w.buf = nil
	}
	s.mu.Lock()
	if !s.closed && s.segments[w.segment.number-1] == w.segment {
		s.idle = append(s.idle, w)
		w = nil
		if len(s.idle) > maxIdle {
			w = s.idle[0]
			s.idle = slices.Delete(s.idle, 0, 1)
		}
	}
	s.mu.Unlock()
	if w != nil {
		w.file.Close()
	}
}

// findBlob returns the segment of a blob and its place in the segment's list: the latest of those
// with that digest that were not erased. The caller holds mu or writing.
func (s *Store) findBlob(d contracts.Digest) (g *segment, i uint64, ok bool) {
	number, _, ok := s.blobs.Lookup(d)
	for ; ok; number, ok = s.blobs.Earlier(number) {
		g = s.segments[sort.Search(len(s.segments), func(i int) bool { return s.segments[i].firstBlob > number })-1]
		if i = number - g.firstBlob; g.blobs[i] != 0 {
			return g, i, true
		}
	}
	return nil, 0, false
}

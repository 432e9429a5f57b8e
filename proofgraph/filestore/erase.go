package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A blob is erased in two steps; see the package comment. Open repeats both for every marked blob,
// because after a failed sync the system may show bytes that are not on the disk.

// EraseBlob overwrites the bytes of a blob in their place, and returns nil when that is on stable
// storage. It takes two small writes and two syncs, and more if the blob is in a full segment,
// whose index is removed first. It waits for a segment that is being condensed. The blob's size and
// digest stay. ctx is checked until the writing begins. After an error of the disk the store is
// dead, and the blob is whole or gone when the directory is opened again.
func (s *Store) EraseBlob(ctx context.Context, d contracts.Digest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.rewrites.enter(ctx); err != nil {
		return err
	}
	defer s.rewrites.leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.writable(ctx); err != nil {
		return err
	}
	if err := s.tidy(s.disk); err != nil {
		return fmt.Errorf("filestore: erase: %w", err)
	}
	for g, i, ok := s.findBlob(d); ok; g, i, ok = s.findBlob(d) { // a batch may have had it twice
		if now, err := s.present(g); err != nil {
			return fmt.Errorf("filestore: erase: %w", err)
		} else if now != g {
			continue
		}
		if err := s.erase(g, i, d); err != nil {
			return fmt.Errorf("filestore: erase: %w", err)
		}
		s.mu.Lock()
		g.blobs[i] = 0
		s.mu.Unlock()
	}
	return nil
}

// Condense writes each full segment that something goes from into another file, which it puts in
// the segment's place when it is on stable storage, and drops the old one. So it needs as much free
// disk as the largest of them takes. If something goes from the last segment, Condense ends that
// first, so that nothing need wait for that. A segment that was condensed before, and that blobs go
// from, is written without them before the first stub is put, and once more if it gets stubs. The
// store keeps at most the stubs of one segment in memory.
//
// Appends have six sevenths of the time, if there are any; without them some 300 MB are written
// again in a second. They wait while the file gets its name, which takes about as long as one of
// them. EraseBlob waits for at most one segment. After an error the file is removed, and the store
// goes on, unless the error is of a disk that failed while the last segment was ended: then the
// store is dead, as after an Append. ctx ends it between two records.
//
// The bytes of what goes are not overwritten: they stay in blocks that the file system no longer
// uses. A blob that a person may not keep must be erased ([Store.EraseBlob]) before it is
// forgotten.
func (s *Store) Condense(
	ctx context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.condenses.enter(ctx); err != nil {
		return err
	}
	defer s.condenses.leave()
	c := &condensing{Store: s, ctx: ctx}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.done()
	if err := c.run(stubs, blobs); err != nil {
		return fmt.Errorf("filestore: condense: %w", err)
	}
	return nil
}

// erase erases one record. After an error of a write or a sync the store is dead.
func (s *Store) erase(g *segment, i uint64, d contracts.Digest) error {
	f := s.file
	if g != s.last() {
		var err error
		if f, err = s.disk.Open(g.path); err != nil {
			return err
		}
		defer f.Close()
	}
	w := window{file: f, segment: g}
	r, err := w.read(g.blobs[i])
	switch {
	case err != nil:
		return err
	case r.kind != kindBlob && r.kind != kindErased || contracts.Digest(r.body[:len(d)]) != d:
		return w.damaged(g.blobs[i])
	}
	err = s.removeIndex(g)
	if err == nil {
		err = eraseSpans(f, g, []erasedSpan{{g.blobs[i], uint32(len(r.body) - len(d))}})
	}
	if err != nil {
		s.dead = fmt.Errorf("filestore: erase: %w", err)
	}
	return err
}

// removeIndex removes the index of a full segment, because it lists the blob. Close writes another.
func (s *Store) removeIndex(g *segment) error {
	if g == s.last() || g.changed {
		return nil
	}
	if err := s.disk.Remove(s.path(g.number, indexKind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.changed = true
	return s.disk.SyncDir(s.dir)
}

// eraseSpans marks and overwrites blobs of a segment.
func eraseSpans(f disk.File, g *segment, spans []erasedSpan) error {
	if len(spans) == 0 {
		return nil
	}
	for _, x := range spans {
		if _, err := f.WriteAt([]byte{kindErased}, int64(x.at)); err != nil {
			return fmt.Errorf("%s: offset %d: marking a blob: %w", g.path, x.at, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	for _, x := range spans {
		from := int64(x.at) + recordHead + int64(len(contracts.Digest{}))
		for to := from + int64(x.size); from < to; from += int64(len(overwritten)) {
			if _, err := f.WriteAt(overwritten[:min(to-from, int64(len(overwritten)))], from); err != nil {
				return fmt.Errorf("%s: offset %d: overwriting a blob: %w", g.path, from, err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	return nil
}

// finishErasures erases again every blob that was marked when the segment was read: the process
// that marked it may have ended before it overwrote the bytes, or a sync may have failed.
func (s *Store) finishErasures(g *segment) error {
	if len(g.erased) == 0 {
		return nil // and nothing to open
	}
	f, err := s.disk.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = eraseSpans(f, g, g.erased)
	g.erased = nil
	return err
}

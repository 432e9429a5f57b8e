package filestore

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// roll begins the next segment. The new file is durable before the last segment refers to it, and
// that reference is durable before anything is written to the new segment.
func (s *Store) roll(log contracts.Digest) error {
	old := s.last()
	h := header{number: 1, first: s.entries, log: log}
	if old != nil {
		h.number, h.log, h.chain = old.number+1, old.log, old.tail
	}
	path := s.path(h.number, logKind)
	if err := s.checkFree(path, old); err != nil {
		return err
	}
	f, err := s.disk.Create(path + newKind)
	if err != nil {
		return err
	}
	begin := h.encode()
	_, err = f.WriteAt(begin, 0)
	if err == nil {
		err = fill(f, headerSize, s.sizes.ahead)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("%s: beginning a segment: %w", path, err)
	}
	if err := s.disk.Rename(path+newKind, path); err != nil {
		f.Close()
		return err
	}
	if err := s.disk.SyncDir(s.dir); err != nil {
		f.Close()
		return err
	}
	if old != nil {
		if err := s.finish(old, s.file); err != nil {
			f.Close()
			return err
		}
	}
	g, err := newSegment(path, begin)
	if err != nil {
		f.Close()
		return err
	}
	if s.file != nil {
		s.file.Close() // everything in it is durable
	}
	s.file, s.size = f, uint64(s.sizes.ahead)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(g)
}

// checkFree returns an error if the new file would take the place of another, because the directory
// may have been moved, and another log put in its place.
func (s *Store) checkFree(path string, last *segment) error {
	switch f, err := s.disk.View(path); {
	case err == nil:
		f.Close()
		return fmt.Errorf("%s: there is such a file already", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case last == nil:
		return nil
	}
	g, err := s.find(last.number)
	if err == nil && g.header != last.header {
		err = fmt.Errorf("%s: another log's, and not the one that was opened", last.path)
	}
	return err
}

// fill writes zeros to the end of a new file, and makes it durable.
func fill(f disk.File, from, to int64) error {
	for from < to {
		n := min(to-from, int64(len(zeros)))
		if _, err := f.WriteAt(zeros[:n], from); err != nil {
			return err
		}
		from += n
	}
	return f.Sync()
}

// finish ends a segment with a record that the next one follows, and writes its index.
func (s *Store) finish(g *segment, f disk.File) error {
	w := writer{header: &g.header, base: uint64(g.end), chain: g.tail}
	w.end(kindNext)
	if _, err := f.WriteAt(w.buf, int64(g.end)); err != nil {
		return fmt.Errorf("%s: offset %d: ending the segment: %w", g.path, g.end, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	s.writeIndex(g)
	return nil
}

// writeIndex writes the index of a full segment, so that the next Open need not read the segment.
// Errors are ignored: without an index Open is slower, and nothing else.
func (s *Store) writeIndex(g *segment) {
	path := s.path(g.number, indexKind)
	f, err := s.disk.Create(path + newKind)
	if err != nil {
		return
	}
	_, err = f.WriteAt(g.encodeIndex(&s.blobs), 0)
	if f.Close() == nil && err == nil {
		s.disk.Rename(path+newKind, path)
	}
}

package filestore

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// The change from one segment to the next.

// roll begins the next segment. It is there before the last one says that it follows, and that is durable before anything is written to it.
func (s *Store) roll(log contracts.Digest) error {
	old := s.last()
	h := header{number: 1, first: s.entries, log: log}
	if old != nil {
		h.number, h.log, h.chain = old.number+1, old.log, old.tail
	}
	path := s.path(h.number, logKind)
	if err := s.free(path, old); err != nil {
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
		s.file.Close() // all that it was given is durable
	}
	s.file, s.size = f, uint64(s.sizes.ahead)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(g)
}

// free makes sure that a new file takes nobody's place, for the directory may have been moved, and another log be there now.
func (s *Store) free(path string, last *segment) error {
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

// finish writes into a segment that the next one follows, and its index.
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

// writeIndex keeps what the next Open would else read the segment for. Without it that is slower, and nothing else: errors do not matter.
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

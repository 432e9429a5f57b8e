package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// Copy writes the log as it is now into another directory, which it makes or finds empty. It is a
// backup, also of a log that another process has open and writes to ([OpenReadOnly]); a plain copy
// of the last segment may catch it between two writes. The copy is complete when Copy returns nil.
// A copy that was not finished is refused when it is opened. A blob that is erased meanwhile may be
// in the copy; one that was erased before is not.
//
// A copy that is put back knows nothing of what came after it was made: approvals, idempotency keys
// and budgets that were used since can be used again. Keep a checkpoint somewhere else and pass it
// as helm.Options.Last, so that this is noticed.
func (s *Store) Copy(ctx context.Context, dir string) error {
	to := &Store{disk: s.disk, dir: dir, sizes: s.sizes.orDefault()}
	log, err1 := filepath.Abs(s.dir)
	parent, err2 := filepath.Abs(filepath.Join(dir, ".."))
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("filestore: copy: %w", err)
	}
	if parent == log { // any other file in it is an error
		return fmt.Errorf("filestore: copy: %s: in the directory of the log itself: name another place", dir)
	}
	if err := insideLog(s.disk, dir); err != nil {
		return fmt.Errorf("filestore: copy: %w", err)
	}
	if err := s.disk.Mkdir(dir); err != nil {
		return fmt.Errorf("filestore: copy: %w", err)
	}
	names, err := s.disk.List(dir)
	switch {
	case err != nil:
		return fmt.Errorf("filestore: copy: %w", err)
	case len(names) > 0:
		return fmt.Errorf("filestore: copy: %s: there are files in it already: name another directory", dir)
	}
	list, last, err := s.snapshot()
	if err != nil {
		return err
	}
	for i, g := range list {
		size := int64(last.offset)
		if i < len(list)-1 {
			size = int64(g.end) + endSize
		}
		if err := s.copySegment(ctx, g, size, to); err != nil {
			return fmt.Errorf("filestore: copy: %w", err)
		}
	}
	f, err := createEnd(s.disk, filepath.Join(dir, endName), last)
	if err != nil {
		return fmt.Errorf("filestore: copy: %w", err)
	}
	if err := errors.Join(f.Close(), s.disk.SyncDir(dir)); err != nil {
		return fmt.Errorf("filestore: copy: %w", err)
	}
	return nil
}

// snapshot returns the segments as they are now, and where the last one ends. The others are full,
// and change only if blobs are erased.
func (s *Store) snapshot() ([]*segment, logEnd, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, logEnd{}, errClosed
	}
	if len(s.segments) == 0 {
		return nil, logEnd{}, nil
	}
	return slices.Clone(s.segments), s.last().logEnd(), nil
}

func (s *Store) copySegment(ctx context.Context, g *segment, used int64, to *Store) error {
	from, err := s.disk.View(g.path)
	if err != nil {
		return err
	}
	defer from.Close()
	path := to.path(g.number, logKind)
	f, err := s.disk.Create(path + newKind)
	if err != nil {
		return err
	}
	defer f.Close()
	s.mu.RLock()
	blobs := slices.Clone(g.blobs)
	s.mu.RUnlock()
	buf := make([]byte, min(used, 1<<20))
	for at := int64(0); at < used; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(used-at, int64(len(buf)))]
		if n, err := from.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%s: offset %d: %w", g.path, at, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	spans, err := erasedIn(from, g, blobs, used)
	if err != nil {
		return err
	}
	if err := eraseSpans(f, g, spans); err != nil {
		return err
	}
	if err := fill(f, used, used+to.sizes.ahead); err != nil { // zeros follow the last frame of a log
		return err
	}
	return s.disk.Rename(path+newKind, path)
}

// erasedIn returns those blobs of a segment that are marked as erased by now. Their bytes may have
// changed while they were copied, without the marks.
func erasedIn(f disk.File, g *segment, blobs []uint32, used int64) (spans []erasedSpan, err error) {
	w := window{file: f, segment: g, least: 1 << 20}
	for _, at := range blobs {
		if at == 0 || int64(at) >= used {
			continue
		}
		r, err := w.read(at)
		switch {
		case err != nil && !errors.As(err, new(*damage)): // damage is copied as it is
			return nil, err
		case err == nil && r.kind == kindErased:
			spans = append(spans, erasedSpan{at, uint32(len(r.body) - len(contracts.Digest{}))})
		}
	}
	return spans, nil
}

package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// Copy writes the log as it is now into another directory, which it makes or finds empty. It is a
// backup, also of a log that another process has open and writes to ([OpenReadOnly]); a plain copy
// of the last segment may catch it between two writes. The copy is complete when Copy returns nil.
// Everything that is copied is checked ([Store.Check]), so no damage gets into a backup. A copy
// that was not finished is refused when it is opened. A blob that is erased meanwhile may be in the
// copy; one that was erased before is not.
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
	for _, g := range list {
		if err := s.copySegment(ctx, g, last, to); err != nil {
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

// upTo returns how much of a segment there is in the log that ends at last, and the chain there.
func (s *segment) upTo(last logEnd) (used, chain uint32, err error) {
	switch {
	case s.number < last.segment:
		return s.end + endSize, s.tail, nil
	case s.times > 0: // the log went on, and another process has condensed this part of it
		return 0, 0, fmt.Errorf("%s: condensed since this store was opened: open it again", s.path)
	}
	return last.offset, last.chain, nil
}

func (s *Store) copySegment(ctx context.Context, g *segment, last logEnd, to *Store) error {
	from, g, err := s.view(g)
	if err != nil {
		return err
	}
	defer from.Close()
	upTo, chain, err := g.upTo(last)
	if err != nil {
		return err
	}
	used := int64(upTo)
	path := to.path(g.number, logKind)
	f, err := s.disk.Create(path + newKind)
	if err != nil {
		return err
	}
	defer f.Close()
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
	spans, err := s.verify(ctx, from, g, upTo, chain)
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

// Check reads the whole log as it is now, and returns an error if a record is damaged, or if a blob
// that was not erased has other bytes than its digest says. No other call reads everything: Open
// reads the last segment, and others only what is asked for. A damaged blob that was stored again
// since is no error.
func (s *Store) Check(ctx context.Context) error {
	list, last, err := s.snapshot()
	if err != nil {
		return err
	}
	for _, g := range list {
		if err := s.checkSegment(ctx, g, last); err != nil {
			return fmt.Errorf("filestore: check: %w", err)
		}
	}
	return nil
}

func (s *Store) checkSegment(ctx context.Context, g *segment, last logEnd) error {
	f, g, err := s.view(g)
	if err != nil {
		return err
	}
	defer f.Close()
	used, chain, err := g.upTo(last)
	if err != nil {
		return err
	}
	_, err = s.verify(ctx, f, g, used, chain)
	return err
}

// verify checks the records of a segment up to an offset, at which the chain is known, and the
// bytes of its blobs. It returns the blobs that are marked as erased by now. When they are copied,
// their bytes may change without the marks.
func (s *Store) verify(
	ctx context.Context, f disk.File, g *segment, used, chain uint32,
) (spans []erasedSpan, err error) {
	w := window{file: f, segment: g, least: 1 << 20}
	sum := g.chain
	for at := g.start(); at < used; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := w.read(at)
		if err == nil && r.kind == kindBlob && !s.sound(g, at, r) { // or it is being erased
			w.buf = w.buf[:0]
			r, err = w.read(at)
		}
		switch {
		case err != nil:
			return nil, err
		case r.kind == kindErased:
			spans = append(spans, erasedSpan{at, uint32(len(r.body) - len(contracts.Digest{}))})
		case r.kind == kindBlob && !s.sound(g, at, r):
			return nil, &damage{g.path, uint64(at), "the bytes of blob " +
				contracts.Digest(r.body[:len(contracts.Digest{})]).String() + " are damaged"}
		}
		if at += recordHead + uint32(len(r.body)); r.kind != kindNext {
			sum = chainSum(sum, r.sum)
		}
	}
	if sum != chain {
		return nil, &damage{g.path, uint64(used), "records of another course than was read before"}
	}
	return spans, nil
}

// sound reports whether a blob's bytes are those of its digest, or no read returns them, because
// the blob was stored again.
func (s *Store) sound(g *segment, at uint32, r record) bool {
	d := contracts.Digest(r.body[:len(contracts.Digest{})])
	if crypto.Sum(r.body[len(d):]) == d {
		return true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	in, i, ok := s.findBlob(d)
	return ok && (in != g || in.blobs[i] != at)
}

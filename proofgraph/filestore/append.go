package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// maxKept is how many bytes of buffer one Append may leave to the next.
const maxKept = 8 << 20

// Append writes a batch as one frame, and returns nil when it is on stable storage: one write and
// one sync, unless it begins a segment. A blob that the store has is not stored again. ctx is
// checked until the writing begins. A batch of more than 1 GiB is refused, and nothing happens.
// After any other error but ErrConflict the store is dead.
func (s *Store) Append(ctx context.Context, b proofgraph.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	digests := make([]contracts.Digest, len(b.Blobs))
	for i, blob := range b.Blobs { // without the lock
		digests[i] = crypto.Sum(blob)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	switch err := s.writable(ctx); {
	case err != nil:
		return err
	case b.At != s.entries:
		return proofgraph.ErrConflict
	}
	size := beginSize + endSize
	blobs, digests := s.newBlobs(b.Blobs, digests)
	defer clear(blobs)
	for _, blob := range blobs {
		size += recordHead + len(contracts.Digest{}) + len(blob)
	}
	for _, e := range b.Entries {
		size += recordHead + len(e)
	}
	if b.Checkpoint != nil {
		size += recordHead + len(b.Checkpoint)
	}
	if size > maxFrame {
		return fmt.Errorf("filestore: append: a batch of %d bytes, want at most %d", size, maxFrame)
	}
	if err := s.commit(&b, blobs, digests, size); err != nil {
		s.dead = fmt.Errorf("filestore: append: %w", err)
		return s.dead
	}
	s.appended.Add(1)
	s.hashes.batch(&b)
	return nil
}

// SaveState writes the state into a file of its own, which it puts in the place of the one before
// when it is on stable storage. A state of more than 1 GiB is refused. After an error the file is
// removed, and the store goes on. Close ends it.
func (s *Store) SaveState(ctx context.Context, state []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.saves.enter(ctx); err != nil {
		return err
	}
	defer s.saves.leave()
	if err := (saving{s, ctx}).run(state); err != nil {
		return fmt.Errorf("filestore: save state: %w", err)
	}
	return nil
}

// writable returns the error why nothing can be written, or nil. The caller holds writing.
func (s *Store) writable(ctx context.Context) error {
	switch {
	case s.readOnly:
		return errReadOnly
	case s.closed: // it is set with writing held
		return errClosed
	case s.dead != nil:
		return s.dead
	}
	return ctx.Err()
}

// newBlobs returns the blobs that the store does not have, or found damaged when it read them, with
// their digests, in reused memory.
func (s *Store) newBlobs(blobs [][]byte, digests []contracts.Digest) ([][]byte, []contracts.Digest) {
	s.fresh = s.fresh[:0]
	n := 0
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i, d := range digests {
		if _, _, ok := s.findBlob(d); !ok || s.damaged[d] {
			s.fresh = append(s.fresh, blobs[i])
			digests[n] = d
			n++
		} else if s.named != nil {
			s.named[d] = true
		}
	}
	return s.fresh, digests[:n]
}

// commit writes the frame, and makes it part of the store when it is durable.
func (s *Store) commit(b *proofgraph.Batch, blobs [][]byte, digests []contracts.Digest, size int) error {
	g := s.last()
	if g == nil || !g.empty() && int64(g.end)+int64(size)+trailer > s.sizes.segment {
		next, err := s.prepare(logIdentity(b))
		if err != nil {
			return err
		}
		if err := s.roll(next); err != nil {
			return err
		}
		g = s.last()
	}
	end, before := uint64(g.end)+uint64(size), s.size
	if end+trailer > s.size { // zeros first: a file that does not end with them was cut
		if err := s.extend(end + trailer); err != nil {
			return err
		}
		if err := s.sync(g); err != nil {
			return err
		}
	}
	f := frame{size: uint64(size)}
	w := writer{header: &g.header, buf: s.buf[:0], base: uint64(g.end), chain: g.tail}
	w.begin(b.At, len(b.Entries), len(blobs), size)
	for i, blob := range blobs {
		f.blobs = append(f.blobs, w.record(kindBlob, digests[i][:], blob))
	}
	if b.Checkpoint != nil {
		f.note = w.record(kindCheckpoint, b.Checkpoint, nil)
	}
	for _, e := range b.Entries {
		f.entries = append(f.entries, w.record(kindEntry, e, nil))
	}
	w.end(kindEnd)
	f.chain = w.chain
	if s.buf = w.buf; cap(s.buf) > maxKept {
		s.buf = nil
	}
	if len(w.buf) != size {
		return errors.New("a frame of another size than its records")
	}
	if _, err := s.file.WriteAt(w.buf, int64(g.end)); err != nil {
		return fmt.Errorf("%s: offset %d: writing %d bytes: %w", g.path, g.end, size, err)
	}
	if s.size-end < uint64(s.sizes.ahead)/4 && s.size < uint64(s.sizes.segment) {
		if err := s.extend(s.size + uint64(s.sizes.ahead)); err != nil { // durable with the frame
			return err
		}
	}
	if err := s.sync(g); err != nil {
		return err
	}
	if err := checkName(s.file, g.path); err != nil {
		return err
	}
	if b.Checkpoint != nil || s.size != before { // now and then: it would cost each frame one more system call
		if err := checkName(s.end.File, s.end.path); err != nil {
			return err
		}
	}
	if err := s.end.write(logEnd{g.number, g.sum, uint32(end), f.chain}); err != nil {
		return err
	}
	return s.publish(g, &f, digests, b.Checkpoint)
}

// checkName returns an error if a file that is open is not in its place any more. It was removed or
// moved, and nobody would find what is written to it.
func checkName(f disk.File, path string) error {
	is, err := f.Is(path)
	if err == nil && !is {
		err = fmt.Errorf("%s: the file was removed, moved or replaced while the log was open", path)
	}
	return err
}

func (s *Store) sync(g *segment) error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	return nil
}

// extend writes zeros from the end of the file to the offset to, or further: always whole pieces of
// the size that is written ahead.
func (s *Store) extend(to uint64) error {
	ahead := uint64(s.sizes.ahead)
	to = (to + ahead - 1) / ahead * ahead
	for s.size < to {
		n := min(to-s.size, uint64(len(zeros)))
		if _, err := s.file.WriteAt(zeros[:n], int64(s.size)); err != nil {
			return fmt.Errorf("%s: offset %d: writing %d zeros ahead: %w", s.last().path, s.size, n, err)
		}
		s.size += n
	}
	return nil
}

// publish shows readers the frame, which is durable.
func (s *Store) publish(g *segment, f *frame, digests []contracts.Digest, note []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range digests {
		if err := s.blobs.Add(d, 0); err != nil {
			return err
		}
		delete(s.damaged, d)
	}
	g.add(f)
	s.entries += uint64(len(f.entries))
	if note != nil {
		s.note = bytes.Clone(note)
		if s.note == nil {
			s.note = []byte{}
		}
	}
	return nil
}

// logIdentity returns a digest that identifies the log. No two logs begin with the same signed
// entry.
func logIdentity(b *proofgraph.Batch) contracts.Digest {
	h := crypto.NewSum()
	for _, e := range b.Entries {
		h.Write(e)
	}
	for _, blob := range b.Blobs {
		h.Write(blob)
	}
	h.Write(b.Checkpoint)
	return contracts.Digest(h.Sum(nil))
}

// A nextSegment is the file of the next segment, before it has its name.
type nextSegment struct {
	disk.File
	path  string
	begin []byte
	size  int64
}

// prepare makes the file of the next segment, and makes it durable. After an error the store may go
// on: nothing refers to the file.
func (s *Store) prepare(log contracts.Digest) (*nextSegment, error) {
	old := s.last()
	h := header{number: 1, first: s.entries, log: log}
	if old != nil {
		h.number, h.log, h.chain = old.number+1, old.log, old.nextChain()
	}
	path := s.path(h.number, logKind)
	if err := s.checkFree(path, old); err != nil {
		return nil, err
	}
	f, err := s.disk.Create(path + newKind)
	if err != nil {
		return nil, err
	}
	begin, size := h.encode(), max(s.sizes.ahead, headerSize+trailer)
	_, err = f.WriteAt(begin, 0)
	if err == nil {
		err = fill(f, headerSize, size)
	}
	if err != nil {
		f.Close()
		_ = s.disk.Remove(path + newKind) // the disk may be full
		return nil, fmt.Errorf("%s: beginning a segment: %w", path, err)
	}
	return &nextSegment{f, path, begin, size}, nil
}

// roll begins the next segment. Its file is durable before the last segment refers to it, and that
// reference is durable before anything is written to the new segment.
func (s *Store) roll(next *nextSegment) (err error) {
	defer func() {
		if err != nil {
			next.Close()
		}
	}()
	if err := s.disk.Rename(next.path+newKind, next.path); err != nil {
		return err
	}
	if err := s.disk.SyncDir(s.dir); err != nil {
		return err
	}
	if old := s.last(); old != nil {
		if err := s.finish(old, s.file); err != nil {
			return err
		}
	}
	g, err := newSegment(next.path, next.begin)
	if err != nil {
		return err
	}
	if s.file != nil {
		s.file.Close() // everything in it is durable
	}
	s.file, s.size = next.File, uint64(next.size)
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
	return checkName(s.file, last.path)
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
	s.mu.RLock()
	b := g.encodeIndex(&s.blobs)
	s.mu.RUnlock()
	_, err = f.WriteAt(b, 0)
	if f.Close() == nil && err == nil {
		s.disk.Rename(path+newKind, path)
	}
}

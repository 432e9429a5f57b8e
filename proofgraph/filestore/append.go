package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// maxKept is how much memory one Append may leave to the next.
const maxKept = 8 << 20

// Append writes a batch as one frame, and returns nil when it is on stable storage: one write and one sync, but for the rare one that begins
// a segment. Blobs that the store has are not stored again. ctx counts until the writing begins. A batch of more than 1 GiB is refused, and
// nothing happens. After any other error but ErrConflict the store is dead.
func (s *Store) Append(ctx context.Context, b proofgraph.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	digests := make([]contracts.Digest, len(b.Blobs))
	for i, blob := range b.Blobs { // before it is anybody's turn
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
	blobs, digests := s.missing(b.Blobs, digests)
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
	return nil
}

// writable is the error why nothing can be written. The caller holds writing.
func (s *Store) writable(ctx context.Context) error {
	switch {
	case s.readOnly:
		return errReadOnly
	case s.closed: // written under writing too
		return errClosed
	case s.dead != nil:
		return s.dead
	}
	return ctx.Err()
}

// missing gives those blobs that the store does not have, with their digests, in memory that is used again.
func (s *Store) missing(blobs [][]byte, digests []contracts.Digest) ([][]byte, []contracts.Digest) {
	s.fresh = s.fresh[:0]
	n := 0
	for i, d := range digests {
		if _, _, ok := s.live(d); !ok {
			s.fresh = append(s.fresh, blobs[i])
			digests[n] = d
			n++
		}
	}
	return s.fresh, digests[:n]
}

// commit writes the frame, and makes it part of the store when it is durable.
func (s *Store) commit(b *proofgraph.Batch, blobs [][]byte, digests []contracts.Digest, size int) error {
	g := s.last()
	if g == nil || g.end > headerSize && int64(g.end)+int64(size)+room > s.sizes.segment {
		if err := s.roll(identity(b)); err != nil {
			return err
		}
		g = s.last()
	}
	end := uint64(g.end) + uint64(size)
	if end+room > s.size { // what is cut off is always noticed, so there must be zeros before there is a frame
		if err := s.extend(end + room); err != nil {
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
		if err := s.extend(s.size + uint64(s.sizes.ahead)); err != nil { // on the way: durable with the frame
			return err
		}
	}
	if err := s.sync(g); err != nil {
		return err
	}
	return s.publish(g, &f, digests, b.Checkpoint)
}

func (s *Store) sync(g *segment) error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	return nil
}

// extend writes zeros behind the end of the file: at least up to there, whole pieces of what is written ahead.
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

// publish shows readers what is durable.
func (s *Store) publish(g *segment, f *frame, digests []contracts.Digest, note []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range digests {
		if err := s.blobs.Add(d, 0); err != nil {
			return err
		}
	}
	g.take(f)
	s.entries += uint64(len(f.entries))
	if note != nil {
		s.note = bytes.Clone(note)
		if s.note == nil {
			s.note = []byte{}
		}
	}
	return nil
}

// identity tells one log from another: no two begin with the same signed entry.
func identity(b *proofgraph.Batch) contracts.Digest {
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

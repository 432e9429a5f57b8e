package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A blob is erased in two steps, as the package comment has it. Open takes both again for whatever is marked: where a sync failed before, the
// system may show what is not on the disk.

// fading is what bytes of an erased blob become. Nobody writes to it.
var fading = bytes.Repeat([]byte{kindErased}, 64<<10)

// blot makes bytes those of an erased blob.
func blot(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, fading):]
	}
}

// EraseBlob overwrites the bytes of a blob where they stand, and returns nil when that is on stable storage: two small writes and two syncs,
// more where it begins with a full segment, the index of which has to go. Its size and its digest stay. ctx counts until the writing begins.
// After an error of the disk the store is dead, and the blob is whole or gone when the directory is opened anew.
func (s *Store) EraseBlob(ctx context.Context, d contracts.Digest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.writable(ctx); err != nil {
		return err
	}
	for g, i, ok := s.live(d); ok; g, i, ok = s.live(d) { // a batch may have had it twice
		if err := s.erase(g, i, d); err != nil {
			return fmt.Errorf("filestore: erase: %w", err)
		}
		s.mu.Lock()
		g.blobs[i] = 0
		s.mu.Unlock()
	}
	return nil
}

// erase erases one record. An error of a write or a sync is the store's end.
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
	r, err := w.any(g.blobs[i])
	switch {
	case err != nil:
		return err
	case r.kind != kindBlob && r.kind != kindErased || contracts.Digest(r.body[:len(d)]) != d:
		return w.damaged(g.blobs[i])
	}
	err = s.unindex(g)
	if err == nil {
		err = overwrite(f, g, []stain{{g.blobs[i], uint32(len(r.body) - len(d))}})
	}
	if err != nil {
		s.dead = fmt.Errorf("filestore: erase: %w", err)
	}
	return err
}

// unindex removes the index of a full segment, by which the blob would be believed to be there. Close writes another.
func (s *Store) unindex(g *segment) error {
	if g == s.last() || g.changed {
		return nil
	}
	if err := s.disk.Remove(s.path(g.number, indexKind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.changed = true
	return s.disk.SyncDir(s.dir)
}

// A stain is a blob that is erased: where its record is, and how many bytes follow its digest.
type stain struct{ at, size uint32 }

// overwrite takes both steps for blobs of a segment.
func overwrite(f disk.File, g *segment, stains []stain) error {
	if len(stains) == 0 {
		return nil
	}
	for _, x := range stains {
		if _, err := f.WriteAt([]byte{kindErased}, int64(x.at)); err != nil {
			return fmt.Errorf("%s: offset %d: marking a blob: %w", g.path, x.at, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	for _, x := range stains {
		from := int64(x.at) + recordHead + int64(len(contracts.Digest{}))
		for to := from + int64(x.size); from < to; from += int64(len(fading)) {
			if _, err := f.WriteAt(fading[:min(to-from, int64(len(fading)))], from); err != nil {
				return fmt.Errorf("%s: offset %d: overwriting a blob: %w", g.path, from, err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%s: sync: %w", g.path, err)
	}
	return nil
}

// erasedBefore overwrites again what was marked when a segment was read: its process may have ended, or a sync of it have failed, in between.
func (s *Store) erasedBefore(g *segment) error {
	if len(g.stains) == 0 {
		return nil // and nothing to open
	}
	f, err := s.disk.Open(g.path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = overwrite(f, g, g.stains)
	g.stains = nil
	return err
}

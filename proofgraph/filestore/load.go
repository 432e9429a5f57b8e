package filestore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// load finds out what is in the directory, and if it is to be written to, mends what a crash left and makes ready for what comes.
func (s *Store) load() error {
	count, leftover, err := s.files()
	if err != nil {
		return err
	}
	list := make([]*found, count)
	for i := range list {
		if list[i], err = s.find(uint32(i + 1)); err != nil {
			return err
		}
		if i > 0 && list[i].log != list[0].log {
			return &damage{list[i].path, 0, "a segment of another log than " + filepath.Base(list[0].path)}
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		var next *found
		if i+1 < len(list) {
			next = list[i+1]
		}
		if err := s.examine(list[i], next, i+2 == len(list)); err != nil {
			return err
		}
		if i+2 < len(list) { // only what may have to be mended is kept, lest the whole log be in memory
			list[i].bytes = nil
		}
	}
	for _, g := range list {
		if err := s.add(&g.segment); err != nil {
			return fmt.Errorf("filestore: %s: %w", g.path, err)
		}
	}
	if s.readOnly {
		err = s.settled(list)
	} else {
		err = s.mend(list, leftover)
	}
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	for _, g := range list {
		g.bytes = nil // the store holds what it is in
	}
	return s.recall()
}

// found is a segment as it was found.
type found struct {
	segment
	bytes []byte // all, where it was read
	size  uint64 // of the file
	index bool   // it has one that is right
}

// find reads the header of a segment.
func (s *Store) find(number uint32) (*found, error) {
	path := s.path(number, logKind)
	f, err := s.disk.View(path)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	b := make([]byte, min(size, headerSize))
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	g, err := newSegment(path, b)
	switch {
	case err != nil:
		return nil, err
	case g.number != number:
		return nil, &damage{path, 0, fmt.Sprintf("segment %d of a log, under the name of another", g.number)}
	case size > maxSegment:
		return nil, &damage{path, maxSegment, "a segment is not as long as that"}
	}
	return &found{segment: *g, size: uint64(size)}, nil
}

// examine learns what a segment holds, from its index if it has one. Only the last one may not be full; or the one before, if the last was
// just begun and nothing is in it.
func (s *Store) examine(g, next *found, lastButOne bool) error {
	if next != nil && s.indexed(g, next) {
		return nil
	}
	var err error
	if g.bytes, err = s.read(g); err != nil {
		return err
	}
	if err := g.settle(g.bytes); err != nil {
		return err
	}
	switch {
	case next == nil && g.full:
		return s.missingFile(g.number + 1)
	case next == nil:
		return nil
	case !g.full && !(lastButOne && next.end == headerSize):
		return &damage{g.path, uint64(g.end), "the segment ends here, and the next one does not begin here"}
	case !g.precedes(&next.segment):
		return &damage{next.path, 0, "a segment that does not follow from " + filepath.Base(g.path)}
	}
	return nil
}

// precedes tells whether the next segment goes on where this one ends.
func (s *segment) precedes(next *segment) bool {
	return next.chain == s.tail && next.first == s.first+uint64(len(s.entries))
}

// indexed takes what a segment holds from its index.
func (s *Store) indexed(g, next *found) bool {
	f, err := s.disk.View(s.path(g.number, indexKind))
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > maxSegment {
		return false
	}
	b := make([]byte, size)
	if n, _ := f.ReadAt(b, 0); int64(n) != size {
		return false
	}
	at := g.segment
	if !at.decodeIndex(b) || !at.precedes(&next.segment) || uint64(at.end)+endSize > g.size {
		return false
	}
	g.segment, g.index = at, true
	return true
}

// read reads a whole file.
func (s *Store) read(g *found) ([]byte, error) {
	f, err := s.disk.View(g.path)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	defer f.Close()
	size, err := f.Size() // again: it may have grown
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		return nil, fmt.Errorf("filestore: %s: offset %d: %w", g.path, n, err)
	}
	g.size = uint64(size)
	return b, nil
}

// unsettled are the segments of which something may not be on stable storage yet: the last, and the one before while nothing is in that.
func unsettled(list []*found) []*found {
	n := len(list)
	if n > 1 && list[n-1].end == headerSize {
		return list[n-2:]
	}
	return list[max(n-1, 0):]
}

// settled sees to it that what was read is durable, so that an auditor sees nothing that a crash could take back.
func (s *Store) settled(list []*found) error {
	for _, g := range unsettled(list) {
		f, err := s.disk.View(g.path)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EINVAL) { // of what cannot be written to
			return fmt.Errorf("%s: sync: %w", g.path, err)
		}
	}
	return nil
}

// mend makes durable what is there, and zero what is torn. The last frame is written again, and the zeros behind it: where a sync failed
// before, the system may show bytes that are not on the disk, and will not write them by itself.
func (s *Store) mend(list []*found, leftover []string) error {
	for _, name := range leftover {
		if err := s.disk.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.disk.SyncDir(s.dir); err != nil { // the last file lasts before the one before it says that it follows
		return err
	}
	for _, g := range list {
		if err := s.erasedBefore(&g.segment); err != nil {
			return err
		}
	}
	for _, g := range unsettled(list) {
		if g.index { // its end was durable before that was written
			continue
		}
		if s.file != nil {
			s.file.Close()
			s.file = nil
		}
		f, err := s.disk.Open(g.path)
		if err != nil {
			return err
		}
		s.file, s.size = f, g.size
		if err := g.rewrite(f); err != nil {
			return fmt.Errorf("%s: %w", g.path, err)
		}
		if g.number < uint32(len(list)) {
			if err := s.finish(&g.segment, f); err != nil {
				return err
			}
			g.index = true
		}
	}
	for _, g := range list[:len(list)-1] {
		if !g.index {
			s.writeIndex(&g.segment)
		}
	}
	return nil
}

// rewrite begins to erase behind the beginning of a torn frame, and that goes last: cut short, it leaves a tail that is torn as before.
func (g *found) rewrite(f disk.File) error {
	if _, err := f.WriteAt(g.bytes[g.before.end:g.end], int64(g.before.end)); err != nil {
		return err
	}
	begun := min(int64(g.end)+beginSize, int64(g.size))
	for _, part := range [...][2]int64{{begun, int64(g.size)}, {int64(g.end), begun}} {
		for from, to := part[0], part[1]; from < to; from += int64(len(zeros)) {
			if _, err := f.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from); err != nil {
				return err
			}
		}
	}
	return f.Sync()
}

// recall reads the latest checkpoint.
func (s *Store) recall() error {
	for i := len(s.segments) - 1; i >= 0; i-- {
		g := s.segments[i]
		if g.note == 0 {
			continue
		}
		f, err := s.disk.View(g.path)
		if err != nil {
			return fmt.Errorf("filestore: %w", err)
		}
		defer f.Close()
		w := window{file: f, segment: g}
		b, err := w.record(g.note, kindCheckpoint)
		if err != nil {
			return fmt.Errorf("filestore: checkpoint: %w", err)
		}
		s.note = append([]byte{}, b...)
		return nil
	}
	return nil
}

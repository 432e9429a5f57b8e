package filestore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// load reads the directory. If the store is not read only, it repairs the state that a crash left.
func (s *Store) load() error {
	s.end.path = filepath.Join(s.dir, endName)
	if err := s.end.read(s.disk); err != nil { // first: what is acknowledged meanwhile is further on
		return err
	}
	count, leftover, err := s.files()
	if err != nil {
		return err
	}
	list := make([]*foundSegment, count)
	for i := range list {
		if list[i], err = s.find(uint32(i + 1)); err != nil {
			return err
		}
		if i > 0 && list[i].log != list[0].log {
			return &damage{list[i].path, 0, "a segment of another log than " + filepath.Base(list[0].path)}
		}
	}
	if n := s.end.last.segment; n > count {
		return s.missingFile(count + 1)
	} else if n > 0 {
		list[n-1].acked = s.end.last
	}
	for i := len(list) - 1; i >= 0; i-- {
		var next *foundSegment
		if i+1 < len(list) {
			next = list[i+1]
		}
		if err := s.examine(list[i], next, i+2 == len(list)); err != nil {
			return err
		}
		if i+2 < len(list) { // only segments that may need repair are kept in memory
			list[i].bytes = nil
		}
	}
	if err := s.end.check(list); err != nil {
		return err
	}
	for _, g := range list {
		if err := s.add(&g.segment); err != nil {
			return fmt.Errorf("filestore: %s: %w", g.path, err)
		}
	}
	if s.readOnly {
		err = s.syncUnsettled(list)
	} else {
		err = s.repair(list, leftover)
	}
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	for _, g := range list {
		g.bytes = nil // the store keeps the segment that it is part of
	}
	return s.loadCheckpoint()
}

// A foundSegment is a segment as it was found.
type foundSegment struct {
	segment
	bytes    []byte // the whole file, if it was read
	size     uint64 // of the file
	hasIndex bool   // it has an index that is right
}

// find reads the header of a segment.
func (s *Store) find(number uint32) (*foundSegment, error) {
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
	b := make([]byte, min(size, longHeader))
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
	return &foundSegment{segment: *g, size: uint64(size)}, nil
}

// examine reads a segment, or its index if it has one. Every segment but the last must be full. The
// one before the last need not be if the last has no frames yet.
func (s *Store) examine(g, next *foundSegment, lastButOne bool) error {
	if next != nil && s.loadIndex(g, next) {
		return nil
	}
	var err error
	if g.bytes, err = s.read(g); err != nil {
		return err
	}
	if err := g.classifyTail(g.bytes); err != nil {
		return err
	}
	switch {
	case next == nil && g.full:
		return s.missingFile(g.number + 1)
	case next == nil:
		return nil
	case !g.full && !(lastButOne && next.empty()):
		return &damage{g.path, uint64(g.end), "the segment ends here, and the next one does not begin here"}
	case !g.precedes(&next.segment):
		return &damage{next.path, 0, "a segment that does not follow from " + filepath.Base(g.path)}
	}
	return nil
}

// precedes reports whether the next segment goes on where this one ends.
func (s *segment) precedes(next *segment) bool {
	return next.chain == s.nextChain() && next.first == s.first+uint64(len(s.entries))
}

// loadIndex fills in a segment from its index. It returns false if there is no right index.
func (s *Store) loadIndex(g, next *foundSegment) bool {
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
	if !at.decodeIndex(b) || !at.precedes(&next.segment) || uint64(at.end)+endSize > g.size ||
		at.times > 0 && !s.endsThere(&at) {
		return false
	}
	g.segment, g.hasIndex = at, true
	return true
}

// endsThere reports whether the file of a condensed segment has its end where the index says. The
// header does not tell it from a file that another condensing of an older copy has made.
func (s *Store) endsThere(g *segment) bool {
	f, err := s.disk.View(g.path)
	if err != nil {
		return false
	}
	defer f.Close()
	w := window{file: f, segment: g}
	b, err := w.record(g.end, kindNext)
	return err == nil && len(b) == endSize-recordHead && le.Uint32(b) == g.tail
}

// read reads a whole file. If the segment was condensed since its header was read, it is what it is
// now.
func (s *Store) read(g *foundSegment) ([]byte, error) {
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
	if now, err := newSegment(g.path, b); err == nil && now.condenses(&g.header) {
		now.acked, g.segment = g.acked, *now
	}
	return b, nil
}

// view opens the file of a segment to read it. Another process may have condensed the segment since
// this store read it: then view returns what it is now.
func (s *Store) view(g *segment) (disk.File, *segment, error) {
	f, err := s.disk.View(g.path)
	if err != nil {
		return nil, nil, fmt.Errorf("filestore: %w", err)
	}
	var h header
	b := make([]byte, longHeader)
	n, err := f.ReadAt(b, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("filestore: %s: %w", g.path, err)
	case h.decode(b[:n]) == nil && h.sum != g.sum && h.condenses(&g.header):
		g, err = s.reload(g, &h)
	default:
		return f, g, nil // if it is none of the segment's, no record will check
	}
	f.Close()
	if err != nil {
		return nil, nil, err
	}
	return s.view(g)
}

// present returns what a segment is now. Only a Condense that failed, and did not know that it had
// renamed the file, leaves another one than this store knows.
func (s *Store) present(g *segment) (*segment, error) {
	if g == s.last() {
		return g, nil
	}
	f, now, err := s.view(g)
	if err == nil {
		f.Close()
	}
	return now, err
}

// reload replaces a segment by what it is now, with the header h or a later one.
func (s *Store) reload(g *segment, h *header) (*segment, error) {
	s.mu.RLock()
	now := s.segments[g.number-1]
	s.mu.RUnlock()
	if now.sum == h.sum || now.condenses(h) { // this store did it, or has read it
		return now, nil
	}
	found := &foundSegment{segment: segment{header: g.header, path: g.path}}
	b, err := s.read(found)
	if err != nil {
		return nil, err
	}
	if err := found.classifyTail(b); err != nil {
		return nil, err
	}
	next := &found.segment
	if !next.full || len(next.entries) < len(now.entries) || now.full && next.nextChain() != now.nextChain() {
		return nil, &damage{g.path, 0, "a condensed segment of other entries than it had"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.segments[g.number-1] == now {
		s.replace(now, next)
	}
	return s.segments[g.number-1], nil
}

// replace puts a condensed segment in the place of what it was, of which this store may know a part
// only. Its blobs keep their numbers. The caller holds mu.
func (s *Store) replace(g, next *segment) {
	at := make(map[contracts.Digest]uint32, len(next.blobs))
	for i, d := range next.digests {
		at[d] = next.blobs[i]
	}
	next.firstBlob, next.blobs = g.firstBlob, make([]uint32, len(g.blobs))
	for i := range g.blobs {
		if g.blobs[i] != 0 {
			next.blobs[i] = at[s.blobs.Hash(g.firstBlob+uint64(i))]
		}
	}
	next.entries, next.digests = next.entries[:len(g.entries):len(g.entries)], nil
	s.segments[g.number-1] = next
}

// unsettled returns the segments that may not be on stable storage yet: the last, and while that
// has no frames the one before.
func unsettled(list []*foundSegment) []*foundSegment {
	n := len(list)
	if n > 1 && list[n-1].empty() {
		return list[n-2:]
	}
	return list[max(n-1, 0):]
}

// syncUnsettled makes durable what was read, so that an auditor sees nothing that a crash could
// undo.
func (s *Store) syncUnsettled(list []*foundSegment) error {
	for _, g := range unsettled(list) {
		f, err := s.disk.View(g.path)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		readOnly := errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL) // nothing to write
		if err != nil && !readOnly {
			return fmt.Errorf("%s: sync: %w", g.path, err)
		}
	}
	return nil
}

// repair makes the log durable as it was read, and overwrites a torn frame with zeros. It writes
// the last frame again, and the zeros after it: if a sync failed before, the system may show bytes
// that are not on the disk, and will not write them by itself.
func (s *Store) repair(list []*foundSegment, leftover []string) error {
	for _, name := range leftover {
		if err := s.disk.Remove(filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.disk.SyncDir(s.dir); err != nil { // the last file is durable before the one before it refers to it
		return err
	}
	for _, g := range list {
		if err := s.finishErasures(&g.segment); err != nil {
			return err
		}
	}
	for _, g := range unsettled(list) {
		if g.hasIndex || g.times > 0 { // its end was durable before its index was written, or before it had its name
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
			g.hasIndex = true
		}
	}
	for _, g := range list[:len(list)-1] {
		if !g.hasIndex {
			s.writeIndex(&g.segment)
		}
	}
	return nil
}

// rewrite writes the last frame again, and overwrites a torn frame after it with zeros: first from
// after its begin record on, and the begin record last, so that the frame is still torn if that is
// cut short.
func (g *foundSegment) rewrite(f disk.File) error {
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

// loadCheckpoint reads the latest checkpoint.
func (s *Store) loadCheckpoint() error {
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

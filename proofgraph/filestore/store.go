package filestore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// Options say how a directory is opened.
type Options struct {
	Wait time.Duration // how long to wait for a process that has the log open; 0: not at all
}

// A Store keeps a log in a directory. It is safe for concurrent use by multiple goroutines. After an error of the disk, in Append or
// EraseBlob, it is dead: it still reads, and what is in the directory is found by opening it anew.
type Store struct {
	disk     disk.Disk
	dir      string
	sizes    sizes
	readOnly bool

	writing sync.Mutex // held across one Append or EraseBlob; protects what follows, which only these use
	held    io.Closer  // the lock
	file    disk.File  // the last segment
	size    uint64     // of that file
	buf     []byte
	fresh   [][]byte
	dead    error

	mu       sync.RWMutex // held for moments; protects what follows: what is on stable storage. Elements of slices do not change, but for erased blobs
	closed   bool
	segments []*segment
	entries  uint64
	blobs    proofgraph.Index // the number of a blob, by its digest
	note     []byte
	idle     []*window // for blobs, those used last behind the others; release has them once closed is set
}

var (
	_ proofgraph.Store  = (*Store)(nil)
	_ proofgraph.Eraser = (*Store)(nil)
)

// sizes are those of files, in bytes.
type sizes struct {
	segment int64 // no frame is begun behind it; a larger frame has a segment to itself
	ahead   int64 // zeros that are written at a time
}

func (z sizes) orDefault() sizes {
	if z.segment == 0 {
		z.segment = 64 << 20
	}
	if z.ahead == 0 {
		z.ahead = 1 << 20
	}
	return z
}

var (
	errClosed   = errors.New("filestore: the store is closed")
	errReadOnly = errors.New("filestore: the store was opened to be read only")
)

// Close lets another process open the directory. It waits for an Append that is going on; what it stored stays. Closing twice does nothing.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	if s.dead == nil {
		for _, g := range s.segments {
			if g.changed {
				s.writeIndex(g)
			}
		}
	}
	return s.release()
}

// release gives back what the system lent. The caller holds writing, or has not published the store.
func (s *Store) release() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	for _, w := range s.idle {
		err = errors.Join(err, w.file.Close())
	}
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	s.file, s.idle, s.held = nil, nil, nil
	if err != nil {
		return fmt.Errorf("filestore: %s: close: %w", s.dir, err)
	}
	return nil
}

// last is the segment that is written to; nil in an empty store.
func (s *Store) last() *segment {
	if len(s.segments) == 0 {
		return nil
	}
	return s.segments[len(s.segments)-1]
}

// add makes a segment part of the store, with the blobs that its frames brought.
func (s *Store) add(g *segment) error {
	g.firstBlob = uint64(s.blobs.Len())
	for _, d := range g.digests {
		if err := s.blobs.Add(d, 0); err != nil {
			return err
		}
	}
	g.digests = nil
	s.segments, s.entries = append(s.segments, g), s.entries+uint64(len(g.entries))
	return nil
}

func (s *Store) path(number uint32, kind string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%08d%s", number, kind))
}

const (
	lockName  = "lock"
	logKind   = ".log"
	indexKind = ".index"
	newKind   = ".new" // behind the others: not yet in its place
)

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

// Options are the options of [Open].
type Options struct {
	Wait time.Duration // how long to wait for a process that has the log open; 0: not at all
}

// A Store keeps a log in a directory. It is safe for concurrent use by multiple goroutines. After
// an error of the disk, in Append or EraseBlob, it is dead: it still reads, and the directory must
// be opened again to find what was stored.
type Store struct {
	disk     disk.Disk
	dir      string
	sizes    sizes
	readOnly bool

	// writing is held during one Append or EraseBlob. It protects the fields up to mu.
	writing sync.Mutex
	lock    io.Closer // the lock
	file    disk.File // the last segment
	size    uint64    // of that file
	buf     []byte
	fresh   [][]byte
	dead    error

	// mu is held for moments. It protects the fields below, which describe what is on stable
	// storage. Elements of slices do not change, except those of erased blobs.
	mu       sync.RWMutex
	closed   bool
	segments []*segment
	entries  uint64
	blobs    proofgraph.Index // the number of a blob, by its digest
	note     []byte

	// idle are windows for reading blobs, those used last at the end. Once closed is set they are
	// release's alone.
	idle []*window
}

var (
	_ proofgraph.Store  = (*Store)(nil)
	_ proofgraph.Eraser = (*Store)(nil)
)

// A sizes is the sizes of files, in bytes.
type sizes struct {
	segment int64 // no frame begins after it; a larger frame has a segment to itself
	ahead   int64 // how many zeros are written at a time
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

// Close closes the files, so that another process can open the directory. It waits for an Append
// that is going on. Closing twice does nothing.
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

// release closes files and lock. The caller holds writing, or has not published the store.
func (s *Store) release() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	for _, w := range s.idle {
		err = errors.Join(err, w.file.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	s.file, s.idle, s.lock = nil, nil, nil
	if err != nil {
		return fmt.Errorf("filestore: %s: close: %w", s.dir, err)
	}
	return nil
}

// last returns the segment that is written to, or nil in an empty store.
func (s *Store) last() *segment {
	if len(s.segments) == 0 {
		return nil
	}
	return s.segments[len(s.segments)-1]
}

// add makes a segment part of the store, with the blobs of its frames.
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
	newKind   = ".new" // follows another suffix: the file is not yet in its place
)

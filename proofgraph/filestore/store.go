package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
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
	lastFile
	end  endFile // how far the log was acknowledged
	dead error
	scratch
	condenser

	// mu is held for moments. It protects the fields below, which describe what is on stable
	// storage. Elements of slices do not change, except those of erased blobs.
	mu       sync.RWMutex
	closed   bool
	segments []*segment
	entries  uint64
	blobs    proofgraph.Index // the number of a blob, by its digest
	note     []byte
	damaged  map[contracts.Digest]bool // blobs whose bytes were found damaged: they may be stored again

	// idle are windows for reading blobs, those used last at the end. Once closed is set they are
	// release's alone.
	idle []*window

	hashes tree // has its own lock, which is taken after writing and before mu
}

var (
	_ proofgraph.Store      = (*Store)(nil)
	_ proofgraph.Eraser     = (*Store)(nil)
	_ proofgraph.Condenser  = (*Store)(nil)
	_ proofgraph.Rememberer = (*Store)(nil)
	_ tlog.HashReader       = (*Store)(nil)
)

// A lastFile is the file of the last segment.
type lastFile struct {
	file disk.File
	size uint64
}

// A scratch is memory that one Append leaves to the next.
type scratch struct {
	buf   []byte
	fresh [][]byte
}

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

// ErrInUse means that another process has the log open, or another Store of this one.
var ErrInUse = disk.ErrHeld

var (
	errClosed   = errors.New("filestore: the store is closed")
	errReadOnly = errors.New("filestore: the store was opened to be read only")
)

const (
	lockName  = "lock"
	endName   = "end"
	logKind   = ".log"
	indexKind = ".index"
	newKind   = ".new" // follows another suffix: the file is not yet in its place
)

// Open opens the log in a directory, to read and to write. If the directory does not exist, or is
// empty, Open begins a log there. The directory is the log's alone. If another process has it open,
// Open waits for it for up to Options.Wait, and then returns an error that names that process, and
// Is ErrInUse.
//
// Open removes a frame that a crash left half written, which was never acknowledged. A file that is
// damaged, cut, missing, or of another log, or no regular file, is an error that names it, and then
// nothing is changed. A directory inside that of another log is refused.
func Open(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir) // the process may change its directory
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return open(disk.OS{}, dir, o, sizes{})
}

// OpenReadOnly opens the log in a directory as it is now, for reading, while a process may be
// writing to it. It does not see what is acknowledged later; open it again. It sees stubs in the
// place of entries that are condensed later, and no blob that is forgotten then. It changes
// nothing, and what it reads is on stable storage, with one exception: after a sync of the writing
// process failed, which seals that log, the system may show bytes that it will not keep. Until
// Close it has up to 16 files open.
func OpenReadOnly(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return openReadOnly(disk.OS{}, dir)
}

const poll = 20 * time.Millisecond

func open(d disk.Disk, dir string, o Options, z sizes) (_ *Store, err error) {
	s := &Store{disk: d, dir: dir, sizes: z.orDefault(), condenser: newCondenser()}
	s.hashes.of = s
	if err := insideLog(d, dir); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	names, err := d.List(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 { // an empty directory may not be durable yet
		err = d.Mkdir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	_, _, err = s.files() // before the lock is made in a directory of other files
	if errors.As(err, new(missingError)) {
		_, _, err = s.files() // a segment may have been renamed while names were read
	}
	if err != nil {
		return nil, err
	}
	for waited := time.Duration(0); s.lock == nil; waited += poll {
		if s.lock, err = d.Lock(filepath.Join(dir, lockName)); err == nil {
			break
		}
		if !errors.As(err, new(disk.HeldError)) || waited >= o.Wait {
			return nil, fmt.Errorf("filestore: %s: %w", dir, err)
		}
		time.Sleep(min(poll, o.Wait-waited))
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if err := s.load(); err != nil {
		return nil, err
	}
	end := logEnd{}
	if g := s.last(); g != nil {
		end = g.logEnd()
	}
	if err := s.end.open(d, end); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	s.hashes.begun()
	return s, nil
}

// openReadOnly opens a directory that another process may be writing to. Files are not read at one
// moment, so a frame may be seen without the one before it, or a segment without the next. Reading
// again sees both. An error that stays the same is real.
func openReadOnly(d disk.Disk, dir string) (*Store, error) {
	for before := ""; ; {
		s := &Store{disk: d, dir: dir, readOnly: true, condenser: newCondenser()}
		s.hashes.of = s
		err := s.load()
		if err == nil {
			return s, nil
		}
		if err.Error() == before {
			return nil, err
		}
		before = err.Error()
	}
}

// Close closes the files, so that another process can open the directory. It waits for an Append
// that is going on, and ends a Condense and a SaveState. It returns an error if the file end is not
// in its place any more. Closing twice does nothing.
func (s *Store) Close() error {
	s.closing.Store(true)
	_ = s.rewrites.enter(context.Background())
	defer s.rewrites.leave()
	_ = s.saves.enter(context.Background())
	defer s.saves.leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var lost error
	if s.dead == nil && !s.readOnly {
		for _, g := range s.segments {
			if g.changed {
				s.writeIndex(g)
			}
		}
		_ = s.end.Sync() // or it may be older after a crash of the system
		if lost = checkName(s.end.File, s.end.path); lost != nil {
			lost = fmt.Errorf("filestore: close: %w", lost)
		}
	}
	return errors.Join(lost, s.release())
}

// release closes files and lock. The caller holds writing, or has not published the store.
func (s *Store) release() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	if s.end.File != nil {
		err = errors.Join(err, s.end.Close())
	}
	for _, w := range s.idle {
		err = errors.Join(err, w.file.Close())
	}
	err = errors.Join(err, s.hashes.close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	s.file, s.end.File, s.idle, s.lock = nil, nil, nil, nil
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

// files returns the number of segments, and the files that were not finished when a process ended.
func (s *Store) files() (segments uint32, leftover []string, err error) {
	names, err := s.disk.List(s.dir)
	if err != nil {
		return 0, nil, fmt.Errorf("filestore: %w", err)
	}
	var indexes uint32
	for _, file := range names {
		stem, unfinished := strings.CutSuffix(file.Name, newKind)
		kind := filepath.Ext(stem)
		n, err := strconv.ParseUint(strings.TrimSuffix(stem, kind), 10, 32)
		number := uint32(n)
		numbered := err == nil && number > 0 && (kind == logKind || kind == indexKind) &&
			filepath.Base(s.path(number, kind)) == stem
		switch {
		case !numbered && file.Name != lockName && file.Name != hashesName && stem != endName && stem != stateName:
			return 0, nil,
				fmt.Errorf("filestore: %s: not a file of a log: give the log a directory of its own, or move this "+
					"file out of it", filepath.Join(s.dir, file.Name))
		case !file.Regular:
			return 0, nil, fmt.Errorf("filestore: %s: not a regular file: the files of a log are no links, pipes or "+
				"directories", filepath.Join(s.dir, file.Name))
		case unfinished:
			leftover = append(leftover, file.Name)
		case !numbered: // the lock, the end, the hashes, the state
		case kind == indexKind:
			indexes = number
		case number != segments+1:
			return 0, nil, s.missingFile(segments + 1)
		default:
			segments = number
		}
	}
	if indexes >= segments && indexes > 0 { // the last segment has none
		return 0, nil, s.missingFile(segments + 1)
	}
	return segments, leftover, nil
}

func (s *Store) missingFile(number uint32) error { return missingError{s.path(number, logKind)} }

// A missingError says that a segment is missing.
type missingError struct{ path string }

func (a missingError) Error() string {
	return "filestore: " + a.path + ": the file is missing; nothing was changed: restore it from a copy"
}

package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// Open opens the log in a directory, to read and to write, or makes the directory, in one that is there, for a log that begins. The directory
// is the log's alone. Where another process has it open, the error names that process, unless it ends within Options.Wait.
//
// What a crash left half written is made undone: nothing of it was acknowledged. A file that is damaged, cut, missing, or of another log
// is an error that names file and offset, and then nothing is changed.
func Open(dir string, o Options) (*Store, error) { return open(disk.OS{}, dir, o, sizes{}) }

// OpenReadOnly opens the log in a directory as it is now, to be read, while a process may be writing to it. What is acknowledged later is
// not seen; open it again. It changes nothing, and what it gives is on stable storage: only behind a process whose sync failed, and which is
// sealed, may the system show what it will not keep. Until Close it has up to 16 files open.
func OpenReadOnly(dir string) (*Store, error) { return openReadOnly(disk.OS{}, dir) }

const poll = 20 * time.Millisecond

func open(d disk.Disk, dir string, o Options, z sizes) (_ *Store, err error) {
	s := &Store{disk: d, dir: dir, sizes: z.orDefault()}
	names, err := d.List(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 { // who made an empty one may have ended before it was there to stay
		err = d.Mkdir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	_, _, err = s.files() // before there is a lock in somebody's directory
	if errors.As(err, new(absent)) {
		_, _, err = s.files() // perhaps a segment came into its place while names were read
	}
	if err != nil {
		return nil, err
	}
	for waited := time.Duration(0); s.held == nil; waited += poll {
		if s.held, err = d.Lock(filepath.Join(dir, lockName)); err == nil {
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
	return s, nil
}

// openReadOnly reads what may be written to meanwhile, which is not read at one moment: a frame may be seen and the one before it not yet,
// a segment and not its successor. Read again, that is there; what is wrong stays.
func openReadOnly(d disk.Disk, dir string) (*Store, error) {
	for before := ""; ; {
		s := &Store{disk: d, dir: dir, readOnly: true}
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

// files gives the number of segments, and what was not finished when a process ended.
func (s *Store) files() (segments uint32, leftover []string, err error) {
	names, err := s.disk.List(s.dir)
	if err != nil {
		return 0, nil, fmt.Errorf("filestore: %w", err)
	}
	var indexes uint32
	for _, name := range names {
		kind := filepath.Ext(name)
		stem := strings.TrimSuffix(name, kind)
		if kind == newKind {
			kind = filepath.Ext(stem)
			stem = strings.TrimSuffix(stem, kind)
		}
		n, err := strconv.ParseUint(stem, 10, 32)
		switch number := uint32(n); {
		case name == lockName:
		case err != nil || filepath.Base(s.path(number, kind)) != stem+kind || number == 0 || kind != logKind && kind != indexKind:
			return 0, nil, fmt.Errorf("filestore: %s: not a file of a log: give the log a directory of its own, or move this file out of it", filepath.Join(s.dir, name))
		case strings.HasSuffix(name, newKind):
			leftover = append(leftover, name)
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

func (s *Store) missingFile(number uint32) error { return absent{s.path(number, logKind)} }

// absent is the error where there ought to be a segment.
type absent struct{ path string }

func (a absent) Error() string {
	return "filestore: " + a.path + ": the file is missing; nothing was changed: restore it from a copy"
}

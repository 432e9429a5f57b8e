package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// A Finder is a [witness.State] that finds the latest note of a log by the SHA-256 of its origin,
// and returns nil if there is none. It must not return a note that is not durable: [Handler]
// publishes it. The state that [DirState] returns is one.
type Finder interface {
	Find(ctx context.Context, origin contracts.Digest) ([]byte, error)
}

// DirState returns a state that keeps the latest notes in a directory, which must exist. It is safe
// for concurrent use by multiple goroutines and processes.
func DirState(path string) (witness.State, error) {
	if !haveLocks {
		return nil, &fs.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("witness: state: make the directory first: %w", err)
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "witness: state", Path: path, Err: errors.New("not a directory")}
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("witness: state: %w", err)
	}
	return &dir{path: path, synced: map[contracts.Digest]contracts.Digest{}}, nil
}

// A dir keeps notes in a directory.
type dir struct {
	path string
	step func(name string, f *os.File) error // for tests: called before each step of a swap

	mu     sync.Mutex
	synced map[contracts.Digest]contracts.Digest // digests of notes that are durable, by log
}

var (
	_ witness.State = (*dir)(nil)
	_ Finder        = (*dir)(nil)
)

func logOf(origin string) contracts.Digest { return crypto.Sum([]byte(origin)) }

// file returns the path of the file of a log.
func (d *dir) file(log contracts.Digest) string {
	return filepath.Join(d.path, log.String()+".checkpoint")
}

func (d *dir) before(name string, f *os.File) error {
	if d.step == nil {
		return nil
	}
	return d.step(name, f)
}

// Latest returns the note of a log.
func (d *dir) Latest(ctx context.Context, origin string) ([]byte, error) {
	return d.Find(ctx, logOf(origin))
}

// Find returns the note of a log.
func (d *dir) Find(ctx context.Context, log contracts.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := open(d.file(log))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer h.Close()
	note, err := read(h, log)
	if err != nil {
		return nil, err
	}
	return note, d.settle(log, note)
}

// settle makes sure that a note which was read is durable: another goroutine or process may have
// renamed it into place and not synced the directory yet.
func (d *dir) settle(log contracts.Digest, note []byte) error {
	sum := crypto.Sum(note)
	d.mu.Lock()
	known := d.synced[log] == sum
	d.mu.Unlock()
	if known {
		return nil
	}
	if err := d.sync("settle"); err != nil {
		return err
	}
	d.settled(log, note)
	return nil
}

func (d *dir) settled(log contracts.Digest, note []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced[log] = crypto.Sum(note)
}

func (d *dir) sync(step string) error {
	h, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := d.before(step, h); err != nil {
		return err
	}
	return h.Sync()
}

// Swap replaces the note of a log.
func (d *dir) Swap(ctx context.Context, origin string, was, now []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	log := logOf(origin)
	if err := isOf(now, log); err != nil {
		return err
	}
	if was == nil {
		err := d.write(log, now, d.link)
		if errors.Is(err, fs.ErrExist) {
			return witness.ErrChanged
		}
		return err
	}
	h, err := d.lock(ctx, d.file(log))
	if err != nil {
		return err
	}
	defer unlock(h)
	there, err := read(h, log)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, was) {
		return witness.ErrChanged
	}
	return d.write(log, now, os.Rename)
}

// open opens a file. It refuses a symbolic link, which a rename would replace, and a device.
func open(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return os.Open(path)
}

// maxNote is the most that [proofgraph.ParseCheckpoint] accepts.
const maxNote = 1_000_000

// read returns what the file of a log holds, if it is a checkpoint of the log.
func read(h *os.File, log contracts.Digest) ([]byte, error) {
	note, err := io.ReadAll(io.LimitReader(h, maxNote+1))
	if err == nil {
		err = isOf(note, log)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: h.Name(), Err: err}
	}
	return note, nil
}

func isOf(note []byte, log contracts.Digest) error {
	c, _, err := proofgraph.ParseCheckpoint(note)
	if err != nil {
		return err
	}
	if logOf(c.Origin) != log {
		return errors.New("a checkpoint of another log")
	}
	return nil
}

package witness

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// patience is how long to wait for another request or process, which holds the lock of a log only
// for as long as two syncs take.
const patience = 10 * time.Second

var errHeld = errors.New("witness: state: another process has had the note locked for ten seconds: see what it is at")

// lock opens the file and takes its lock. It returns only if the locked file still has the path:
// another request may have replaced it in between.
func (d *dir) lock(ctx context.Context, path string) (*os.File, error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		h, err := open(path)
		if err != nil {
			return nil, err
		}
		held := false
		if err = d.before("lock", h); err == nil {
			held, err = tryLock(h)
		}
		switch {
		case held && has(path, h):
			return h, nil
		case held:
			unlock(h) // it was replaced
			continue
		}
		h.Close()
		if err != nil {
			return nil, err
		}
		select {
		case <-limit.Done():
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return nil, errHeld
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// has reports whether an open file still has the path.
func has(path string, h *os.File) bool {
	a, err := h.Stat()
	b, berr := os.Lstat(path)
	return err == nil && berr == nil && os.SameFile(a, b)
}

// link makes the file, and fails if there is one.
func (d *dir) link(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	os.Remove(from) // if that fails, the file has a second name
	return nil
}

// write puts a note on stable storage in a temporary file of the directory, calls place to move it
// to the path of its log, and syncs the directory.
func (d *dir) write(log contracts.Digest, note []byte, place func(from, to string) error) error {
	to := d.file(log)
	h, err := os.CreateTemp(d.path, log.String()+".*.tmp")
	if err != nil {
		return err
	}
	placed := false
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"write", func() error { _, err := h.Write(note); return err }},
		{"sync", h.Sync},
		{"close", h.Close},
		{"place", func() error { err := place(h.Name(), to); placed = err == nil; return err }},
	} {
		if err = d.before(s.name, h); err == nil {
			err = s.do()
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = d.sync("sync of the directory")
	}
	if err != nil {
		if !placed {
			h.Close()
			os.Remove(h.Name())
		}
		return err
	}
	d.settled(log, note)
	return nil
}

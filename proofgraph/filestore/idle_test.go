package filestore

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A countingDisk counts the files that are open, and how often one was opened for reading.
type countingDisk struct {
	disk.Disk
	opened, views atomic.Int64
	failing       atomic.Bool // no read succeeds
}

type countingFile struct {
	disk.File
	disk   *countingDisk
	closed atomic.Bool
}

func (d *countingDisk) count(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	d.opened.Add(1)
	return &countingFile{File: f, disk: d}, nil
}

func (d *countingDisk) Open(path string) (disk.File, error)   { return d.count(d.Disk.Open(path)) }
func (d *countingDisk) Create(path string) (disk.File, error) { return d.count(d.Disk.Create(path)) }
func (d *countingDisk) View(path string) (disk.File, error) {
	d.views.Add(1)
	return d.count(d.Disk.View(path))
}

func (f *countingFile) ReadAt(b []byte, at int64) (int, error) {
	switch {
	case f.closed.Load():
		return 0, errors.New("a closed file is read")
	case f.disk.failing.Load():
		return 0, errors.New("the disk failed")
	}
	return f.File.ReadAt(b, at)
}

func (f *countingFile) Close() error {
	if f.closed.Swap(true) {
		return errors.New("closed twice")
	}
	f.disk.opened.Add(-1)
	return f.File.Close()
}

// Blobs are read from files that are open already, of a bounded number of segments, and none is
// open after Close.
func TestIdleFiles(t *testing.T) {
	t.Parallel()
	const n = 120
	d := &countingDisk{Disk: logOf(t, n).disk()}
	writer, err := open(d, dir, Options{}, small)
	require.NoError(t, err)
	reader, err := openReadOnly(d, dir)
	require.NoError(t, err)
	segments := len(writer.segments)
	for name, s := range map[string]*Store{"to write": writer, "read only": reader} {
		before, views := d.opened.Load(), d.views.Load()
		mustHold(t, s, n)
		entries := int64(segments)
		if got := d.views.Load() - views - entries; got != int64(segments) {
			t.Errorf("%s: blobs in order of %d segments opened %d files", name, segments, got)
		}
		got := d.opened.Load() - before
		assert.True(t, segments > maxIdle && got == maxIdle, "%s: of %d segments %d files are left open, want %d", name,
			segments, got, maxIdle)
	}
	blob := crypto.Sum(batch(n - 1).Blobs[0])
	d.failing.Store(true)
	before := d.opened.Load()
	_, err = reader.Blob(t.Context(), blob)
	assert.True(t, err != nil && d.opened.Load() == before-1, "a file that cannot be read is kept: %v", err)
	d.failing.Store(false)
	mustHold(t, reader, n)
	for range 2 {
		mustClose(t, reader)
		mustClose(t, writer)
	}
	if got := d.opened.Load(); got != 0 {
		t.Errorf("%d files are open after Close", got)
	}
	views := d.views.Load()
	for _, s := range []*Store{writer, reader} {
		_, err := s.Blob(t.Context(), blob)
		assert.True(t, err == errClosed && d.views.Load() == views, "a closed store: %v", err)
	}
}

// A store is closed while blobs are read and erased: each reading ends with the bytes or an error,
// and no file is left open.
func TestClosedWhileRead(t *testing.T) {
	t.Parallel()
	const n, readers = 12, 4
	given, closed := 0, 0
	for round := range 40 {
		d := &countingDisk{Disk: withSecrets(t, n, 1)}
		s, err := open(d, dir, Options{}, small)
		require.NoError(t, err)
		var all sync.WaitGroup
		var some atomic.Int64
		enough := make(chan struct{})
		for r := range readers {
			all.Go(func() {
				for i := r; ; i++ {
					b, err := s.Blob(t.Context(), crypto.Sum(batch(i % n).Blobs[0]))
					if err == errClosed {
						return
					}
					assert.True(t, err == nil && bytes.Equal(b, batch(i % n).Blobs[0]), "%d bytes, %v", len(b), err)
					if some.Add(1) == int64(10+round) {
						close(enough)
					}
				}
			})
		}
		all.Go(func() {
			err := s.EraseBlob(t.Context(), crypto.Sum(secret(1)))
			assert.False(t, err != nil && err != errClosed, "%v", err)
			if _, err := s.Blob(t.Context(), crypto.Sum(secret(1))); err != errClosed && !errors.Is(err,
				proofgraph.ErrNoBlob) {
				t.Error(err)
			}
		})
		<-enough
		mustClose(t, s)
		all.Wait()
		if got := d.opened.Load(); got != 0 {
			t.Fatalf("%d files are open after Close", got)
		}
		given += int(some.Load())
		closed++
	}
	assert.True(t, given >= 400 && closed == 40, "%d blobs, %d stores", given, closed)
}

// An idle file keeps no bytes of a blob: after another process erases it, the next read finds that.
func TestIdleForgets(t *testing.T) {
	t.Parallel()
	d := withSecrets(t, 3, 1)
	s := mustOpen(t, d)
	r, err := openReadOnly(d, dir)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Blob(t.Context(), crypto.Sum(secret(1)))
	require.True(t, err == nil && bytes.Equal(b, secret(1)), "%v", err)
	require.True(t, len(r.idle) == 1, "%d files are idle", len(r.idle))
	mustErase(t, s, 1)
	mustLack(t, r, 1)
}

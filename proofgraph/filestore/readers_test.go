package filestore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// Auditors open the log again and again while it is written to, on real files: they see whole
// batches, at least those that were acknowledged before, and never an error.
func TestAuditorsWhileAWriterRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	s, err := open(unsynced{}, dir, Options{}, small)
	require.NoError(t, err)
	defer s.Close()
	const readers, looks, each = 3, 12, 12 // each look begins with a batch, and others come while it lasts
	var acknowledged atomic.Int64
	looking := make(chan struct{}, readers)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for range looks {
				looking <- struct{}{}
				before := acknowledged.Load()
				r, err := openReadOnly(unsynced{}, dir)
				if err != nil {
					t.Error(err)
					continue
				}
				there := int(r.entries / 2)
				assert.True(t, there >= int(before), "%d batches of %d", there, before)
				assert.NoError(t, matches(r, there))
				r.Close()
			}
		})
	}
	n := 0
	for range readers * looks {
		<-looking
		grow(t, s, n, n+each)
		n += each
		acknowledged.Store(int64(n))
	}
	all.Wait()
}

func TestReadOnlyIsReadOnly(t *testing.T) {
	t.Parallel()
	d := logOf(t, 3).disk()
	s, err := openReadOnly(d, dir)
	require.NoError(t, err)
	assert.ErrorIs(t, s.Append(t.Context(), batch(3)), errReadOnly)
	mustHold(t, s, 3)
	mustClose(t, s)
}

// After an error of the disk nothing is written any more, by any call. The acknowledged batches can
// be read, and are there when the log is opened again.
func TestDeadAfterAnError(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	sick := &failingDisk{Disk: d}
	s, err := open(sick, dir, Options{}, small)
	require.NoError(t, err)
	grow(t, s, 0, 5)
	sick.err = errors.New("the disk failed")
	first := s.Append(t.Context(), batch(5))
	require.True(t, first != nil && strings.Contains(first.Error(), sick.err.Error()) && strings.Contains(first.Error(),
		"offset") && strings.HasPrefix(first.Error(), "filestore: append: log/0000000"), "%v", first)
	sick.err = nil
	for range 3 {
		err := s.Append(t.Context(), batch(5))
		require.True(t, err != nil && err.Error() == first.Error(), "the dead write: %v", err)
	}
	mustHold(t, s, 5)
	mustClose(t, s)
	assert.Error(t, s.Append(t.Context(), batch(5)), "the closed write")
	s = mustOpen(t, d)
	mustHold(t, s, 5)
	grow(t, s, 5, 9)
	mustHold(t, s, 9)
}

// A failingDisk fails while it has an error.
type failingDisk struct {
	disk.Disk
	err error
}

type failingFile struct {
	disk.File
	disk *failingDisk
}

func (d *failingDisk) Create(path string) (disk.File, error) {
	f, err := d.Disk.Create(path)
	return failingFile{f, d}, err
}

func (f failingFile) WriteAt(b []byte, at int64) (int, error) {
	if f.disk.err != nil {
		return 0, f.disk.err
	}
	return f.File.WriteAt(b, at)
}

// A batch that is too large is refused, and the store lives.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, 2)
	b := batch(2)
	piece := make([]byte, 64<<20)
	for range 17 {
		b.Entries = append(b.Entries, contracts.Entry(piece))
	}
	err := s.Append(context.Background(), b)
	assert.True(t, err != nil && strings.Contains(err.Error(), "want at most 1073741824"), "%v", err)
	grow(t, s, 2, 4)
	mustHold(t, s, 4)
}

// A blob that the store has is not written again, nor after a restart.
func TestBlobsAreStoredOnce(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	blob := []byte(strings.Repeat("policy ", 300))
	for i := range 6 {
		s := mustOpen(t, d)
		require.NoError(t,
			s.Append(t.Context(), proofgraph.Batch{At: uint64(i), Entries: []contracts.Entry{[]byte("e")},
				Blobs: [][]byte{blob}}))
		mustClose(t, s)
	}
	total := 0
	for _, b := range filesOf(d) {
		total += strings.Count(string(b), string(blob))
	}
	assert.Equal(t, 1, total, "the blob is there %d times", total)
}
